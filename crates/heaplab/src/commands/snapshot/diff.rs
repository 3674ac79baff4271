//! `heaplab snapshot diff`: the difference of two snapshots of a process, as DevTools' Comparison;
//! in a series, the classes that grow every time.

use super::file::{Reading, all_analysed, analysed};
use crate::answer::{self, HtmlFile, file_name};
use anyhow::Result;
use heaplab_expression::Pattern;
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::diff::compare;
use heaplab_snapshot::growth::Candidates;
use heaplab_snapshot::series::{Ended, Series};
use heaplab_snapshot::session::{Session, SnapshotIds};
use heaplab_snapshot_view::diff as view;
use heaplab_terminal as terminal;
use heaplab_text::lines;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-diff.txt"))]
pub struct Args {
    /// The snapshots, the oldest first; with three or more, show classes that grow in each
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    files: Vec<PathBuf>,
    /// Classes to show; 0: all
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// Sort by this column
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "bytes")]
    sort: view::Order,
    /// Show only classes of this name, with their new objects; * stands for any text
    #[arg(long, value_name = "PATTERN")]
    class: Option<String>,
    /// Write JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    #[command(flatten)]
    html: HtmlFile,
    #[command(flatten)]
    reading: Reading,
}

pub fn run(args: Args) -> Result<ExitCode> {
    args.html.check()?;
    match &args.files[..] {
        [_, _] => two(&args)?,
        _ if args.html.is_asked_for() => misasked!("--html compares exactly two snapshots"),
        files => series(&args, files)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn two(args: &Args) -> Result<()> {
    all_analysed(&args.files, &args.reading, &mut |analyses| compared(args, analyses))
}

fn compared(args: &Args, analyses: &[&Analysis]) -> Result<()> {
    let (older, newer) = (analyses[0], analyses[1]);
    let session = warned(&SnapshotIds::of(older.snapshot()), &SnapshotIds::of(newer.snapshot()));
    let bar = args.reading.spinner("comparing".into());
    let mut diffs = compare(older, newer);
    bar.finish_and_clear();
    if let Some(pattern) = args.class.as_deref().map(Pattern::new) {
        diffs.retain(|diff| pattern.fits(&view::name(&diff.name)));
    }
    args.sort.sort(&mut diffs);
    let names = (file_name(&args.files[0]), file_name(&args.files[1]));
    let names = (&*names.0, &*names.1);
    if args.html.write(|| view::html((older, newer), names, &diffs, session))? {
        return Ok(());
    }
    let objects_of = args.class.is_some();
    answer::print(
        args.json,
        || view::json(older, newer, &diffs, session),
        || view::text(older, newer, &diffs, args.top, objects_of, terminal::columns()),
    )
}

/// Whether equal ids are equal objects; warns if not.
pub fn warned(older: &SnapshotIds, newer: &SnapshotIds) -> Session {
    let session = Session::of(older, newer);
    warn(&session);
    session
}

fn warn(session: &Session) {
    if let Some(text) = view::warning(session) {
        eprintln!("{}", lines::paragraph(&text, "heaplab: ", 2, terminal::columns()).trim_end());
    }
}

fn series(args: &Args, files: &[PathBuf]) -> Result<()> {
    let mut series = Series::default();
    for path in files.iter().rev() {
        analysed(path, &args.reading, None, |analysis| {
            let session = series.older(analysis);
            session.filter(|session| session.reversed.is_some()).iter().for_each(warn);
            Ok(())
        })?;
    }
    let Ended { totals, mut growing, candidates, one_session } = series.end();
    if let Some(pattern) = args.class.as_deref().map(Pattern::new) {
        growing.retain(|class| pattern.fits(&view::class_of_key(&class.key)));
    }
    args.sort.sort_series(&mut growing);
    let newest = files.last().unwrap_or(&files[0]);
    let holders = if one_session { holders(args, newest, candidates)? } else { Vec::new() };
    let columns = terminal::columns();
    answer::print(
        args.json,
        || view::series_json(&totals, &growing, one_session, &holders),
        || {
            view::series_text(&totals, &growing, args.top, columns)
                + &view::holders_text(&holders, args.top, columns)
        },
    )
}

/// Reads the newest snapshot once more, to name the objects that retain more each time.
fn holders(args: &Args, newest: &Path, candidates: Candidates) -> Result<Vec<view::Holder>> {
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    analysed(newest, &args.reading, None, |analysis| {
        let mut lowest = candidates.lowest(analysis);
        if args.top > 0 {
            lowest.truncate(args.top);
        }
        Ok(lowest.into_iter().map(|found| view::Holder::of(analysis, found)).collect())
    })
}
