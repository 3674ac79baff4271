//! `cargo xtask bench recorder`: what recording costs, in the program that is recorded and in all processes until the bundle is
//! finished, beside heaptrack in the same run.
//!
//! Each repetition runs the program under `heaplab record` at each stack depth, under another build of heaplab where one is
//! given, and under heaptrack (raw), with a plain run before and one after, and every other repetition in the opposite order, so
//! that a slow minute of the machine falls on all of them. A repetition's differences to the mean of its own plain runs are what
//! is reported, as the Hodges-Lehmann estimate with its 95 % interval, because single runs differ by more than the cost that is
//! looked for. An event is a malloc, free or realloc, counted by heaplab. Two rows say what no recorder can undercut (`recorder_floor.c`): hooks that only call on, and hooks that
//! also write a record where nobody reads it. What the kernel did of it stands beside the sum, because page faults and waiting
//! are mended otherwise than instructions are. What it costs to start a process is measured apart (`recorder_starts.rs`).

use super::measure::{Spread, Used, read_child, run as run_command, through_child};
use super::programs::{self, Heaptrack, Program, root};
use super::recorder_starts;
use anyhow::{Context, Result, bail};
use heaplab_experiment::results::Estimate;
use heaplab_experiment::statistics::hodges_lehmann;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments of `cargo xtask bench recorder`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Repetitions
    #[arg(long, default_value_t = 5, value_parser = super::one_or_more)]
    reps: usize,
    /// Only programs whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// The heaplab to measure [default: a release build of this tree]
    #[arg(long, value_parser = super::existing)]
    heaplab: Option<PathBuf>,
    /// A heaplab from before a change, measured in the same repetitions
    #[arg(long, value_parser = super::existing)]
    before: Option<PathBuf>,
    /// Stack depths
    #[arg(long, value_delimiter = ',', default_values_t = [0, 16, 64])]
    depth: Vec<u32>,
}

/// One way of running it.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    Heaplab(u32),
    Before(u32),
    Heaptrack,
    /// Hooks that record nothing: the place in [`FLOORS`].
    Floor(usize),
}

/// Names of the builds of `recorder_floor.c`, and what makes them.
const FLOORS: [(&str, &[&str]); 2] = [("calls passed on", &[]), ("a record stored", &["-DSTORE"])];

/// What is measured, and where it may write.
struct Bench<'a> {
    folder: &'a Path,
    heaplab: &'a Path,
    before: Option<&'a Path>,
    heaptrack: Option<Heaptrack>,
    ways: Vec<Way>,
}

/// What one run used.
#[derive(Clone, Copy, Default)]
struct Run {
    target: Used,
    all: Used,
    events: u64,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let before = args.before.as_ref().map(|path| path.canonicalize().context("--before")).transpose()?;
    let wants_starts = args.only.as_ref().is_none_or(|only| recorder_starts::NAME.contains(only.as_str()));
    let [one, two] = programs::threads(folder.path())?;
    let mut programs = vec![programs::sqlite(folder.path(), 4)?, programs::compiler(folder.path())?, one, two];
    let names: Vec<&str> = programs.iter().map(|program| program.name).collect();
    programs.retain(|p| args.only.as_ref().is_none_or(|only| p.name.contains(only.as_str())));
    if programs.is_empty() && !wants_starts {
        let (only, starts) = (args.only.as_deref().unwrap_or_default(), recorder_starts::NAME);
        bail!("--only {only}: no program is so called; there are {}, {starts}", names.join(", "));
    }
    let heaplab = programs::heaplab(args.heaplab.as_deref())?;
    let heaptrack = Heaptrack::find();
    let mut ways = vec![Way::Floor(0), Way::Floor(1)];
    for (place, (_, flags)) in FLOORS.iter().enumerate() {
        let source = root().join("xtask/src/bench/recorder_floor.c");
        let object = floor_object(folder.path(), place);
        run_command(
            Command::new("cc")
                .args(["-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-ftls-model=initial-exec"])
                .args(["-fno-builtin", "-fno-plt", "-o"])
                .arg(object)
                .args(*flags)
                .arg(source),
        )?;
    }
    for &depth in &args.depth {
        ways.push(Way::Heaplab(depth));
        ways.extend(before.is_some().then_some(Way::Before(depth)));
    }
    ways.extend(heaptrack.is_some().then_some(Way::Heaptrack));
    let bench = Bench { folder: folder.path(), heaplab: &heaplab, before: before.as_deref(), heaptrack, ways };
    println!("load of the machine before: {}", load());
    if !programs.is_empty() {
        bench.programs(&programs, args.reps)?;
    }
    if wants_starts {
        let Bench { folder, heaplab, before, heaptrack, .. } = &bench;
        recorder_starts::run(&recorder_starts::Bench { folder, heaplab, before: *before, heaptrack: heaptrack.as_ref() }, args.reps)?;
    }
    println!("load of the machine after: {}", load());
    Ok(())
}

