//! `heaplab replay`: run a recorded workload on other heaps.

use crate::commands::{interrupted, own_file};
use crate::usage_error::UsageError;
use crate::{answer, heaps};
use anyhow::{Result, bail};
use heaplab_experiment::grid::{self, Named};
use heaplab_experiment::many::{self, Replayed};
use heaplab_experiment::own_heaps::cells;
use heaplab_experiment::plan::shard;
use heaplab_experiment::prepare::{self, How};
use heaplab_experiment::results::{HugePages, Results, Touch};
use heaplab_experiment::{Plan, Progress, alias, text};
use heaplab_record::output;
use heaplab_terminal as terminal;
use heaplab_terminal::bus::{self, Mapped};
use heaplab_terminal::progress::{self, ProgressBar};
use heaplab_trace::bundle::Bundle;
use heaplab_trace::program::{self, Program};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("../../help/replay.txt"))]
pub struct Args {
    /// The recordings; several give one common table
    #[arg(value_name = "BUNDLE", required_unless_present = "load")]
    bundles: Vec<PathBuf>,
    /// The heaps, with parameters (heaplab heaps lists them)
    #[arg(long, value_name = "HEAPS", default_value = "glibc,jemalloc,mimalloc")]
    on: String,
    /// Blocks of time cells; a difference at 95 % needs 6 for two heaps, 7 for three, 8 for up to 7
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reps: u32,
    /// Measure space only
    #[arg(long, conflicts_with = "time")]
    space: bool,
    /// Measure time only
    #[arg(long)]
    time: bool,
    /// Start one OS thread for each recorded thread, with cross-thread frees in order
    #[arg(long)]
    threads: bool,
    /// Blocks that the driver writes: all, known (all but blocks requested zeroed), none
    #[arg(long, value_name = "WHICH", default_value = "known")]
    touch: Touch,
    /// The process: its pid (PID#2: its second program), its program's name, or all as if they
    /// shared a heap [default: the largest]
    #[arg(long, value_name = "PROCESS")]
    process: Option<String>,
    /// Huge pages in space cells of all heaps: none, or system (as the system is set and each heap
    /// requests); the result also has the peaks of the other setting
    #[arg(long, value_name = "WHICH", default_value = "none")]
    huge_pages: HugePages,
    /// Check that blocks are aligned, do not overlap, and keep their contents
    #[arg(long)]
    verify: bool,
    /// Differences within this many percent count as equivalent
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0, value_parser = percent)]
    margin: f64,
    /// Run only blocks I, I + N, I + 2 N, ... (with --results)
    #[arg(long, value_name = "I/N", value_parser = shard, requires = "results")]
    shard: Option<(u32, u32)>,
    /// Keep blocks, results.json, cells.parquet and collections.parquet here, in a folder for each
    /// of several recordings; existing blocks are not run again
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Seed of the cells' order and the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Seconds after which a cell counts as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    limit: u64,
    /// Write the results as JSON (docs/replay-json.md)
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Load this library as a cell would, and say what is wrong with it
    #[arg(long, hide = true, value_name = "LIBRARY")]
    load: Option<PathBuf>,
}

fn percent(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number| (0.0..=100.0).contains(number))
        .ok_or_else(|| "a number from 0 to 100".into())
}

