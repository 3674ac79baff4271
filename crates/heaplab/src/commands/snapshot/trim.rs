//! `heaplab snapshot trim`: what some objects retain and what leads to them, small enough for a bug
//! report.

use super::file::{self, Reading, Source};
use super::only::Only;
use super::rewriting::{may_write, rewritten};
use crate::output;
use anyhow::Result;
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::query::subject::Subject;
use heaplab_snapshot::rewrite::{Trimming, trim};
use heaplab_text::words::bytes;
use heaplab_text::words::count as number;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `heaplab snapshot trim`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab snapshot trim a.heapsnapshot Session -o bug.heapsnapshot
  heaplab snapshot trim a.heapsnapshot 'Detached *' --objects 20 \\
      -o bug.heapsnapshot
  heaplab snapshot trim a.heapsnapshot @4711 --referrers 10 -o bug.heapsnapshot

Ids and sizes stay, and with them what the other commands answer; but an object
may retain more than before: what it shared with holders that are gone. Strings
stay too: redact the file to share it.")]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An object such as @4711, or a class; * stands for any text
    #[arg(value_name = "OBJECT|CLASS")]
    subject: Subject,
    #[command(flatten)]
    only: Only,
    /// Objects of a class to keep, those that retain most; 0: all
    #[arg(long, value_name = "N", default_value_t = 0)]
    objects: usize,
    /// Referrers of each object that are kept, with their ways from a root
    #[arg(long, value_name = "N", default_value_t = 3)]
    referrers: usize,
    /// The file to write; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write what was done as JSON; not with -o -
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    may_write(args.json, &args.file, &args.output)?;
    let source = Source::open(&args.file, args.reading.is_quiet())?;
    let snapshot = source.read(&args.reading)?;
    let rows = source.rows(args.reading.allows_duplicate_ids())?;
    let spinner = args.reading.spinner("analysing".into())?;
    let analysis = Analysis::of(&snapshot, &args.reading.options());
    let mut objects = args.only.of(args.subject.nodes(&analysis)?, &args.reading, &analysis)?;
    spinner.finish_and_clear();
    if args.objects > 0 {
        objects.truncate(args.objects);
    }
    let trimming = Trimming { objects: &objects, referrers_max: args.referrers };
    let bar = file::bar(args.reading.is_quiet(), "trimming")?;
    let mut trimmed = None;
    output::write_private(&args.output, false, |out| {
        let (_, done) = trim(&rows, &analysis, &trimming, out, &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        })
        .map_err(|error| source.not_rewritten(error))?;
        trimmed = Some(done);
        Ok(())
    })?;
    bar.finish_and_clear();
    if let Some(trimmed) = trimmed {
        let (nodes, edges) = (trimmed.nodes, trimmed.edges);
        let told = json!({"nodes": nodes.0, "nodes_before": nodes.1, "edges": edges.0, "edges_before": edges.1});
        rewritten(args.json, "heaplab-snapshot-trim", &args.output, &trimmed.written, told)?;
        let ((kept, all), was) = (trimmed.nodes, bytes(source.bytes().len() as u64));
        eprintln!(
            "heaplab: kept {} of {} objects; {} of {was}",
            number(kept),
            number(all),
            bytes(trimmed.written.bytes)
        );
    }
    Ok(ExitCode::SUCCESS)
}
