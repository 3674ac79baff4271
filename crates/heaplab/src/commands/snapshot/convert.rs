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

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-convert.txt"))]
pub struct Args {
    #[command(flatten)]
    rewriting: Rewriting,
    /// The writer whose format to use, or the layout of lines
    #[arg(long, value_name = "TARGET", value_parser = PossibleValuesParser::new(Target::ALL.map(|(name, _)| name)))]
    to: String,
    /// Accept several objects of the same id: all but the first get new ids above existing ones
    #[arg(long)]
    allow_duplicate_ids: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

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
