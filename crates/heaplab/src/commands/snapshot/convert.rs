//! `heaplab snapshot convert`: the same heap in the columns of another writer.

use super::file::{self, Source};
use super::rewriting::{may_write, rewritten};
use crate::{output, terminal};
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use heaplab_snapshot::rewrite::{Converted, Target, convert};
use heaplab_snapshot_view::convert as view;
use heaplab_text::lines;
use serde_json::json;
use std::path::PathBuf;
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
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Whose columns, or how many rows a line
    #[arg(long, value_name = "TARGET", value_parser = PossibleValuesParser::new(Target::ALL.map(|(name, _)| name)))]
    to: String,
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write what was done as JSON; not with -o -
    #[arg(long)]
    json: bool,
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
    may_write(args.json, &args.file, &args.output)?;
    let source = Source::open(&args.file, args.quiet)?;
    let rows = source.rows(args.allow_duplicate_ids)?;
    let (_, target) =
        Target::ALL.into_iter().find(|(name, _)| *name == args.to).context("no such target")?;
    let bar = file::bar(args.quiet, "converting")?;
    let mut converted = None;
    output::write_private(&args.output, false, |out| {
        let (_, written) = convert(&rows, target, out, &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        })
        .map_err(|error| source.not_rewritten(error))?;
        converted = Some(written);
        Ok(())
    })?;
    bar.finish_and_clear();
    if let Some(Converted { written, lost }) = converted {
        rewritten(
            args.json,
            "heaplab-snapshot-convert",
            &args.output,
            &written,
            json!({"to": args.to, "lost": view::json(&lost)}),
        )?;
        let losses = view::losses(&lost);
        if !losses.is_empty() {
            let text = format!(
                "not in the new file: {}. --help says what that changes",
                losses.join("; ")
            );
            eprintln!(
                "{}",
                lines::paragraph(&text, "heaplab: ", 2, terminal::columns()).trim_end()
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
