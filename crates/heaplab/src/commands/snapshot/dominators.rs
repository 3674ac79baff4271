//! `heaplab snapshot dominators`: which object keeps which alive. The objects that an object
//! dominates die with it.

use super::file::{self, Open, Reading};
use crate::answer;
use anyhow::Result;
use heaplab_snapshot::query::subject::Subject;
use heaplab_snapshot_view::dominators::Tree;
use heaplab_terminal as terminal;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-dominators.txt"))]
pub struct Args {
    /// An object such as @4711, or a class, for its largest object [default: the root]
    #[arg(value_name = "OBJECT")]
    subject: Option<Subject>,
    /// Levels to follow, at most 100
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    depth: u8,
    /// Dominated objects to show for each object; 0: all
    #[arg(long, value_name = "N", default_value_t = 8)]
    top: usize,
    /// Leave out objects that retain less than this percentage of the heap
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5)]
    least: f64,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

pub fn run(file: &Path, args: Args, open: Open) -> Result<ExitCode> {
    file::analysed(file, &args.reading, open, |analysis| {
        let root = analysis.snapshot().graph.root();
        let node = args.subject.as_ref().map_or(Ok(root), |subject| subject.node(analysis))?;
        let top = if args.top == 0 { usize::MAX } else { args.top };
        let least_bytes = (analysis.total_bytes() as f64 * args.least / 100.0) as u64;
        let tree = Tree::of(analysis, top, least_bytes);
        let depth = args.depth.into();
        answer::print(
            args.json,
            || tree.answer(node, depth),
            || tree.lines(node, depth, terminal::columns()).to_string(),
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
