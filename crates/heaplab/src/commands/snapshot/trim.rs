//! `heaplab snapshot trim`: the memory that some objects retain and the paths to them, small enough
//! for a bug report.

use super::file::{Reading, Source};
use super::object_filter::ObjectFilter;
use super::rewriting::Rewriting;
use anyhow::Result;
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::query::subject::Subject;
use heaplab_snapshot::rewrite::{Trimming, trim};
use heaplab_text::words::bytes;
use heaplab_text::words::count as number;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-trim.txt"))]
pub struct Args {
    #[command(flatten)]
    rewriting: Rewriting,
    /// An object such as @4711, or a class; * stands for any text
    #[arg(value_name = "OBJECT|CLASS")]
    subject: Subject,
    #[command(flatten)]
    only: ObjectFilter,
    /// Objects of a class to keep, the largest retained sizes first; 0: all
    #[arg(long, value_name = "N", default_value_t = 0)]
    objects: usize,
    /// Referrers of each object to keep, with their paths from a root
    #[arg(long, value_name = "N", default_value_t = 3)]
    referrers: usize,
    #[command(flatten)]
    reading: Reading,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let source = args.rewriting.open(args.reading.quiet)?;
    source.analysed(&args.reading, |analysis| trimmed(&args, &source, analysis))?;
    Ok(ExitCode::SUCCESS)
}

fn trimmed(args: &Args, source: &Source, analysis: &Analysis) -> Result<()> {
    let rows = source.rows(args.reading.allow_duplicate_ids)?;
    let mut objects = args.only.of(args.subject.nodes(analysis)?, &args.reading, analysis)?;
    if args.objects > 0 {
        objects.truncate(args.objects);
    }
    let trimming = Trimming { objects: &objects, referrers_max: args.referrers };
    let progress = (args.reading.quiet, "trimming");
    let trimmed = args.rewriting.write(source, progress, true, |out, progress| {
        trim(&rows, analysis, &trimming, out, progress).map(|(_, done)| done)
    })?;
    let ((nodes, nodes_before), (edges, edges_before)) = (trimmed.nodes, trimmed.edges);
    let told = json!({
        "nodes": nodes, "nodes_before": nodes_before, "edges": edges, "edges_before": edges_before,
    });
    args.rewriting.tell("heaplab-snapshot-trim", &trimmed.written, told)?;
    eprintln!(
        "heaplab: kept {} of {} objects; {} of {}",
        number(nodes),
        number(nodes_before),
        bytes(trimmed.written.bytes),
        bytes(source.bytes().len() as u64)
    );
    Ok(())
}
