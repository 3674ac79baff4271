//! `heaplab heaps`: list every heap there is, with its parameters.

use crate::{answer, heaps};
use anyhow::Result;
use heaplab_experiment::heap_list::text;
use heaplab_terminal as terminal;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/heaps.txt"))]
pub struct Args {
    /// Only heaps of this name or family (v8, metaspace:jdk17)
    #[arg(value_name = "HEAP")]
    heap: Option<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let mut table = heaps::FAMILIES.rows();
    if let Some(wanted) = &args.heap {
        table.retain(|heap| is_of(wanted, &heap.name));
        if table.is_empty() {
            misasked!("there is no heap {wanted:?}; heaplab heaps lists all");
        }
    }
    answer::print_pretty(args.json, &table, || text(heaps::SYNTAX, &table, terminal::columns()))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether `wanted` is the heap's name or its family's.
fn is_of(wanted: &str, name: &str) -> bool {
    let behind = name.strip_prefix(wanted);
    behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_all_its_heaps_and_a_name_is_one() {
        let table = heaps::FAMILIES.rows();
        let count = |wanted| table.iter().filter(|heap| is_of(wanted, &heap.name)).count();
        assert!(count("v8") > 20 && count("metaspace") == 4, "{}", count("v8"));
        assert_eq!([count("v8:many"), count("ocaml"), count("v"), count("")], [1, 3, 0, 0]);
    }

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
