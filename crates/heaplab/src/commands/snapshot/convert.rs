//! `heaplab snapshot convert`: the same heap in the columns of another writer.

use super::file::{self, Source};
use super::rows::{may_write, rewritten};
use crate::output;
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use heaplab_snapshot::rewrite::{Target, convert};
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
An older writer has fewer types of nodes: what it has no type for becomes hidden, and DevTools counts what is hidden with its owner. So
classes can have other figures in the new file; what there is in all stays.")]
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
    /// Take a file in which objects have the same id: the first keeps it, the others get new ones, larger than any
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
    let (_, target) = Target::ALL.into_iter().find(|(name, _)| *name == args.to).context("no such target")?;
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
    if let Some(written) = converted {
        rewritten(args.json, "heaplab-snapshot-convert", &args.output, &written, json!({"to": args.to}))?;
    }
    Ok(ExitCode::SUCCESS)
}
