//! `heaplab track`: what a program needed over the commits of its project.

mod bisect;
mod measure;

use crate::answer::HtmlFile;
use anyhow::Result;
use heaplab_record::interrupts;
use heaplab_terminal::{self as terminal, progress};
use heaplab_text::words::plural;
use heaplab_track::plan::{coarse_to_fine, spread};
use heaplab_track::repository::Repository;
use heaplab_track::run::{Commit, Outcome};
use heaplab_track::store::{Store, Subject, Writer};
use heaplab_track::{Figure, History, TrackError, page, text};
use measure::{Bench, Built};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments of `heaplab track`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/track.txt"))]
pub struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Build and measure the commits of a range that were not measured yet
    Run(RunArgs),
    /// Print the history: a line a phase, steps with their commits, gaps
    Show(ShowArgs),
    /// Find the commit of a step by measuring commits between
    Bisect(BisectArgs),
}

/// Where things are.
#[derive(Debug, clap::Args)]
struct Where {
    /// The store, a folder [default: PROJECT.track beside the checkout]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// The project's checkout; it stays as it is [default: the one around this folder]
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
}

impl Where {
    fn repository(&self) -> Result<Repository, TrackError> {
        Repository::of(self.repository.as_deref().unwrap_or(Path::new(".")))
    }

    fn store(&self) -> Result<PathBuf, TrackError> {
        match &self.store {
            Some(store) => Ok(store.clone()),
            None => {
                let mut beside = self.repository()?.folder().as_os_str().to_owned();
                beside.push(".track");
                Ok(beside.into())
            }
        }
    }
}

/// Arguments of `heaplab track run`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/track-run.txt"))]
struct RunArgs {
    #[command(flatten)]
    place: Where,
    /// The commits: v1..HEAD (v1 too), or one
    #[arg(long, value_name = "RANGE")]
    commits: String,
    /// At most so many of them, spread evenly, both ends among them; bisect measures between
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    at_most: Option<u32>,
    /// Run by a shell in each commit's files before it is measured
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,
    /// Runs of each commit; figures that are the same in all are exact
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,
    /// What is recorded: malloc, node, jvm-metaspace or ocaml
    #[arg(long, value_name = "WHAT", default_value = "malloc", value_parser = ["malloc", "node", "jvm-metaspace", "ocaml"], hide_possible_values = true)]
    recorder: String,
    /// Which process: the name of its program [default: the one with the largest peak]
    #[arg(long, value_name = "NAME")]
    process: Option<String>,
    #[command(flatten)]
    limits: Limits,
    /// Build each commit on top of the one before, in their order, instead of from nothing
    #[arg(long)]
    incremental: bool,
    /// Try commits that failed again
    #[arg(long)]
    retry: bool,
    /// Keep the first recording of each commit in STORE/recordings, for heaplab compare
    #[arg(long)]
    keep: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct Limits {
    /// Seconds after which a run is ended and counts as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, value_parser = seconds)]
    timeout: f64,
    /// The same for a build
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0, value_parser = seconds)]
    build_timeout: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|seconds| (0.001..=31_536_000.0).contains(seconds));
    parsed.ok_or_else(|| "seconds from 0.001 to 31536000".into())
}

/// Arguments of `heaplab track show`.
#[derive(Debug, clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    shown: Shown,
    /// How many steps
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Write the whole history as one JSON document (docs/track.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: HtmlFile,
}

#[derive(Debug, clap::Args)]
struct Shown {
    /// The figure: live, objects, resident, allocations or requested
    #[arg(long, value_name = "FIGURE", default_value = "live", value_parser = figure)]
    of: Figure,
    /// Steps of at least so much of the level before; smaller ones are counted
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = share)]
    least: f64,
}

fn figure(text: &str) -> Result<Figure, String> {
    let known = Figure::ALL.into_iter().find(|figure| figure.name() == text);
    known.ok_or_else(|| Figure::ALL.map(Figure::name).join(", "))
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    number
        .filter(|percent| (0.0..=1e6).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "expected percent, such as 0.5%".into())
}

/// Arguments of `heaplab track bisect`.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/track-bisect.txt"))]
struct BisectArgs {
    #[command(flatten)]
    place: Where,
    /// The commits before and after the step [default: those of the largest step]
    #[arg(long, value_name = "RANGE")]
    between: Option<String>,
    /// The phase [default: of the largest step, else peak]
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,
    /// The figure: live, objects, resident, allocations or requested
    #[arg(long, value_name = "FIGURE", default_value = "live", value_parser = figure)]
    of: Figure,
    /// Runs of each commit
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,
    #[command(flatten)]
    limits: Limits,
    /// Keep the first recording of each commit in STORE/recordings, for heaplab compare
    #[arg(long)]
    keep: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Action::Run(args) => interrupted(|stop| measure_all(&args, stop)),
        Action::Show(args) => show(&args),
        Action::Bisect(args) => interrupted(|stop| bisect::run(&args, stop)),
    }
}

/// The code of a signal wins: what it interrupted is kept.
fn interrupted(work: impl FnOnce(&AtomicBool) -> Result<ExitCode>) -> Result<ExitCode> {
    let (ended, signal) = interrupts::flagged(work);
    match signal {
        Some(signal) => {
            ended?;
            Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)))
        }
        None => ended,
    }
}

