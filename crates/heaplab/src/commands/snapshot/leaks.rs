//! `heaplab snapshot leaks`: the objects that an action leaked, from three snapshots: by the path
//! that holds them, most retained first, with the references to cut.

use super::file::{self, Reading};
use super::object_filter::{ObjectFilter, moment, of_file};
use crate::answer::{self, HtmlFile, file_name};
use crate::usage_error::UsageError;
use anyhow::{Context, Result};
use heaplab_expression::Expression;
use heaplab_snapshot::Snapshot;
use heaplab_snapshot::leaks::{Born, BornError, Cut, Leaks, OwnSizes, grown};
use heaplab_snapshot::query::condition::Condition;
use heaplab_snapshot::query::object::Objects;
use heaplab_snapshot::query::plan::read_condition;
use heaplab_snapshot::session::SnapshotIds;
use heaplab_snapshot_view::leaks::Told;
use heaplab_terminal as terminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-leaks.txt"))]
pub struct Args {
    /// The snapshot before the action
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// The snapshot after the action
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// The snapshot after undoing the action
    #[arg(value_name = "FINAL")]
    last: PathBuf,
    #[command(flatten)]
    asked: Asked,
}

/// Which leaks to show, and how.
#[derive(Debug, clap::Args)]
pub struct Asked {
    /// Count only objects that match this condition of `query`, such as 'detached = 1'
    #[arg(long = "where", value_name = "CONDITION", value_parser = condition)]
    condition: Option<Expression>,
    #[command(flatten)]
    only: ObjectFilter,
    /// Leaks to show; 0: all
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Steps of a path to show, half of them from the root's side; 0: all
    #[arg(long, value_name = "N", default_value_t = 20)]
    steps: usize,
    /// Write JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    #[command(flatten)]
    html: HtmlFile,
    #[command(flatten)]
    reading: Reading,
}

fn condition(text: &str) -> Result<Expression, String> {
    read_condition(text).map_err(|misread| misread.to_string())
}

pub fn run(args: Args) -> Result<ExitCode> {
    args.asked.check()?;
    let files = [&args.base, &args.target, &args.last];
    if let Some(twice) = twice(&files) {
        misasked!("{} is named twice: name three different snapshots", twice.display());
    }
    tell(files, &args.asked, BornError::advice)
}

impl Asked {
    /// Refuses a wrong request before any work.
    pub fn check(&self) -> Result<()> {
        self.html.check()
    }

    /// Whether to show no progress.
    pub fn is_quiet(&self) -> bool {
        self.json || self.reading.quiet
    }
}

/// Prints the leaks between a first, a second and a third snapshot. `advice` is for files that do
/// not follow each other.
pub fn tell(
    files: [&PathBuf; 3],
    args: &Asked,
    advice: fn(&BornError) -> &'static str,
) -> Result<ExitCode> {
    let [base, target, last] = files;
    let of_base = |base: &Snapshot| (SnapshotIds::of(base), OwnSizes::of(base));
    let (base, before) = of_file(base, &args.reading, of_base)?;
    let target = moment(target, &args.reading)?;
    file::analysed(last, &args.reading, None, |analysis| {
        let last = SnapshotIds::of(analysis.snapshot());
        let born = Born::between(&base, &target, &last).map_err(|error| {
            let file = files[error.file()].display();
            UsageError(format!("{file}: {error}; {}", advice(&error)))
        })?;
        drop((base, target, last));
        let spinner = args.reading.spinner("looking for leaks".into());
        let chosen = args.only.chosen(&args.reading, analysis)?;
        let objects = Objects::of(analysis);
        let condition = args.condition.as_ref().map(|text| Condition::new(&objects, text));
        let keep =
            |node| chosen(node) && condition.as_ref().is_none_or(|condition| condition.holds(node));
        let leaks = Leaks::of(analysis, &born, keep);
        let grown = grown(analysis, &before, &born, keep);
        let shown =
            if args.top == 0 { leaks.groups.len() } else { args.top.min(leaks.groups.len()) };
        let cuts: Vec<Cut> = leaks.groups[..shown].iter().map(|leak| leaks.cut(leak)).collect();
        spinner.finish_and_clear();
        let columns = terminal::columns();
        let told = Told {
            analysis,
            leaks: &leaks,
            grown: &grown,
            is_all: args.only.is_all() && args.condition.is_none(),
            steps_max: args.steps,
            columns,
        };
        let born = born.count();
        let names = files.map(|file| file_name(file)).join(", ");
        if args.html.write(|| told.html(&cuts, born, &names))? {
            return Ok(());
        }
        answer::print(args.json, || told.json(&cuts, born), || told.text(&cuts, born))
    })
    .context("no leaks were looked for")?;
    Ok(ExitCode::SUCCESS)
}

fn twice<'p>(files: &[&'p PathBuf; 3]) -> Option<&'p Path> {
    let [base, target, last] = files;
    let both = [(base, target), (target, last), (base, last)];
    both.into_iter().find(|(one, other)| one == other).map(|(one, _)| one.as_path())
}
