//! `heaplab snapshot repair`: makes a file that opens from a cut one.

use super::file::Source;
use super::rewriting::Rewriting;
use anyhow::Result;
use heaplab_snapshot::rewrite::repair;
use heaplab_snapshot_view::repair as view;
use heaplab_terminal as terminal;
use heaplab_text::lines;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-repair.txt"))]
pub struct Args {
    #[command(flatten)]
    rewriting: Rewriting,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

pub fn run(args: Args) -> Result<ExitCode> {
    args.rewriting.check()?;
    let source = Source::open_cut(&args.rewriting.file, args.quiet)?;
    let progress = (args.quiet, "repairing");
    let repaired = args.rewriting.write(&source, progress, true, |out, progress| {
        repair(source.bytes(), out, progress).map(|(_, done)| done)
    })?;
    args.rewriting.tell("heaplab-snapshot-repair", &repaired.written, view::json(&repaired))?;
    let text = lines::paragraph(&view::text(&repaired), "heaplab: ", 2, terminal::columns());
    eprintln!("{}", text.trim_end());
    Ok(ExitCode::SUCCESS)
}