fn subject(args: &RunArgs, repository: &Repository) -> Result<Subject, TrackError> {
    Ok(Subject {
        repository: repository.folder().display().to_string(),
        project: repository.project()?,
        build: args.build.clone(),
        command: args.command.clone(),
        recorder: args.recorder.clone(),
        process: args.process.clone(),
        incremental: args.incremental,
    })
}

fn measure_all(args: &RunArgs, stop: &AtomicBool) -> Result<ExitCode> {
    let repository = args.place.repository()?;
    let all = repository.commits(&args.commits)?;
    let chosen = spread(all.len(), args.at_most.map_or(usize::MAX, |most| most as usize));
    let commits: Vec<&Commit> = chosen.into_iter().map(|at| &all[at]).collect();
    let mut writer = Writer::open(&args.place.store()?, &subject(args, &repository)?)?;
    notes(&repository)?;
    if args.retry {
        writer.forget_failures(&|id| commits.iter().any(|commit| commit.id == id))?;
    }
    let order =
        if args.incremental { (0..commits.len()).collect() } else { coarse_to_fine(commits.len()) };
    let missing = |writer: &Writer, commit: &Commit| match writer.store().of_commit(&commit.id) {
        (0, true) => 0,
        (measured, _) => args.runs.saturating_sub(measured),
    };
    let todo: Vec<&Commit> = order
        .into_iter()
        .map(|at| commits[at])
        .filter(|commit| missing(&writer, commit) > 0)
        .collect();
    let bench = Bench::new(repository, writer.store(), args.limits, args.keep, stop)?;
    let bar = progress::bar(
        false,
        todo.len() as u64,
        "{bar:20} {pos}/{len} commits, {eta} left  {wide_msg}",
    );
    for commit in todo {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        bar.set_message(format!("{} {}", commit.short(), commit.subject));
        let runs = missing(&writer, commit);
        let built = measure_one(&bench, &mut writer, commit, runs)?;
        if built == Built::Stopped {
            break;
        }
        bar.suspend(|| told(writer.store(), commit));
        bar.inc(1);
    }
    bar.finish_and_clear();
    drop(bench);
    if stop.load(Ordering::Relaxed) {
        eprintln!(
            "heaplab track: interrupted; what was measured is kept, and asking again goes on"
        );
        return Ok(ExitCode::SUCCESS);
    }
    let folder = writer.store().folder().to_owned();
    drop(writer);
    let history = History::of(&Store::open(&folder)?)?;
    print_history(&history, Figure::Live, 0.001, 20)?;
    let is_measured = |commit: &&Commit| {
        history.commits.iter().any(|place| place.commit.id == commit.id && place.runs > 0)
    };
    Ok(ExitCode::from(u8::from(!commits.iter().any(is_measured))))
}

/// What a user should know of the checkout before hours of measuring.
fn notes(repository: &Repository) -> Result<(), TrackError> {
    if repository.is_shallow()? {
        eprintln!(
            "heaplab track: note: this clone lacks older commits; after git fetch --unshallow a store of it has another order"
        );
    }
    if repository.is_changed()? {
        eprintln!(
            "heaplab track: note: the checkout has changes that are not committed; commits are measured, and they are not"
        );
    }
    Ok(())
}

/// Builds a commit and adds its runs, or why there are none.
fn measure_one(bench: &Bench, writer: &mut Writer, commit: &Commit, runs: u32) -> Result<Built> {
    let (measured, _) = writer.store().of_commit(&commit.id);
    let built = bench.build(commit)?;
    if let Built::Failed(failure) = &built {
        writer.add(bench.run_of(commit, measured + 1, Outcome::Failed(failure.clone())))?;
    }
    if built != Built::Well {
        return Ok(built);
    }
    for repetition in measured + 1..=measured + runs {
        let Some(outcome) = bench.once(commit, repetition)? else { return Ok(Built::Stopped) };
        let has_failed = matches!(outcome, Outcome::Failed(_));
        writer.add(bench.run_of(commit, repetition, outcome))?;
        if has_failed {
            break;
        }
    }
    Ok(Built::Well)
}

/// A line about a commit that was measured, for logs.
fn told(store: &Store, commit: &Commit) {
    let runs = || store.runs().iter().filter(|run| run.commit.id == commit.id);
    let what = match runs().next_back().map(|run| &run.outcome) {
        Some(Outcome::Failed(failure)) => {
            format!("{} failed: {}", failure.stage.text(), failure.reason)
        }
        Some(Outcome::Measured(figures)) => {
            let peak = Figure::Live.of(figures, "peak").unwrap_or(0);
            format!("peak {}", heaplab_text::words::bytes(peak))
        }
        None => return,
    };
    let subject = heaplab_text::lines::cut(&commit.subject, 50);
    eprintln!("{} {subject}: {what}", commit.short());
}

fn show(args: &ShowArgs) -> Result<ExitCode> {
    args.html.check()?;
    let history = History::of(&Store::open(&args.place.store()?)?)?;
    let written = args.html.write(|| page::html(&history, args.shown.least))?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&history)?)?;
    } else if !written {
        print_history(&history, args.shown.of, args.shown.least, args.top)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_history(history: &History, figure: Figure, least: f64, top: usize) -> Result<()> {
    Ok(print!("{}", text::history(history, figure, least, &terminal::look(top)))?)
}

/// `3 commits`, for sentences about a search.
fn commits(number: usize) -> String {
    plural(number as u64, "commit")
}
