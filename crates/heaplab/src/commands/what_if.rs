//! `heaplab what-if`: what a change of the program would save, before any code is touched.
//!
//! The recording is changed as asked, written as a bundle of its own, and replayed beside itself.

pub mod fix;
mod show;

use super::replay::{self, How};
use super::report::progress;
use crate::output::Misasked;
use crate::signals::bus::{self, Mapped};
use crate::{choose, heaps, terminal};
use anyhow::{Context, Result, bail};
use heaplab_experiment::pair::{Pair, PairResults, run_pair};
use heaplab_experiment::results::HugePages;
use heaplab_experiment::{Plan, Processes};
use heaplab_findings::{Basis, SlopRow, slop};
use heaplab_profile::Profile;
use heaplab_report::{profile_of, select};
use heaplab_trace::bundle::{Bundle, Origin, Selection};
use heaplab_trace::program;
use heaplab_what_if::{Changed, Changer, Done, Rule, WhatIfError, change};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Space cells of each heap and workload: enough to show by how much runs differ.
const SPACE_CELLS: u32 = 3;

const EXAMPLES: &str = "\
Examples:
  heaplab what-if app.heaplab --fix 1                       the first finding of heaplab report
  heaplab what-if app.heaplab --fix all-clownshoes --space  all of a kind; space only: seconds
  heaplab what-if app.heaplab --grow read_line=2x           buffers double
  heaplab what-if app.heaplab --size load:4368=4096         requests of 4,368 bytes ask for 4,096
  heaplab what-if app.heaplab --size load:4368=4096+272     for two blocks that live together
  heaplab what-if app.heaplab --size '*:-8'                 every request is 8 bytes less
  heaplab what-if app.heaplab --cap cache_put=64k           the oldest goes when 64 KiB are live
  heaplab what-if app.heaplab --reuse parse_line            blocks are kept and used again
  heaplab what-if app.heaplab --arena parse=16k             blocks from chunks, freed together
  heaplab what-if app.heaplab --drop thumbnails             nothing of it is asked for

A FUNCTION is one that stands on the stack of a request: what it calls is concerned, too. Its name
goes without arguments; * stands for any letters. Several changes are made at once; where two of
--grow, --cap, --reuse, --drop and --arena concern a request, the first in that order holds.";

/// Arguments of `heaplab what-if`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The recording
    bundle: PathBuf,
    /// Change what a finding says: its number in `heaplab report`, its function, or
    /// all-clownshoes, all-growth, all-churn, all-leaks
    #[arg(long, value_name = "FINDING")]
    fix: Vec<String>,
    /// Requests of A bytes ask for B, or for two blocks of B and C, or every request is N less
    #[arg(long, value_name = "FUNCTION:A=B[+C]|FUNCTION:-N", allow_hyphen_values = true)]
    size: Vec<String>,
    /// A buffer that is too small grows by this factor at least, or to a power of two
    #[arg(long, value_name = "FUNCTION=FACTOR|pow2")]
    grow: Vec<String>,
    /// At most so many bytes are live: the oldest blocks are freed first
    #[arg(long, value_name = "FUNCTION=BYTES")]
    cap: Vec<String>,
    /// Freed blocks are kept and used again
    #[arg(long, value_name = "FUNCTION")]
    reuse: Vec<String>,
    /// Its requests are not made
    #[arg(long, value_name = "FUNCTION")]
    drop: Vec<String>,
    /// Its blocks come from chunks that are freed together [default chunk: 64k]
    #[arg(long, value_name = "FUNCTION[=CHUNK]")]
    arena: Vec<String>,
    /// The changed bundle; an earlier one is replaced, a recording never [default: NAME.what-if.heaplab]
    #[arg(short, long, value_name = "BUNDLE")]
    output: Option<PathBuf>,
    /// The heaps, with parameters (heaplab heaps lists them)
    #[arg(long, value_name = "HEAPS", default_value = "glibc,jemalloc,mimalloc")]
    on: String,
    /// Blocks of time cells
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reps: u32,
    /// Measure space only
    #[arg(long)]
    space: bool,
    /// The process: its pid (PID#2: its second program), its program's name, or all [default: the
    /// one with the largest peak]
    #[arg(long, value_name = "PID|NAME|all")]
    process: Option<String>,
    /// Judge findings by this allocator, as `heaplab report` does
    #[arg(long, value_name = "NAME", value_parser = super::report::parse_basis)]
    allocator: Option<Basis>,
    /// Seconds after which a cell counts as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    limit: u64,
    /// Write the results as JSON (docs/what-if-json.md)
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
}