/// The means of running processes over 1, 5 and 15 minutes, so that a busy machine shows in what is printed.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_else(|_| "not known".into());
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

fn floor_object(folder: &Path, place: usize) -> PathBuf {
    folder.join(format!("floor{place}.so"))
}

impl Bench<'_> {
    /// Measures the programs and prints a table of each.
    fn programs(&self, programs: &[Program], reps: usize) -> Result<()> {
        println!("CPU added, ns an event: estimate (95 % interval) of {reps} repetitions, each against its own two plain runs;");
        println!("system: the kernel's share of the target's; KiB: resident memory added, median");
        let mut threads = Vec::new();
        for program in programs {
            let mut rows = Vec::new();
            for repetition in 0..reps {
                rows.push(self.repetition(program, repetition % 2 == 1)?);
            }
            threads.push((program.name, report(program, &self.ways, &rows)));
        }
        if let [.., (one, Some(of_one)), (two, Some(of_two))] = threads[..]
            && two == "two threads"
        {
            println!("{two} against {one}, depth 16, ns an event in the target: {:.2} times", of_two / of_one);
        }
        Ok(())
    }

    /// Runs the program in each way once, plain before and after.
    fn repetition(&self, program: &Program, backwards: bool) -> Result<Repetition> {
        let before = self.measure(program, Way::Plain)?.target;
        let mut runs = vec![Run::default(); self.ways.len()];
        let places = 0..self.ways.len();
        let order: Vec<usize> = if backwards { places.rev().collect() } else { places.collect() };
        for place in order {
            runs[place] = self.measure(program, self.ways[place])?;
        }
        Ok(Repetition { plain: [before, self.measure(program, Way::Plain)?.target], runs })
    }

    /// Runs the program in one way.
    fn measure(&self, program: &Program, way: Way) -> Result<Run> {
        let used = self.folder.join("used.json");
        let raw = self.folder.join("heaptrack.raw");
        let environment = match way {
            Way::Heaptrack => self.heaptrack.as_ref().context("no heaptrack")?.environment(&raw),
            Way::Floor(place) => vec![format!("LD_PRELOAD={}", floor_object(self.folder, place).display())],
            _ => Vec::new(),
        };
        let words = through_child(&used, &environment, &program.command)?;
        let bundle = self.folder.join("run.heaplab");
        let (all, events) = match way {
            Way::Heaplab(depth) => programs::record(self.heaplab, depth, program, &words, &bundle)?,
            Way::Before(depth) => (programs::record(self.before.context("no --before")?, depth, program, &words, &bundle)?.0, 0),
            Way::Plain | Way::Heaptrack | Way::Floor(_) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                program.attach(&mut command)?;
                command.stderr(Stdio::null());
                (run_command(&mut command)?, 0)
            }
        };
        Ok(Run { target: read_child(&used)?, all, events })
    }
}

/// What one repetition used: plain before and after, and in each way.
struct Repetition {
    plain: [Used; 2],
    runs: Vec<Run>,
}

