//! `heaplab snapshot check`: assertions about a heap, for CI.

use super::file::{self, Open, Reading};
use super::object_filter::{moment, of_file};
use crate::gate::Gate;
use anyhow::{Result, bail};
use heaplab_gate::junit::{Case, Outcome};
use heaplab_gate::{Decision, Doubt};
use heaplab_snapshot::Snapshot;
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::leaks::{Born, OwnSizes};
use heaplab_snapshot::query::assertion::{
    Assertion, Checked, Heap, Older, any_asks, classes_of, counts, unknown_classes,
};
use heaplab_snapshot::query::filter::Wanted;
use heaplab_snapshot::session::SnapshotIds;
use heaplab_snapshot_view::check as view;
use heaplab_terminal as terminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-check.txt"))]
pub struct Args {
    #[command(flatten)]
    gate: Gate,
    /// An older snapshot, for grew(CLASS), added(...) and leaked(...)
    #[arg(long, value_name = "OLDER")]
    since: Option<PathBuf>,
    /// A snapshot older than that of --since, for leaked(...)
    #[arg(long, value_name = "OLDEST", requires = "since")]
    base: Option<PathBuf>,
    /// Count only some objects in functions with a class, as `summary --filter` does
    #[arg(long, value_name = "FILTER")]
    filter: Option<Wanted>,
    #[command(flatten)]
    reading: Reading,
}

pub fn run(file: &Path, args: Args, open: Open) -> Result<ExitCode> {
    args.gate.run("snapshot check", file, Assertion::read, |assertions| {
        let mut older = older(&args, assertions)?;
        file::analysed(file, &args.reading, open, |analysis| {
            older.born = born(&args, file, assertions, &older, analysis)?;
            let unknown = unknown_classes(assertions, &older, analysis);
            let passing = args.filter.as_ref().map(|filter| filter.nodes(analysis)).transpose()?;
            let chosen = |node| passing.as_ref().is_none_or(|passing| passing.contains(node));
            let heap = Heap { analysis, older: &older, chosen: &chosen };
            let checked = assertions.iter().map(|assertion| assertion.check(&heap));
            let checked = checked.collect::<Result<Vec<Checked>, _>>()?;
            let doubt = |(class, near): &(String, String)| Doubt {
                note: format!("no object is of a class {class:?}{near}"),
                failure: "a class is named that no object is of",
            };
            let decision = Decision {
                cases: assertions.iter().zip(&checked).map(case).collect(),
                doubts: unknown.iter().map(doubt).collect(),
                notes: Vec::new(),
            };
            let classes: Vec<&str> = unknown.iter().map(|(class, _)| class.as_str()).collect();
            let json = view::json(assertions, &checked, &classes);
            Ok((decision, json, view::text(assertions, &checked, terminal::columns())))
        })
    })
}

fn case((assertion, checked): (&Assertion, &Checked)) -> Case {
    let values = view::values(checked).join("\n");
    let result = if checked.holds { Outcome::Holds(values) } else { Outcome::Fails(values) };
    Case { name: assertion.text().to_owned(), result }
}

/// The figures of the older snapshot that the assertions need.
fn older(args: &Args, assertions: &[Assertion]) -> Result<Older> {
    let mut older = Older::default();
    let Some(path) = &args.since else {
        if let Some(needed) = Older::needed(assertions) {
            bail!("{needed}");
        }
        return Ok(older);
    };
    if any_asks(assertions, "added") || any_asks(assertions, "leaked") {
        older.moment = Some(moment(path, &args.reading)?);
    }
    if any_asks(assertions, "grew") {
        older.counts = file::analysed(path, &args.reading, None, |analysis| {
            Ok(counts(analysis, classes_of(assertions)))
        })?;
    }
    Ok(older)
}

/// Objects born between the two older snapshots, if an assertion needs them.
fn born(
    args: &Args,
    file: &Path,
    assertions: &[Assertion],
    older: &Older,
    analysis: &Analysis,
) -> Result<Option<(Born, OwnSizes)>> {
    let last = || SnapshotIds::of(analysis.snapshot());
    let Some(target) = &older.moment else { return Ok(None) };
    if any_asks(assertions, "added") && super::diff::warned(target, &last()).is_broken() {
        bail!("added(...) cannot be checked: both files must be of one session");
    }
    if !any_asks(assertions, "leaked") {
        return Ok(None);
    }
    let Some(base) = &args.base else {
        bail!("leaked(...) needs the snapshot before the action, too: --base before.heapsnapshot")
    };
    let of_base = |base: &Snapshot| (SnapshotIds::of(base), OwnSizes::of(base));
    let (ids, sizes) = of_file(base, &args.reading, of_base)?;
    let born = Born::between(&ids, target, &last()).map_err(|error| {
        let files = [Some(base.as_path()), args.since.as_deref(), Some(file)];
        let path = files[error.file()].map(|path| path.display().to_string()).unwrap_or_default();
        anyhow::anyhow!("{path}: {error}")
    })?;
    Ok(Some((born, sizes)))
}