pub fn run(args: Args) -> Result<ExitCode> {
    if let Some(library) = &args.load {
        let Err(error) = heaplab_system::library::Library::load(library) else {
            return Ok(ExitCode::SUCCESS);
        };
        println!("{}", serde_json::to_string(&error.to_string())?)?;
        return Ok(ExitCode::FAILURE);
    }
    bus::is_an_error(Mapped::Program);
    let (list, aliases) = alias::split(&args.on);
    let specs = heaps::on(&list)?;
    let aliases = alias::names(&specs, aliases)?;
    let executable = own_file()?;
    let names = many::names(&args.bundles).map_err(|error| UsageError(error.to_string()))?;
    // Parse all before the first cell, so that a mistake ends the command at once.
    let plans: Vec<(&Path, Plan)> = args
        .bundles
        .iter()
        .map(|path| Ok((path.as_path(), prepared(&args, path, &specs, &executable)?)))
        .collect::<Result<_>>()?;
    let bar = progress_bar(args.quiet);
    interrupted(|stop| {
        let runner = cells(executable, Duration::from_secs(args.limit), Some(stop));
        let measured = many::run(&plans, &names, &aliases, &runner, |now| show_progress(&bar, now));
        bar.finish_and_clear();
        let measured = measured?;
        for error in measured.iter().filter_map(|replayed| replayed.unkept.as_ref()) {
            eprintln!("heaplab: heaplab report will not show this replay: {error:#}");
        }
        show(&args, &names, &measured)?;
        let all = || measured.iter().flat_map(|replayed| &replayed.results.heaps);
        let failed = all().flat_map(|heap| &heap.failures).any(|failure| failure.kind == "verify");
        let found = all().any(|heap| heap.space.is_some() || heap.time.is_some());
        Ok(ExitCode::from(u8::from(failed || !found)))
    })
}

/// The plan for the recording at `path`.
fn prepared(args: &Args, path: &Path, specs: &[heaps::Heap], executable: &Path) -> Result<Plan> {
    let (bundle, program) = workload(path, args.process.as_deref())?;
    if args.threads {
        prepare::can_thread(path, &program)?;
    }
    prepare::are_ready(specs, &program, executable)?;
    let all = Plan::of(&bundle, &program, specs, executable, &how(args))?;
    Ok(Plan {
        space: !args.time,
        time: !args.space,
        verify: args.verify,
        shard: args.shard.unwrap_or((0, 1)),
        results: args.results.as_ref().map(|folder| match &args.bundles[..] {
            [_] => folder.clone(),
            _ => folder.join(many::name(path)),
        }),
        ..all
    })
}

/// Prints the results of one recording, or the table of several.
fn show(args: &Args, names: &[String], measured: &[Replayed]) -> Result<()> {
    let columns = terminal::columns();
    if let [one] = measured {
        // JSON has this replay only. Text and page complete it from earlier replays.
        let text = || text::results(&one.with_earlier, columns);
        return answer::print_pretty(args.json, &one.results, text);
    }
    let results: Vec<&Results> = measured.iter().map(|replayed| &replayed.results).collect();
    answer::print_pretty(args.json, &results, || {
        let named = |(name, results): (&String, &&Results)| Named {
            name: name.clone(),
            results: (*results).clone(),
        };
        grid::text(&names.iter().zip(&results).map(named).collect::<Vec<_>>(), columns)
    })
}

/// The recording at `path` and the replay program of its process.
///
/// # Errors
/// The recording or the process does not exist, or the process allocated nothing.
pub fn workload(path: &Path, process: Option<&str>) -> Result<(Bundle, Program)> {
    let bundle = output::open(path)?;
    let selection = heaplab_profile::choose::process(&bundle, process)?;
    let program = program::cached(&bundle, selection)?;
    if program.facts().events == 0 {
        bail!(
            "{}: there is nothing to replay: no allocation of this process was recorded",
            path.display()
        );
    }
    Ok((bundle, program))
}

/// How the workload is measured.
fn how(args: &Args) -> How {
    let Args { touch, threads, reps, seed, huge_pages, margin, .. } = *args;
    How { touch, threads, reps, seed, margin: margin / 100.0, huge_pages }
}

/// A bar of cells on a terminal.
pub fn progress_bar(quiet: bool) -> ProgressBar {
    progress::bar(quiet, 0, "{bar:15} {pos}/{len} cells, {eta} left  {wide_msg}")
}

/// How far an experiment is.
pub fn show_progress(bar: &ProgressBar, now: &Progress) {
    progress::show(bar, now.done.into(), now.total.into(), &now.now);
}