impl Repetition {
    /// What a way used beyond the mean of the plain runs.
    fn added(&self, place: usize, of: impl Fn(&Used) -> f64, run: impl Fn(&Run) -> Used) -> f64 {
        of(&run(&self.runs[place])) - self.plain.iter().map(of).sum::<f64>() / 2.0
    }
}

/// Prints one program's table; gives the nanoseconds an event that depth 16 adds in the target.
fn report(program: &Program, ways: &[Way], rows: &[Repetition]) -> Option<f64> {
    let events = rows[0].runs.iter().map(|run| run.events).max()? as f64;
    let plain = Spread::of(rows.iter().flat_map(|row| row.plain.map(|used| used.cpu_s)));
    let (median, least, most) = (plain.median, plain.least, plain.most);
    println!("\n{}: {events:.0} events, {median:.3} s of CPU when not recorded ({least:.3} to {most:.3})", program.name);
    println!("{:<17} {:>23} {:>6} {:>23} {:>7}", "", "in the target", "system", "in all processes", "KiB");
    let mut at_16 = None;
    for (place, &way) in ways.iter().enumerate() {
        let added = |of: fn(&Used) -> f64, run: fn(&Run) -> Used| {
            let values: Vec<f64> = rows.iter().map(|row| row.added(place, of, run) / events * 1e9).collect();
            hodges_lehmann(&values, 0.95)
        };
        let target = added(|used| used.cpu_s, |run| run.target)?;
        let system = added(|used| used.system_s, |run| run.target)?.value;
        let all = added(|used| used.cpu_s, |run| run.all)?;
        let resident = Spread::of(rows.iter().map(|row| row.added(place, |used| used.resident_kib as f64, |run| run.target))).median;
        let name = match way {
            Way::Heaplab(depth) => format!("heaplab, depth {depth}"),
            Way::Before(depth) => format!("before, depth {depth}"),
            Way::Heaptrack => String::from("heaptrack, raw"),
            Way::Floor(place) => String::from(FLOORS[place].0),
            Way::Plain => unreachable!("measured in between"),
        };
        let judged = match way {
            Way::Heaplab(0) => judged(&target, 15.0),
            Way::Heaplab(16) => judged(&target, 100.0),
            _ => String::new(),
        };
        println!("{name:<17} {:>23} {system:>6.1} {:>23} {resident:>7.0}{judged}", text(&target), text(&all));
        if way == Way::Heaplab(16) {
            at_16 = Some(target.value);
        }
    }
    beside_heaptrack(ways, rows);
    at_16
}

/// Says what recording costs in all processes, in times of what heaptrack costs, pair by pair.
fn beside_heaptrack(ways: &[Way], rows: &[Repetition]) {
    let Some(peer) = ways.iter().position(|&way| way == Way::Heaptrack) else { return };
    for (place, way) in ways.iter().enumerate() {
        let Way::Heaplab(depth) = way else { continue };
        let cost = |row: &Repetition, place| row.added(place, |used| used.cpu_s, |run| run.all);
        let values: Vec<f64> = rows.iter().map(|row| cost(row, place) / cost(row, peer)).collect();
        if let Some(ratio) = hodges_lehmann(&values, 0.95) {
            let Estimate { value, low, high } = ratio;
            let judged = judged(&ratio, 1.0);
            println!("heaplab, depth {depth}, in times of heaptrack, all processes: {value:.2} ({low:.2} to {high:.2}){judged}");
        }
    }
}

/// What an interval says of a bound.
fn judged(measured: &Estimate, bound: f64) -> String {
    let word = match () {
        () if measured.high <= bound => "met",
        () if measured.low > bound => "MISSED",
        () if measured.value <= bound => "met by the estimate, not by its interval",
        () => "not shown: the interval holds the bound",
    };
    format!("  <= {bound}: {word}")
}

fn text(estimate: &Estimate) -> String {
    format!("{:.1} ({:.1} to {:.1})", estimate.value, estimate.low, estimate.high)
}
