//! `cargo xtask bench recorder`: the cost of recording, in the recorded program and in all
//! processes until the bundle is finished, beside heaptrack in the same run.
//!
//! Each repetition runs the program under `heaplab record` at each stack depth, under another build
//! of heaplab if one is given, and under heaptrack (raw), with a plain run before and after each of
//! these. Every other repetition has the opposite order, so that a slow minute of the machine
//! affects all of them. An event is a malloc, free or realloc, counted by heaplab. Two rows are
//! lower bounds for any recorder (`recorder_floor.c`): hooks that only call on, and hooks that also
//! write a record that nobody reads. The kernel's part stands beside the sum, because page faults
//! and waits need other remedies than instructions. The cost of starting a process is measured
//! apart (`recorder_starts.rs`). `recorder_table.rs` describes the figures.

use super::bounds::Bounds;
use super::measure::{Used, read_child, run as run_command, through_child};
use super::programs::{self, Heaptrack, Program, root};
use super::recorder_starts;
use super::recorder_table::{self, Beside, Table};
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
    /// Neither heaptrack nor the floors: more repetitions in the same time
    #[arg(long)]
    alone: bool,
    /// A heaplab from before a change, measured in the same repetitions
    #[arg(long, value_parser = super::existing)]
    before: Option<PathBuf>,
    /// Stack depths
    #[arg(long, value_delimiter = ',', default_values_t = [0, 16, 64])]
    depth: Vec<u32>,
}

/// One way of running it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Not recorded.
    Plain,
    /// At a stack depth.
    Heaplab(u32),
    /// The earlier build, at a stack depth.
    Before(u32),
    /// Its raw file.
    Heaptrack,
    /// Hooks that record nothing: the index in [`FLOORS`].
    Floor(usize),
}

/// Names of the builds of `recorder_floor.c`, and their compiler flags.
pub const FLOORS: [(&str, &[&str]); 2] =
    [("calls passed on", &[]), ("a record stored", &["-DSTORE"])];

/// The measured heaplab, and a folder to write to.
struct Bench<'a> {
    folder: &'a Path,
    heaplab: &'a Path,
    before: Option<&'a Path>,
    heaptrack: Option<Heaptrack>,
    ways: Vec<Way>,
}

/// The figures of one run.
#[derive(Clone, Copy, Default)]
pub struct Run {
    /// The program.
    pub target: Used,
    /// All processes, until the bundle is finished.
    pub all: Used,
    /// Counted by heaplab; 0: it did not record.
    pub events: u64,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let before =
        args.before.as_ref().map(|path| path.canonicalize().context("--before")).transpose()?;
    let wants_starts =
        args.only.as_ref().is_none_or(|only| recorder_starts::NAME.contains(only.as_str()));
    let [one, two] = programs::threads(folder.path())?;
    let mut programs =
        vec![programs::sqlite(folder.path(), 4)?, programs::compiler(folder.path())?, one, two];
    let names: Vec<&str> = programs.iter().map(|program| program.name).collect();
    programs.retain(|p| args.only.as_ref().is_none_or(|only| p.name.contains(only.as_str())));
    if programs.is_empty() && !wants_starts {
        let (only, starts) = (args.only.as_deref().unwrap_or_default(), recorder_starts::NAME);
        bail!("--only {only}: no program is so called; there are {}, {starts}", names.join(", "));
    }
    let heaplab = programs::heaplab(args.heaplab.as_deref())?;
    let heaptrack = if args.alone { None } else { Heaptrack::find() };
    let mut ways = if args.alone { Vec::new() } else { vec![Way::Floor(0), Way::Floor(1)] };
    for (place, (_, flags)) in FLOORS.iter().enumerate() {
        let source = root().join("bench/src/recorder_floor.c");
        let object = floor_object(folder.path(), place);
        run_command(
            Command::new("cc")
                .args([
                    "-O2",
                    "-fPIC",
                    "-shared",
                    "-fvisibility=hidden",
                    "-ftls-model=initial-exec",
                ])
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
    let bench = Bench {
        folder: folder.path(),
        heaplab: &heaplab,
        before: before.as_deref(),
        heaptrack,
        ways,
    };
    println!("load of the machine before: {}", load());
    if !programs.is_empty() {
        bench.programs(&programs, args.reps)?;
    }
    if wants_starts {
        let Bench { folder, heaplab, before, heaptrack, .. } = &bench;
        recorder_starts::run(
            &recorder_starts::Bench {
                folder,
                heaplab,
                before: *before,
                heaptrack: heaptrack.as_ref(),
            },
            args.reps,
        )?;
    }
    println!("load of the machine after: {}", load());
    Ok(())
}

/// The mean numbers of running processes over 1, 5 and 15 minutes, so that the output shows a busy
/// machine.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_else(|_| "not known".into());
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

fn floor_object(folder: &Path, place: usize) -> PathBuf {
    folder.join(format!("floor{place}.so"))
}

impl Bench<'_> {
    /// Measures the programs in turns, prints a table of each, and fails if a bound is missed.
    fn programs(&self, programs: &[Program], reps: usize) -> Result<()> {
        let mut rows: Vec<Vec<Vec<Beside>>> = programs.iter().map(|_| Vec::new()).collect();
        for repetition in 0..reps {
            for (program, rows) in programs.iter().zip(&mut rows) {
                rows.push(self.repetition(program, repetition % 2 == 1)?);
            }
        }
        let tables: Vec<Table> = programs
            .iter()
            .zip(rows)
            .map(|(program, rows)| Table { name: program.name, ways: &self.ways, rows })
            .collect();
        let mut bounds = Bounds::default();
        recorder_table::print(&tables, &mut bounds)?;
        bounds.finish()
    }

    /// Runs the program in each way once, plain before and after each.
    fn repetition(&self, program: &Program, backwards: bool) -> Result<Vec<Beside>> {
        let mut measured = vec![Beside::default(); self.ways.len()];
        let places = 0..self.ways.len();
        let order: Vec<usize> = if backwards { places.rev().collect() } else { places.collect() };
        let mut before = self.measure(program, Way::Plain)?.target;
        for place in order {
            let run = self.measure(program, self.ways[place])?;
            let after = self.measure(program, Way::Plain)?.target;
            measured[place] = Beside { run, before, after };
            before = after;
        }
        Ok(measured)
    }

    /// Runs the program in one way.
    fn measure(&self, program: &Program, way: Way) -> Result<Run> {
        let used = self.folder.join("used.json");
        let raw = self.folder.join("heaptrack.raw");
        let environment = match way {
            Way::Heaptrack => self.heaptrack.as_ref().context("no heaptrack")?.environment(&raw),
            Way::Floor(place) => {
                vec![format!("LD_PRELOAD={}", floor_object(self.folder, place).display())]
            }
            _ => Vec::new(),
        };
        let words = through_child(&used, &environment, &program.command)?;
        let bundle = self.folder.join("run.heaplab");
        let (all, events) = match way {
            Way::Heaplab(depth) => programs::record(self.heaplab, depth, program, &words, &bundle)?,
            Way::Before(depth) => (
                programs::record(
                    self.before.context("no --before")?,
                    depth,
                    program,
                    &words,
                    &bundle,
                )?
                .0,
                0,
            ),
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
