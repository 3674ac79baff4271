//! `heaplab snapshot check`: assertions about a heap, for CI.

use super::file::{self, Open, Reading};
use super::only::moment;
use crate::answer;
use crate::commands::check::{junit_file, may_write_junit};
use anyhow::{Result, bail, ensure};
use heaplab_expression::{Misread, Pattern};
use heaplab_gate::junit::{Case, Outcome};
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::leaks::Born;
use heaplab_snapshot::query::assertion::{Asked, Assertion, Checked, Heap, Older, counts};
use heaplab_snapshot::query::filter::Wanted;
use heaplab_snapshot::query::subject::{classes, suggestion};
use heaplab_snapshot::session::Moment;
use heaplab_snapshot_view::check as view;
use heaplab_terminal as terminal;
use heaplab_terminal::bus;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `heaplab snapshot check`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../../help/snapshot-check.txt"))]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What has to hold (may be repeated)
    #[arg(long = "assert", value_name = "ASSERTION", required = true, allow_hyphen_values = true)]
    assertions: Vec<String>,
    /// An older snapshot, for grew(CLASS), added(...) and leaked(...)
    #[arg(long, value_name = "OLDER")]
    since: Option<PathBuf>,
    /// One that is older than that of --since, for leaked(...)
    #[arg(long, value_name = "OLDEST", requires = "since")]
    base: Option<PathBuf>,
    /// Let functions with a class look at some objects only, as `summary --filter` does
    #[arg(long, value_name = "FILTER")]
    filter: Option<Wanted>,
    /// Fail where a class is named that no object is of
    #[arg(long)]
    strict: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Write a JUnit file, too, for a CI server
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

/// Runs the command.
pub fn run(args: Args, open: Open) -> Result<ExitCode> {
    bus::exits_with(2);
    may_write_junit(args.junit.as_deref())?;
    let read: Result<Vec<Assertion>, Misread> =
        args.assertions.iter().map(|text| Assertion::read(text)).collect();
    let assertions = match read {
        Ok(assertions) => assertions,
        Err(misread) => {
            eprintln!("heaplab snapshot check: {misread}");
            return unchecked(&args, &misread.to_string());
        }
    };
    let mut unknown: Vec<(String, String)> = Vec::new();
    let checked = older(&args, &assertions).and_then(|mut older| {
        file::analysed(&args.file, &args.reading, open, |analysis| {
            older.born = born(&args, &assertions, &older, analysis)?;
            for class in classes_of(&assertions) {
                let pattern = Pattern::new(class.clone());
                if !classes(analysis, &pattern).contains(&true)
                    && older.counts.get(&class).is_none_or(|count| *count == 0)
                {
                    let near = suggestion(analysis, &pattern);
                    unknown.push((class, near));
                }
            }
            let passing = args.filter.as_ref().map(|filter| filter.nodes(analysis)).transpose()?;
            let chosen = |node| passing.as_ref().is_none_or(|passing| passing.contains(node));
            let heap = Heap { analysis, older: &older, chosen: &chosen };
            let check = |assertion: &Assertion| Ok(assertion.check(&heap)?);
            assertions.iter().map(check).collect::<Result<Vec<Checked>>>()
        })
    });
    let checked = match checked {
        Ok(checked) => checked,
        Err(error) => {
            eprintln!("heaplab snapshot check: {error:#}");
            return unchecked(&args, &format!("{error:#}"));
        }
    };
    let failed = checked.iter().filter(|checked| !checked.holds).count();
    for (class, near) in &unknown {
        eprintln!("heaplab snapshot check: note: no object is of a class {class:?}{near}");
    }
    let classes: Vec<&str> = unknown.iter().map(|(class, _)| class.as_str()).collect();
    answer::print(
        args.json,
        || view::json(&assertions, &checked, &classes),
        || view::text(&assertions, &checked, terminal::columns()),
    )?;
    let mut cases: Vec<Case> = assertions.iter().zip(&checked).map(case).collect();
    if args.strict {
        cases.extend(unknown.iter().map(|(class, near)| Case {
            name: format!("no object is of a class {class:?}{near}"),
            result: Outcome::Fails("a class is named that no object is of".into()),
        }));
    }
    written(&args, &cases)?;
    Ok(ExitCode::from(u8::from(failed > 0 || (args.strict && !unknown.is_empty()))))
}

fn case((assertion, checked): (&Assertion, &Checked)) -> Case {
    let value = |asked: &Asked| format!("{} is {}", asked.call, view::shown(asked));
    let values = checked.asked.iter().map(value).collect::<Vec<_>>().join("\n");
    let result = if checked.holds { Outcome::Holds(values) } else { Outcome::Fails(values) };
    Case { name: assertion.text().to_owned(), result }
}

/// Nothing could be checked: each assertion is an error of the JUnit file.
fn unchecked(args: &Args, why: &str) -> Result<ExitCode> {
    written(args, &Case::unchecked(&args.assertions, why))?;
    Ok(ExitCode::from(2))
}

fn written(args: &Args, cases: &[Case]) -> Result<()> {
    let suite = format!("heaplab snapshot check {}", args.file.display());
    junit_file(args.junit.as_deref(), &suite, cases)
}

/// The classes that are named.
fn classes_of(assertions: &[Assertion]) -> BTreeSet<String> {
    assertions.iter().flat_map(Assertion::classes).collect()
}

/// What the assertions ask of the older snapshot.
fn older(args: &Args, assertions: &[Assertion]) -> Result<Older> {
    let asks = |function: &str| assertions.iter().any(|assertion| assertion.asks_for(function));
    let Some(path) = &args.since else {
        for function in ["grew", "added"] {
            ensure!(
                !asks(function),
                "{function}(...) needs an older snapshot: --since before.heapsnapshot"
            );
        }
        ensure!(
            !asks("leaked"),
            "leaked(...) needs two older snapshots: --base before.heapsnapshot --since after.heapsnapshot"
        );
        return Ok(Older::default());
    };
    let mut older = Older::default();
    if asks("added") || asks("leaked") {
        older.moment = Some(moment(path, &args.reading)?);
    }
    if asks("grew") {
        older.counts = file::analysed(path, &args.reading, None, |analysis| {
            Ok(counts(analysis, classes_of(assertions)))
        })?;
    }
    Ok(older)
}

/// What was born between the two older snapshots, where that is asked for.
fn born(
    args: &Args,
    assertions: &[Assertion],
    older: &Older,
    analysis: &Analysis,
) -> Result<Option<Born>> {
    let last = || Moment::of(analysis.snapshot());
    let asks = |function: &str| assertions.iter().any(|assertion| assertion.asks_for(function));
    let Some(target) = &older.moment else { return Ok(None) };
    if asks("added") {
        super::diff::warned(target, &last());
    }
    if !asks("leaked") {
        return Ok(None);
    }
    let Some(base) = &args.base else {
        bail!("leaked(...) needs the snapshot before the action, too: --base before.heapsnapshot")
    };
    Born::between(&moment(base, &args.reading)?, target, &last()).map(Some).map_err(|error| {
        let files = [Some(base), args.since.as_ref(), Some(&args.file)];
        let path = files[error.file()].map(|path| path.display().to_string()).unwrap_or_default();
        anyhow::anyhow!("{path}: {error}")
    })
}
