//! `heaplab snapshot repair`: a file that opens, from one that was cut.

use super::file::{self, Source};
use super::rewriting::{may_write, rewritten};
use crate::{output, terminal};
use anyhow::Result;
use heaplab_snapshot::rewrite::repair;
use heaplab_snapshot_view::repair as view;
use heaplab_text::lines;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `heaplab snapshot repair`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # what a target that died had sent
  heaplab snapshot repair a.heapsnapshot.part -o a.heapsnapshot
  heaplab snapshot repair a.heapsnapshot -o b.heapsnapshot --json | \\
      jq '.edges, .lost_names'

A snapshot has its objects first, then references, then names. What is not in
the file any more is said on standard error: references, without which retained
sizes and distances are those of what there is; names, which are called
`(lost name 17)` then, equal ones alike. With only the last brackets gone nothing
is missing. Ids and own sizes stay.")]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write what was done as JSON; not with -o -
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    may_write(args.json, &args.file, &args.output)?;
    let source = Source::open(&args.file, args.quiet)?;
    let bar = file::bar(args.quiet, "repairing")?;
    let mut done = None;
    output::write_private(&args.output, false, |out| {
        let (_, repaired) = repair(source.bytes(), out, &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        })
        .map_err(|error| source.not_rewritten(error))?;
        done = Some(repaired);
        Ok(())
    })?;
    bar.finish_and_clear();
    let Some(repaired) = done else { return Ok(ExitCode::SUCCESS) };
    rewritten(
        args.json,
        "heaplab-snapshot-repair",
        &args.output,
        &repaired.written,
        view::json(&repaired),
    )?;
    let text = lines::paragraph(&view::text(&repaired), "heaplab: ", 2, terminal::columns());
    eprintln!("{}", text.trim_end());
    Ok(ExitCode::SUCCESS)
}
