//! `heaplab heaps`: list every heap there is, with its parameters.

use crate::{answer, heaps};
use anyhow::Result;
use heaplab_heap::Row;
use heaplab_terminal as terminal;
use heaplab_text::lines::paragraph;
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
    answer::print_pretty(args.json, &table, || text(&table, terminal::columns()))?;
    Ok(ExitCode::SUCCESS)
}

fn text(table: &[Row], columns: usize) -> String {
    const PARAMETER: usize = 26;
    let mut out = paragraph(heaps::SYNTAX, "", 0, columns);
    out.push('\n');
    for (nth, heap) in table.iter().enumerate() {
        let argument = heap.argument.map(|argument| format!(":{argument}")).unwrap_or_default();
        let version =
            heap.version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
        out += &format!("{}{argument}{version}\n", heap.name);
        out += &paragraph(heap.summary, "    ", 4, columns);
        if let Some(why) = heap.space_depends_on_time {
            out += &paragraph(
                &format!("its space is measured in several cells: {why}"),
                "    ",
                4,
                columns,
            );
        }
        if let Some(earlier) = table[..nth].iter().find(|earlier| takes_the_same(earlier, heap)) {
            out += &format!("    parameters: those of {}\n\n", earlier.name);
            continue;
        }
        for parameter in &heap.parameters {
            out += &paragraph(
                parameter.help,
                &format!("    {:<22}", parameter.name),
                PARAMETER,
                columns,
            );
            out += &paragraph(
                &format!("{}; default {}", parameter.takes, parameter.default),
                "",
                PARAMETER,
                columns,
            );
        }
        if let Some(example) = heap.example {
            out += &paragraph(&format!("for example {example}"), "    ", 4, columns);
        }
        out.push('\n');
    }
    out
}

/// Whether two heaps of one family have the same parameters: they are listed once.
fn takes_the_same(earlier: &Row, heap: &Row) -> bool {
    let family = |row: &Row| row.name.split(':').next().unwrap_or_default().to_owned();
    let names =
        |row: &Row| row.parameters.iter().map(|parameter| parameter.name).collect::<Vec<_>>();
    !heap.parameters.is_empty() && family(earlier) == family(heap) && names(earlier) == names(heap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_heap_and_fits_the_terminal() {
        let table = heaps::FAMILIES.rows();
        let text = text(&table, 80);
        for heap in &table {
            assert!(text.lines().any(|line| line.starts_with(&heap.name)), "{}", heap.name);
            // An example is what the command line takes, of the same family.
            let family = heap.name.split(':').next().unwrap_or_default();
            let parsed = heap.example.filter(|example| {
                heaps::parse_list(example).is_ok_and(|list| list[0].to_string().starts_with(family))
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
                "    narenas               arenas that threads share\n                          1 to 4095; default 4 a processor\n"
            ),
            "{text}"
        );
        let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= 80, "{longest}");
    }
}
