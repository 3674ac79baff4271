//! `heaplab snapshot query`: objects as rows: filter, group, sort, top; as text, JSON or Parquet.

use super::file::{self, Open, Reading};
use super::object_filter::ObjectFilter;
use anyhow::Result;
use heaplab_snapshot::query::answer::Answer;
use heaplab_snapshot::query::plan::Plan;
use heaplab_snapshot_view::query as view;
use heaplab_terminal as terminal;
use heaplab_terminal::{output, whole_file};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Rows of text for a query without `top`.
const ROWS_SHOWN: usize = 20;
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-query.txt"))]
pub struct Args {
    /// The query; an empty text selects all objects
    #[arg(value_name = "QUERY")]
    query: String,
    #[command(flatten)]
    only: ObjectFilter,
    /// Write Parquet to this file
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

pub fn run(file: &Path, args: Args, open: Open) -> Result<ExitCode> {
    let mut plan = match Plan::read(&args.query) {
        Ok(plan) => plan,
        Err(misread) => {
            eprintln!("heaplab snapshot query: {misread}");
            return Ok(ExitCode::from(2));
        }
    };
    let as_text = !args.json && args.output.is_none();
    if as_text && plan.top.is_none() {
        plan.top = Some(ROWS_SHOWN);
    }
    file::analysed(file, &args.reading, open, |analysis| {
        let chosen = args.only.chosen(&args.reading, analysis)?;
        let answer = Answer::of(analysis, &plan, chosen);
        match &args.output {
            Some(path) => {
                whole_file::write_private(path, true, |out| Ok(view::parquet::write(&answer, out)?))
            }
            None if args.json => Ok(output::printed(|out| view::write_json(&answer, out))?),
            None => Ok(print!("{}", view::text(&answer, terminal::columns()))?),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
