//! `cargo xtask bench recorder`: what recording costs, in the program that is recorded and in all processes until the bundle is
//! finished, beside heaptrack in the same run.
//!
//! Each repetition runs the program plain, under `heaplab record` at each stack depth, under another build of heaplab where one
//! is given, and under heaptrack (raw), in this order, so that a slow minute of the machine falls on all of them; a repetition's
//! differences to its own plain run are what is reported, as median and range. An event is a malloc, free or realloc, counted by
//! heaplab. Two rows say what no recorder can undercut (`recorder_floor.c`): hooks that only call on, and hooks that
//! also write a record where nobody reads it. What the kernel did of it stands beside the sum, because page faults and waiting
//! are mended otherwise than instructions are. What it costs to start a process is measured apart (`recorder_starts.rs`).

use super::measure::{Spread, Used, read_child, run as run_command, through_child};
use super::programs::{self, Heaptrack, Program, root};
use super::recorder_starts;
use anyhow::{Context, Result, bail};
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
    let mut ways = vec![Way::Plain, Way::Floor(0), Way::Floor(1)];
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
        println!("CPU added, ns an event, and resident KiB added: median (range) of {reps} repetitions,");
        println!("each against its own plain run; system: the kernel's share of the target's");
        let mut threads = Vec::new();
        for program in programs {
            let mut rows = Vec::new();
            for _ in 0..reps {
                rows.push(self.ways.iter().map(|&way| self.measure(program, way)).collect::<Result<Vec<_>>>()?);
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

/// Prints one program's table; gives the nanoseconds an event that depth 16 adds in the target.
fn report(program: &Program, ways: &[Way], rows: &[Vec<Run>]) -> Option<f64> {
    let events = rows[0].iter().map(|run| run.events).max()? as f64;
    let plain = Spread::of(rows.iter().map(|row| row[0].target.cpu_s));
    println!("\n{}: {events:.0} events, {:.3} s of CPU when not recorded", program.name, plain.median);
    println!("{:<17} {:>23} {:>6} {:>23} {:>7}", "", "in the target", "system", "in all processes", "KiB");
    let mut at_16 = None;
    for (index, &way) in ways.iter().enumerate().skip(1) {
        let added = |used: fn(&Run) -> f64| Spread::of(rows.iter().map(|row| (used(&row[index]) - used(&row[0])) / events * 1e9));
        let target = added(|run| run.target.cpu_s);
        let system = added(|run| run.target.system_s);
        let all = added(|run| run.all.cpu_s);
        let resident = Spread::of(rows.iter().map(|row| (row[index].target.resident_kib - row[0].target.resident_kib) as f64));
        let name = match way {
            Way::Heaplab(depth) => format!("heaplab, depth {depth}"),
            Way::Before(depth) => format!("before, depth {depth}"),
            Way::Heaptrack => String::from("heaptrack, raw"),
            Way::Floor(place) => String::from(FLOORS[place].0),
            Way::Plain => unreachable!("the first way"),
        };
        let (target_text, all) = (target.to_string(), all.to_string());
        println!("{name:<17} {target_text:>23} {:>6.1} {all:>23} {:>7.0}", system.median, resident.median);
        if way == Way::Heaplab(16) {
            at_16 = Some(target.median);
        }
    }
    at_16
}
