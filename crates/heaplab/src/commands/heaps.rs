//! `heaplab heaps`: list every heap there is, with its parameters.

use anyhow::Result;
use heaplab_system::{HEAPS, Kind, Malloc, NamedHeap, glibc::Glibc, jemalloc::Jemalloc, mimalloc::Mimalloc};
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;

/// Arguments of `heaplab heaps`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab heaps                                        every heap, its version and parameters
  heaplab heaps --json | jq '.[].name'                 the same for a program
  heaplab replay app.heaplab --on glibc,jemalloc:narenas=1,dirty_decay_ms=0
  heaplab replay app.heaplab --on glibc,lib:/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")]
pub struct Args {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    heap: &'static NamedHeap,
    version: Option<String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.json {
        let rows: Vec<Row> = HEAPS.iter().map(|heap| Row { heap, version: version(heap.kind) }).collect();
        println!("{}", serde_json::to_string_pretty(&rows)?)?;
    } else {
        print!("{}", text(version)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn version(kind: Kind) -> Option<String> {
    match kind {
        Kind::Glibc => Some(Glibc.version()),
        Kind::Jemalloc => Some(Jemalloc.version()),
        Kind::Mimalloc => Some(Mimalloc.version()),
        Kind::Library | Kind::Null => None,
    }
}

fn text(version: fn(Kind) -> Option<String>) -> Result<String> {
    let mut out = String::new();
    for heap in HEAPS {
        let argument = heap.argument.map(|argument| format!(":{argument}")).unwrap_or_default();
        let version = version(heap.kind).map(|version| format!(" ({version})")).unwrap_or_default();
        writeln!(out, "{}{argument}{version}\n    {}", heap.name, heap.summary)?;
        if let Some(why) = heap.space_depends_on_time {
            writeln!(out, "    its space is measured in several cells: {why}")?;
        }
        for parameter in heap.parameters {
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
        let text = text(|_| Some(String::from("allocator 1.2.3"))).unwrap();
        for heap in HEAPS {
            assert!(text.lines().any(|line| line.starts_with(heap.name)), "{}", heap.name);
        }
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
