//! `heaplab heaps`: list every heap there is, with its parameters.

use crate::{answer, heaps};
use anyhow::Result;
use heaplab_experiment::heap_list::text;
use heaplab_terminal as terminal;
use std::process::ExitCode;

/// Arguments of `heaplab heaps`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/heaps.txt"))]
pub struct Args {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let table = heaps::FAMILIES.rows();
    answer::print_pretty(args.json, &table, || text(heaps::SYNTAX, &table, terminal::columns()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_heap_and_fits_the_terminal() {
        let table = heaps::FAMILIES.rows();
        let text = text(heaps::SYNTAX, &table, 80);
        for heap in &table {
            assert!(text.lines().any(|line| line.starts_with(&heap.name)), "{}", heap.name);
            // An example is what the command line takes, of the same family.
            let family = heap.name.split(':').next().unwrap_or_default();
            let parsed = heap.example.filter(|example| {
                heaps::FAMILIES
                    .parse_list(example)
                    .is_ok_and(|list| list[0].to_string().starts_with(family))
            });
            assert_eq!(parsed, heap.example);
            assert!(heap.parameters.is_empty() || heap.example.is_some(), "{}", heap.name);
        }
        assert!(
            table.iter().any(|heap| heap.name == "metaspace:jdk17")
                && table.iter().any(|heap| heap.name == "elastic")
        );
        assert!(
            text.contains(
                "    narenas               number of arenas; threads share them\n                          1 to 4095; default 4 a processor\n"
            ),
            "{text}"
        );
        let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= 80, "{longest}");
    }
}