/// Everything that came of it (docs/what-if-json.md).
#[derive(Debug, Serialize)]
struct Document {
    format: &'static str,
    version: u32,
    /// The changed bundle.
    bundle: String,
    origin: Origin,
    rules: Vec<RuleDone>,
    before: Asked,
    after: Asked,
    replay: PairResults,
}

/// What a rule did.
#[derive(Debug, Serialize)]
struct RuleDone {
    words: String,
    requests: u64,
    spared: u64,
    early: u64,
    added: u64,
}

/// What a workload asks for.
#[derive(Debug, Serialize)]
struct Asked {
    requests: u64,
    requested_bytes: u64,
    peak_requested_bytes: u64,
    end_requested_bytes: u64,
    slop: Vec<SlopRow>,
}

impl Asked {
    fn of(profile: &Profile) -> Asked {
        Asked {
            requests: profile.totals.requests,
            requested_bytes: profile.totals.requested_bytes,
            peak_requested_bytes: profile.peak.live.bytes,
            end_requested_bytes: profile.end.live.bytes,
            slop: slop::by_allocator(profile),
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    bus::is_an_error(Mapped::Program);
    let bundle = choose::open(&args.bundle)?;
    let specs =
        heaps::parse_list(&args.on).map_err(|error| Misasked(format!("--on: {error:#}")))?;
    let (selection, _) = progress(&bundle, "looking for the largest process", |read| {
        select(&bundle, args.process.as_deref(), read)
    })?;
    let asked = rules(&args)?;
    // What is asked of a function that there is not is told before the recording is read.
    Changer::new(bundle.tables(), &asked, selection.process).map_err(misasked)?;
    let analysis = fix::analyse(&bundle, selection, args.allocator)?;
    if analysis.profile.totals.requests == 0 {
        bail!("{}: no allocation of this process was recorded", args.bundle.display());
    }
    let rules = [fix::rules(&args.fix, &analysis)?, asked].concat();
    let path = args.output.clone().unwrap_or_else(|| beside(&args.bundle));
    may_replace(&path)?;
    let changed = write(&bundle, &rules, selection, &path, args.quiet)?;
    let after = Bundle::open(&path)?;
    let profile_after = progress(&after, "reading", |read| profile_of(&after, selection, read))?;
    let how =
        Replay { space_only: args.space, reps: args.reps, limit_s: args.limit, quiet: args.quiet };
    let replay = replayed([&bundle, &after], selection, &specs, &how)?;
    let done = rules.iter().zip(&changed.done).map(|(rule, done)| RuleDone::of(rule, done));
    let document = Document {
        format: "heaplab-what-if",
        version: 1,
        bundle: path.display().to_string(),
        origin: changed.origin,
        rules: done.collect(),
        before: Asked::of(&analysis.profile),
        after: Asked::of(&profile_after),
        replay,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&document)?)?;
    } else {
        print!("{}", show::text(&document, &path, terminal::columns()))?;
    }
    let measured = document.replay.after.heaps.iter().any(|heap| heap.space.is_some());
    Ok(if measured { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl RuleDone {
    fn of(rule: &Rule, done: &Done) -> RuleDone {
        let Done { requests, spared, early, added } = *done;
        RuleDone { words: rule.words(), requests, spared, early, added }
    }
}

/// The changes that were asked for, but those of findings.
fn rules(args: &Args) -> Result<Vec<Rule>> {
    let mut rules = Vec::new();
    type Read = fn(&str) -> Result<Rule, WhatIfError>;
    let written: [(&str, &[String], Read); 6] = [
        ("size", &args.size, Rule::size),
        ("grow", &args.grow, Rule::grow),
        ("cap", &args.cap, Rule::cap),
        ("reuse", &args.reuse, Rule::reuse),
        ("drop", &args.drop, Rule::dropped),
        ("arena", &args.arena, Rule::arena),
    ];
    for (flag, texts, read) in written {
        for text in texts {
            rules.push(read(text).map_err(|error| Misasked(format!("--{flag}: {error}")))?);
        }
    }
    if rules.is_empty() && args.fix.is_empty() {
        misasked!(
            "nothing is changed: ask for --fix, --size, --grow, --cap, --reuse, --drop or --arena (heaplab what-if --help has examples)"
        );
    }
    Ok(rules)
}

/// `app.what-if.heaplab` of `app.heaplab`.
fn beside(bundle: &Path) -> PathBuf {
    let name = bundle.file_stem().unwrap_or(bundle.as_os_str()).to_owned();
    let mut name = name;
    name.push(".what-if.heaplab");
    bundle.with_file_name(name)
}

/// Refuses to replace a recording.
fn may_replace(path: &Path) -> Result<()> {
    if path.exists() && Bundle::open(path).is_ok_and(|there| there.meta().origin.is_none()) {
        bail!("{}: is a recording and would be replaced; name another with -o", path.display());
    }
    Ok(())
}

fn write(
    bundle: &Bundle,
    rules: &[Rule],
    selection: Selection,
    path: &Path,
    quiet: bool,
) -> Result<Changed> {
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(bundle.meta().events) };
    bar.set_style(ProgressStyle::with_template(
        "changing {wide_bar} {human_pos} of {human_len} events",
    )?);
    let changed = change(bundle, rules, selection.process, path, |read| bar.set_position(read));
    bar.finish_and_clear();
    changed.map_err(|error| match error {
        WhatIfError::Trace(error) => heaplab_profile::choose::of_recording(bundle)(error).into(),
        asked => misasked(asked),
    })
}

fn misasked(error: WhatIfError) -> anyhow::Error {
    Misasked(error.to_string()).into()
}

/// How both workloads are replayed.
#[derive(Clone, Copy, Debug)]
pub struct Replay {
    /// Space and no time.
    pub space_only: bool,
    /// Blocks of time cells.
    pub reps: u32,
    /// After so many seconds a cell counts as failed.
    pub limit_s: u64,
    /// Show no progress.
    pub quiet: bool,
}

/// Replays a recording and the changed one on the heaps.
///
/// # Errors
/// A bundle cannot be compiled, has nothing to replay, or does not suit a heap; a heap's library
/// cannot be loaded.
pub fn replayed(
    bundles: [&Bundle; 2],
    selection: Selection,
    specs: &[heaps::Heap],
    asked: &Replay,
) -> Result<PairResults> {
    let executable = std::env::current_exe().context("cannot find this program's own file")?;
    specs.iter().try_for_each(|heap| replay::loads(&**heap, &executable))?;
    let how = How {
        touch: heaplab_experiment::results::Touch::Known,
        threads: false,
        reps: asked.reps,
        seed: 1,
        margin: 0.03,
        huge_pages: HugePages::None,
    };
    let mut plans = Vec::new();
    for bundle in bundles {
        let program = program::cached(bundle, selection)?;
        if program.facts().events == 0 {
            bail!("{}: nothing is left to replay", bundle.path().display());
        }
        let suits = |heap: &heaps::Heap| {
            heap.suits(&program).map_err(|error| Misasked(format!("--on: {error:#}")))
        };
        specs.iter().try_for_each(suits)?;
        let plan = replay::plan(bundle.path(), bundle, &program, specs, &executable, &how)?;
        let mut plan = Plan { time: !asked.space_only, ..plan };
        // The changes may be small, and some heaps' peaks differ from run to run.
        plan.heaps.iter_mut().for_each(|heap| heap.space_cells = heap.space_cells.max(SPACE_CELLS));
        plans.push(plan);
    }
    let [before, after] = <[Plan; 2]>::try_from(plans).expect("two bundles");
    // Cells of one block are to take about as long.
    let passes = before.settings.passes;
    let mut pair = Pair { before, after };
    pair.after.settings.passes = passes;
    let runner = Processes {
        executable,
        arguments: vec![String::from("replay"), String::from("--cell")],
        limit: Duration::from_secs(asked.limit_s),
        stop: None,
    };
    let bar = replay::progress_bar(asked.quiet);
    let results = run_pair(&pair, &runner, |progress| replay::show_progress(&bar, progress));
    bar.finish_and_clear();
    Ok(results?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changed_bundle_stands_beside_the_recording() {
        assert_eq!(beside(Path::new("a/b.heaplab")), Path::new("a/b.what-if.heaplab"));
        assert_eq!(beside(Path::new("b.v2.heaplab/")), Path::new("b.v2.what-if.heaplab"));
    }
}
