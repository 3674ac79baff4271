//! `heaplab track bisect`: the commit of a step.

use super::measure::{Bench, Built};
use super::{BisectArgs, commits, measure_one};
use crate::misasked::Misasked;
use anyhow::{Result, bail};
use heaplab_text::shell;
use heaplab_track::bisect::{Decision, Found, Side, search};
use heaplab_track::run::Commit;
use heaplab_track::store::{Store, Writer};
use heaplab_track::text::signed;
use heaplab_track::{Figure, History};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is looked for.
struct Wanted {
    range: String,
    phase: String,
}

/// Runs the command.
pub fn run(args: &BisectArgs, stop: &AtomicBool) -> Result<ExitCode> {
    let folder = args.place.store()?;
    let store = Store::open(&folder)?;
    let repository = match &args.place.repository {
        None => heaplab_track::repository::Repository::of(store.subject().repository.as_ref())?,
        Some(_) => args.place.repository()?,
    };
    let wanted = wanted(args, &History::of(&store)?)?;
    let subject = store.subject().clone();
    drop(store);
    let mut writer = Writer::open(&folder, &subject)?;
    let all = repository.commits(&wanted.range)?;
    let bench = Bench::new(repository, writer.store(), args.limits, args.keep, stop)?;
    eprintln!(
        "looking for the step of {} among {}, about {} to measure",
        title(args.of, &wanted.phase),
        commits(all.len() - 1),
        commits(all.len().ilog2() as usize)
    );
    let mut measure = |at: usize| measured(&bench, &mut writer, &all[at], args, &wanted.phase);
    let mut tell = |decision: &Decision| told(decision, &all[decision.at], args.of);
    let found = search(all.len(), &mut measure, &mut tell);
    let found = match found {
        Err(_) if stop.load(Ordering::Relaxed) => {
            eprintln!(
                "heaplab track: interrupted; what was measured is kept, and asking again goes on"
            );
            return Ok(ExitCode::SUCCESS);
        }
        other => other?,
    };
    said(&found, &all, args, &wanted, writer.store())
}

fn title(figure: Figure, phase: &str) -> String {
    match figure {
        Figure::Allocations | Figure::Requested => figure.title().into(),
        _ => format!("{} at {phase}", figure.title()),
    }
}

/// The range and the phase that were asked for, or those of the largest step.
fn wanted(args: &BisectArgs, history: &History) -> Result<Wanted> {
    let is_asked =
        |phase: &str| args.phase.as_deref().is_none_or(|asked| asked == phase || phase.is_empty());
    let series = || history.of_figure(args.of).filter(|series| is_asked(&series.phase));
    if series().next().is_none() && args.between.is_none() {
        let there: Vec<&str> =
            history.of_figure(args.of).map(|series| series.phase.as_str()).collect();
        let reason = format!("no run has such a phase; there are {}", there.join(", "));
        return Err(Misasked(reason).into());
    }
    let steps = || series().flat_map(|series| series.steps.iter().map(move |step| (series, step)));
    let largest = steps()
        .filter(|(_, step)| step.candidates > 1)
        .max_by(|a, b| a.1.share().abs().total_cmp(&b.1.share().abs()));
    let phase = |found: Option<&str>| {
        args.phase.clone().unwrap_or_else(|| found.unwrap_or("peak").to_owned())
    };
    if let Some(range) = &args.between {
        return Ok(Wanted { range: range.clone(), phase: phase(None) });
    }
    let Some((series, step)) = largest else {
        let reason = if steps().next().is_some() {
            "the commit of every step is known already (heaplab track show); --between names other commits"
        } else {
            "the history has no step (heaplab track show); --between names the commits to look between"
        };
        return Err(Misasked(reason.into()).into());
    };
    let id = |at: usize| &history.commits[at].commit.id;
    Ok(Wanted {
        range: format!("{}..{}", id(step.earliest), id(step.latest)),
        phase: phase(Some(&series.phase)),
    })
}

/// The runs of a commit, measured now where they are not in the store.
fn measured(
    bench: &Bench,
    writer: &mut Writer,
    commit: &Commit,
    args: &BisectArgs,
    phase: &str,
) -> Result<Option<Vec<f64>>> {
    let (there, has_failed) = writer.store().of_commit(&commit.id);
    if there < args.runs && !(there == 0 && has_failed) {
        eprintln!("measuring {} {}", commit.short(), commit.subject);
        if measure_one(bench, writer, commit, args.runs - there)? == Built::Stopped {
            bail!("interrupted");
        }
    }
    let runs = writer.store().runs().iter().filter(|run| run.commit.id == commit.id);
    let values: Vec<f64> = runs
        .filter_map(|run| args.of.of(run.figures()?, phase))
        .map(|value| value as f64)
        .collect();
    if values.is_empty() {
        eprintln!("{} cannot be measured (heaplab track show says why)", commit.short());
    }
    Ok((!values.is_empty()).then_some(values))
}

fn told(decision: &Decision, commit: &Commit, figure: Figure) {
    let range = |of: &heaplab_experiment::results::Estimate| {
        let value = signed(figure, of.value);
        if of.low == of.high {
            return value;
        }
        format!("{value} ({} to {})", signed(figure, of.low), signed(figure, of.high))
    };
    let side = match decision.side {
        Side::Before => "has the old level",
        Side::After => "has the new level",
        Side::Between(true) => "has a level of its own; the larger part of the step is behind it",
        Side::Between(false) => "has a level of its own; the larger part of the step is before it",
    };
    eprintln!(
        "{} {side}: {} from the one before, {} to the one after; {} left",
        commit.short(),
        range(&decision.from_before),
        range(&decision.to_after),
        commits(decision.left)
    );
}

fn said(
    found: &Found,
    all: &[Commit],
    args: &BisectArgs,
    wanted: &Wanted,
    store: &Store,
) -> Result<ExitCode> {
    let title = title(args.of, &wanted.phase);
    let (before, after) = match found {
        Found::NoStep => {
            println!(
                "{} and {} do not differ in {title} beyond their runs.",
                all[0].short(),
                all[all.len() - 1].short()
            )?;
            return Ok(ExitCode::from(1));
        }
        Found::Commit(at) => {
            println!("{} {} makes the step of {title}.", all[*at].short(), all[*at].subject)?;
            (&all[at - 1], &all[*at])
        }
        Found::OneOf(low, high) => {
            println!(
                "One of the {} behind {}, up to {}, makes the step of {title}; those between cannot be measured.",
                commits(high - low),
                all[*low].short(),
                all[*high].short()
            )?;
            (&all[*low], &all[*high])
        }
    };
    let kept = |commit: &Commit| {
        let path = store.folder().join("recordings").join(format!("{}.heaplab", commit.short()));
        path.exists().then(|| shell::quoted(&path))
    };
    match (kept(before), kept(after)) {
        (Some(before), Some(after)) => println!("heaplab compare {before} {after} says why.")?,
        _ => println!("With --keep, recordings stay in the store, and heaplab compare says why.")?,
    }
    Ok(ExitCode::SUCCESS)
}
