//! `heaplab snapshot path`: the shortest path from a root to an object; for a class, the paths of
//! all its objects, equal ones together.
//!
//! Other paths may keep the object alive when the shortest is cut. But each step of the shortest
//! goes to the retainer nearest to a root: DevTools opens it first, and it names the culprit most
//! often.

use super::file::{self, Open, Reading};
use super::object_filter::ObjectFilter;
use crate::answer;
use anyhow::Result;
use heaplab_snapshot::query::subject::Subject;
use heaplab_snapshot::shortest_paths::ShortestPaths;
use heaplab_snapshot_view::path as view;
use heaplab_terminal as terminal;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-path.txt"))]
pub struct Args {
    /// An object such as @4711, or a class; * stands for any text
    #[arg(value_name = "OBJECT|CLASS")]
    subject: Subject,
    #[command(flatten)]
    only: ObjectFilter,
    /// Different paths to show; 0: all
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Steps of a path to show, half of them from the root's side; 0: all
    #[arg(long, value_name = "N", default_value_t = 40)]
    steps: usize,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

pub fn run(file: &Path, args: Args, open: Open) -> Result<ExitCode> {
    file::analysed(file, &args.reading, open, |analysis| {
        let nodes = args.only.of(args.subject.nodes(analysis)?, &args.reading, analysis)?;
        let mut ways = ShortestPaths::new(analysis, analysis.backward(), args.steps);
        let groups = ways.groups(&nodes);
        let shown = if args.top == 0 { groups.len() } else { args.top.min(groups.len()) };
        answer::print(
            args.json,
            || view::json(&ways, &nodes, &groups, shown),
            || view::text(&ways, &nodes, &groups, shown, terminal::columns()),
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
