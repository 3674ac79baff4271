//! `heaplab snapshot convert`: the same heap in the columns of another writer.

use super::rewriting::Rewriting;
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use heaplab_snapshot::rewrite::{Converted, Target, convert};
use heaplab_snapshot_view::convert as view;
use heaplab_terminal as terminal;
use heaplab_text::lines;
use serde_json::json;
use std::process::ExitCode;

/// Arguments of `heaplab snapshot convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab snapshot convert python.heapsnapshot --to node20 -o b.heapsnapshot
  # a row a line
  heaplab snapshot convert a.heapsnapshot --to lines -o - | grep ...
  heaplab snapshot convert a.heapsnapshot --to compact -o small.heapsnapshot

same: as it is, with every list, in DevTools' order, each string once.
Another writer may have no place for something. What is lost is counted on
standard error, and with --json in `lost`:
  to node12, node16  nodes of types `object shape` and `wasm object` are hidden
  to node24          `wasm object` too; DevTools counts what is hidden with what
                     alone refers to it, or in (system)
  to node12          which nodes are attached, detached: Detached <div> is <div>
  to node12 .. 20    bytes outside of the heap: the total is less by so many
  to node24          where nodes were allocated, if no function is named
  to any Node        Chromium's scopes, and the nodes of locations' scripts
  from node12        nodes that only their names call detached are so no more
  always             columns and lists that heaplab does not know
DevTools answers about the new file as about the old one without all that, and
nothing else changes: objects, ids, references, names, own bytes in the file.")]
pub struct Args {
    #[command(flatten)]
    rewriting: Rewriting,
    /// Whose columns, or how many rows a line
    #[arg(long, value_name = "TARGET", value_parser = PossibleValuesParser::new(Target::ALL.map(|(name, _)| name)))]
    to: String,
    /// Take a file in which objects have the same id: the first keeps it, the others get new ones,
    /// larger than any
    #[arg(long)]
    allow_duplicate_ids: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let source = args.rewriting.open(args.quiet)?;
    let rows = source.rows(args.allow_duplicate_ids)?;
    let (_, target) =
        Target::ALL.into_iter().find(|(name, _)| *name == args.to).context("no such target")?;
    let progress = (args.quiet, "converting");
    let Converted { written, lost } =
        args.rewriting.write(&source, progress, true, |out, progress| {
            convert(&rows, target, out, progress).map(|(_, done)| done)
        })?;
    let told = json!({"to": args.to, "lost": view::json(&lost)});
    args.rewriting.tell("heaplab-snapshot-convert", &written, told)?;
    let losses = view::losses(&lost).join("; ");
    if !losses.is_empty() {
        let text = format!("not in the new file: {losses}. --help says what that changes");
        eprintln!("{}", lines::paragraph(&text, "heaplab: ", 2, terminal::columns()).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}
