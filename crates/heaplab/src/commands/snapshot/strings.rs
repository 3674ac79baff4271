//! `heaplab snapshot strings`: strings that are on the heap more than once, or all of them.

use super::file::{self, Open, Reading};
use anyhow::Result;
use heaplab_snapshot::strings::to_text;
use heaplab_snapshot_view::strings::{Row, all, text, write_json};
use heaplab_terminal as terminal;
use heaplab_terminal::output;
use std::cmp::Reverse;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-strings.txt"))]
pub struct Args {
    /// Show all strings, not only duplicates
    #[arg(long)]
    all: bool,
    /// Show only strings that contain this text
    #[arg(long, value_name = "TEXT")]
    containing: Option<String>,
    /// Strings to show; 0: all
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// Write JSON, with whole strings and without a limit on their number
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

pub fn run(file: &Path, args: Args, open: Open) -> Result<ExitCode> {
    file::analysed(file, &args.reading, open, |analysis| {
        let mut rows: Vec<Row> = if args.all {
            all(analysis)
        } else {
            analysis.duplicate_strings().iter().cloned().map(Row::from).collect()
        };
        if let Some(wanted) = &args.containing {
            rows.retain(|row| to_text(row.value(analysis)).contains(wanted.as_str()));
        }
        rows.sort_by_key(|row| Reverse((row.saving_bytes, row.retained_bytes)));
        if args.json {
            output::printed(|out| write_json(analysis, &rows, out))?;
        } else {
            print!("{}", text(analysis, &rows, args.all, args.top, terminal::columns()))?;
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}
