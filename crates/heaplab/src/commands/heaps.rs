//! `heaplab heaps`: list every heap there is, with its parameters.

use crate::heaps::{self, Row};
use anyhow::Result;
use std::fmt::Write;
use std::process::ExitCode;

/// Arguments of `heaplab heaps`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab heaps                                        every heap, its version and parameters
  heaplab heaps --json | jq '.[].name'                 the same for a program
  heaplab replay app.heaplab --on glibc,jemalloc:narenas=1,dirty_decay_ms=0
  heaplab replay app.heaplab --on glibc,lib:/usr/lib/x86_64-linux-gnu/libjemalloc.so.2
  heaplab replay jvm.heaplab --on metaspace:jdk17,metaspace:jdk17,reclaim=aggressive,elastic,malloc")]
pub struct Args {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let table = heaps::table();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&table)?)?;
    } else {
        print!("{}", text(&table)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(table: &[Row]) -> Result<String> {
    let mut out = String::new();
    for heap in table {
        let argument = heap.argument.map(|argument| format!(":{argument}")).unwrap_or_default();
        let version = heap.version.as_ref().map(|version| format!(" ({version})")).unwrap_or_default();
        writeln!(out, "{}{argument}{version}\n    {}", heap.name, heap.summary)?;
        if let Some(why) = heap.space_depends_on_time {
            writeln!(out, "    its space is measured in several cells: {why}")?;
        }
        for parameter in &heap.parameters {
            writeln!(out, "    {:<22}{}", parameter.name, parameter.help)?;
            writeln!(out, "    {:<22}{}; default {}", "", parameter.takes, parameter.default)?;
        }
        writeln!(out)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_heap_and_fits_the_terminal() {
        let table = heaps::table();
        let text = text(&table).unwrap();
        for heap in &table {
            assert!(text.lines().any(|line| line.starts_with(&heap.name)), "{}", heap.name);
        }
        assert!(table.iter().any(|heap| heap.name == "metaspace:jdk17") && table.iter().any(|heap| heap.name == "elastic"));
        assert!(
            text.contains(
                "    narenas               arenas that threads share\n                          1 to 4095; default 4 a processor\n"
            ),
            "{text}"
        );
        let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= 100, "{longest}");
    }
}
