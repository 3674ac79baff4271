//! `heaplab snapshot retainers`: the objects that refer to an object, the nearest to a root first,
//! as DevTools' Retainers.

use super::file::Open;
use super::subject::OfObject;
use anyhow::Result;
use heaplab_snapshot_view::retainers::{Holders, Limits};
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-retainers.txt"))]
pub struct Args {
    #[command(flatten)]
    object: OfObject,
    /// Levels to follow, at most 100
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    depth: u8,
    /// Referrers to show of each object; 0: all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Maximum number of lines, the nearest levels first; the first level is always shown; 0: all
    #[arg(long, value_name = "N", default_value_t = 1000)]
    lines: usize,
}

pub fn run(file: &Path, args: Args, open: Open) -> Result<ExitCode> {
    let all = |number| if number == 0 { usize::MAX } else { number };
    let limits = Limits { depth: args.depth.into(), top: all(args.top), lines: all(args.lines) };
    args.object.answer(file, "heaplab-snapshot-retainers", open, &Holders { limits })
}
