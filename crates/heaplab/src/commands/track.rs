//! `heaplab track`: a program's memory over the commits of its project.

use crate::answer::HtmlFile;
use crate::commands::{interrupted, own_file, seconds};
use anyhow::Result;
use heaplab_terminal::{self as terminal, progress};
use heaplab_track::bench::How;
use heaplab_track::bisect::{Decision, Found, SoughtStep, recordings, search};
use heaplab_track::measure::{Measurement, some};
use heaplab_track::repository::Repository;
use heaplab_track::run::Commit;
use heaplab_track::store::{Store, Subject, Writer};
use heaplab_track::{Figure, History, TrackError, page, steps, text};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/track.txt"))]
pub struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Build and measure the unmeasured commits of a range
    Run(RunArgs),
    /// Print the history: a line a phase, steps with their commits, gaps
    Show(ShowArgs),
    /// Find the commit of a step by measuring commits in between
    Bisect(BisectArgs),
}

/// Where things are.
#[derive(Debug, clap::Args)]
struct Where {
    /// The store, a folder [default: PROJECT.track beside the checkout]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// The project's checkout, which does not change [default: the one around this folder]
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
            None => Ok(self.repository()?.store()),
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/track-run.txt"))]
struct RunArgs {
    #[command(flatten)]
    place: Where,
    /// The commits: v1..HEAD (v1 too), or one
    #[arg(long, value_name = "RANGE")]
    commits: String,
    /// Measure at most this many, spread evenly, including both ends; bisect measures in between
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    at_most: Option<u32>,
    /// Run this command by a shell in each commit's files before measuring
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,
    #[command(flatten)]
    measuring: Measuring,
    /// What to record: malloc, node, jvm-metaspace or ocaml
    #[arg(long, value_name = "WHAT", default_value = "malloc", value_parser = ["malloc", "node", "jvm-metaspace", "ocaml"], hide_possible_values = true)]
    recorder: String,
    /// The process: the name of its program [default: the one with the largest peak]
    #[arg(long, value_name = "NAME")]
    process: Option<String>,
    /// Build each commit on top of the previous one, in order, instead of from scratch
    #[arg(long)]
    incremental: bool,
    /// Try commits that failed again
    #[arg(long)]
    retry: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How each commit is measured.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Measuring {
    /// Runs of each commit; figures that are equal in all runs are exact
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,
    /// Seconds after which heaplab ends a run and counts it as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, value_parser = |text: &str| seconds(text, 0.001..=31_536_000.0))]
    timeout: f64,
    /// Seconds after which heaplab ends a build and counts it as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0, value_parser = |text: &str| seconds(text, 0.001..=31_536_000.0))]
    build_timeout: f64,
    /// Keep the first recording of each commit in STORE/recordings, for heaplab compare
    #[arg(long)]
    keep: bool,
}

impl Measuring {
    fn how(&self) -> Result<How> {
        Ok(How {
            heaplab: own_file()?,
            run_limit: Duration::from_secs_f64(self.timeout),
            build_limit: Duration::from_secs_f64(self.build_timeout),
            keep: self.keep,
        })
    }
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    place: Where,
    /// The figure: live, objects, resident, allocations or requested
    #[arg(long, value_name = "FIGURE", default_value = "live", value_parser = Figure::parse)]
    of: Figure,
    /// Show steps of at least this share of the level before; smaller steps are only counted
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = steps::share)]
    least: f64,
    /// How many steps to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Write the whole history as one JSON document (docs/track.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: HtmlFile,
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/track-bisect.txt"))]
struct BisectArgs {
    #[command(flatten)]
    place: Where,
    /// The commits before and after the step [default: those of the largest step]
    #[arg(long, value_name = "RANGE")]
    between: Option<String>,
    /// The phase [default: that of the largest step, or peak]
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,
    /// The figure: live, objects, resident, allocations or requested
    #[arg(long, value_name = "FIGURE", default_value = "live", value_parser = Figure::parse)]
    of: Figure,
    #[command(flatten)]
    measuring: Measuring,
}

pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Action::Run(args) => interrupted(|stop| measure_all(&args, stop)),
        Action::Show(args) => show(&args),
        Action::Bisect(args) => interrupted(|stop| bisect(&args, stop)),
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
    let commits = some(&all, args.at_most);
    let mut writer = Writer::open(&args.place.store()?, &subject(args, &repository)?)?;
    for note in repository.notes()? {
        eprintln!("heaplab track: note: {note}");
    }
    if args.retry {
        writer.forget_failures(&|id| commits.iter().any(|commit| commit.id == id))?;
    }
    let how = args.measuring.how()?;
    let mut measurement = Measurement::new(repository, writer, args.measuring.runs, &how, stop)?;
    let missing = measurement.to_measure(&commits);
    let template = "{bar:20} {pos}/{len} commits, {eta} left  {wide_msg}";
    let bar = progress::bar(false, missing.len() as u64, template);
    for commit in missing {
        bar.set_message(format!("{} {}", commit.short(), commit.subject));
        if stop.load(Ordering::Relaxed) || !measurement.commit(commit)? {
            break;
        }
        let line = text::measured(measurement.store(), commit);
        bar.suspend(|| line.iter().for_each(|line| eprintln!("{line}")));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let folder = measurement.store().folder().to_owned();
    cleared(&measurement);
    drop(measurement);
    if stop.load(Ordering::Relaxed) {
        return Err(TrackError::Interrupted.into());
    }
    let history = History::of(&Store::open(&folder)?)?;
    print_history(&history, Figure::Live, 0.001, 20)?;
    let is_measured = |commit: &&Commit| {
        history.commits.iter().any(|place| place.commit.id == commit.id && place.runs > 0)
    };
    Ok(ExitCode::from(u8::from(!commits.iter().any(is_measured))))
}

fn cleared(measurement: &Measurement) {
    if let Err(error) = measurement.clear() {
        eprintln!("heaplab track: note: {error}");
    }
}

fn bisect(args: &BisectArgs, stop: &AtomicBool) -> Result<ExitCode> {
    let folder = args.place.store()?;
    let store = Store::open(&folder)?;
    let repository = match &args.place.repository {
        None => Repository::of(store.subject().repository.as_ref())?,
        Some(_) => args.place.repository()?,
    };
    let (between, phase) = (args.between.as_deref(), args.phase.as_deref());
    let sought = SoughtStep::of(&History::of(&store)?, args.of, between, phase)?;
    let writer = Writer::open(&folder, store.subject())?;
    let all = repository.commits(&sought.range)?;
    let how = args.measuring.how()?;
    let mut measurement = Measurement::new(repository, writer, args.measuring.runs, &how, stop)?;
    eprintln!("{}", text::looking(&sought, all.len()));
    let mut measure = |at: usize| {
        let commit: &Commit = &all[at];
        if measurement.missing(commit) > 0 {
            eprintln!("measuring {} {}", commit.short(), commit.subject);
        }
        let values = sought.values(&mut measurement, commit)?;
        if values.is_none() {
            eprintln!("{} cannot be measured (heaplab track show says why)", commit.short());
        }
        Ok(values)
    };
    let mut tell = |decision: &Decision| {
        eprintln!("{}", text::decision(decision, &all[decision.at], args.of));
    };
    let found: Result<_, TrackError> = search(all.len(), &mut measure, &mut tell);
    cleared(&measurement);
    let found = found?;
    println!("{}", text::found(found, &all, &sought))?;
    if let Some(line) = text::why(found, recordings(found, &all, &measurement).as_ref()) {
        println!("{line}")?;
    }
    Ok(ExitCode::from(match found {
        Found::Commit(_) => 0,
        Found::NoStep => 1,
        Found::OneOf(..) => 3,
    }))
}

fn show(args: &ShowArgs) -> Result<ExitCode> {
    args.html.check()?;
    let store = Store::open(&args.place.store()?)?;
    let history = History::of(&store)?;
    let written = args.html.write(|| page::html(&history, args.least))?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&history)?)?;
    } else if !written {
        print_history(&history, args.of, args.least, args.top)?;
    }
    for error in store.damaged() {
        eprintln!("heaplab: {error}");
    }
    Ok(ExitCode::from(u8::from(!store.damaged().is_empty())))
}

fn print_history(history: &History, figure: Figure, least: f64, top: usize) -> Result<()> {
    Ok(print!("{}", text::history(history, figure, least, &terminal::look(top)))?)
}
