//! `heaplab snapshot validate`: how far a file is good.

use super::file::{self, Source};
use crate::answer;
use anyhow::Result;
use heaplab_snapshot::validate::validate;
use heaplab_snapshot_view::validate as view;
use heaplab_terminal as terminal;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-validate.txt"))]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let source = Source::open(&args.file, args.quiet || args.json)?;
    let bar = file::bar(args.quiet || args.json, "validating");
    let report = validate(source.bytes(), &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let text = || view::text(&args.file, &report, terminal::columns());
    answer::print(args.json, || view::json(&report), text)?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
