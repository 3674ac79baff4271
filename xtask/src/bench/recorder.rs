//! `cargo xtask bench recorder`: what recording costs, in the program that is recorded and in all processes until the bundle is
//! finished, beside heaptrack in the same run.
//!
//! Each repetition runs the program plain, under `heaplab record` at each stack depth, under another build of heaplab where one
//! is given, and under heaptrack (raw), in this order, so that a slow minute of the machine falls on all of them; a repetition's
//! differences to its own plain run are what is reported, as median and range. An event is a malloc, free or realloc, counted by
//! heaplab. Two rows say what no recorder can undercut (`recorder_floor.c`): hooks that only call on, and hooks that
//! also write a record where nobody reads it. What the kernel did of it stands beside the sum, because page faults and waiting
//! are mended otherwise than instructions are.

use super::measure::{Spread, Used, read_child, run as run_command, through_child};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const HEAPTRACK: &str = "/usr/lib/heaptrack/libheaptrack_preload.so";

/// Arguments of `cargo xtask bench recorder`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Repetitions
    #[arg(long, default_value_t = 5)]
    reps: usize,
    /// Only programs whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// The heaplab to measure [default: a release build of this tree]
    #[arg(long)]
    heaplab: Option<PathBuf>,
    /// A heaplab from before a change, measured in the same repetitions
    #[arg(long)]
    before: Option<PathBuf>,
    /// Stack depths
    #[arg(long, value_delimiter = ',', default_values_t = [0, 16, 64])]
    depth: Vec<u32>,
}

/// A program to record.
struct Program {
    name: &'static str,
    command: Vec<OsString>,
    input: Option<PathBuf>,
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
const FLOORS: [(&str, &[&str]); 2] = [("calls passed on", &[]), ("and a record stored", &["-DSTORE"])];

/// What is measured, and where it may write.
struct Bench<'a> {
    folder: &'a Path,
    heaplab: &'a Path,
    before: Option<&'a Path>,
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
    if args.reps == 0 {
        bail!("--reps 0 measures nothing: 1 or more");
    }
    let folder = tempfile::tempdir()?;
    let heaplab = match &args.heaplab {
        Some(path) => path.canonicalize().context("--heaplab")?,
        None => release_build()?,
    };
    let before = args.before.as_ref().map(|path| path.canonicalize().context("--before")).transpose()?;
    let mut programs = programs(folder.path())?;
    programs.retain(|p| args.only.as_ref().is_none_or(|only| p.name.contains(only.as_str())));
    let heaptrack = Path::new(HEAPTRACK).exists();
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
    ways.extend(heaptrack.then_some(Way::Heaptrack));
    let bench = Bench { folder: folder.path(), heaplab: &heaplab, before: before.as_deref(), ways };
    println!("CPU added, ns an event: median (range) of {} repetitions, each against its own plain run", args.reps);
    println!("load of the machine before: {}", load());
    let mut threads = Vec::new();
    for program in &programs {
        let mut rows = Vec::new();
        for _ in 0..args.reps {
            rows.push(bench.ways.iter().map(|&way| bench.measure(program, way)).collect::<Result<Vec<_>>>()?);
        }
        threads.push((program.name, report(program, &bench.ways, &rows)));
    }
    if let [.., (one, Some(of_one)), (two, Some(of_two))] = threads[..]
        && two == "two threads"
    {
        println!("{two} against {one}, depth 16, ns an event in the target: {:.2} times", of_two / of_one);
    }
    if !heaptrack {
        println!("heaptrack is not installed: no peer in this run");
    }
    println!("load of the machine after: {}", load());
    Ok(())
}

/// The means of running processes over 1, 5 and 15 minutes, so that a busy machine shows in what is printed.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_else(|_| "not known".into());
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

pub fn release_build() -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let status = Command::new(cargo).args(["build", "--release", "--quiet", "--package", "heaplab"]).status()?;
    if !status.success() {
        bail!("cannot build heaplab");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/heaplab"))
}

fn floor_object(folder: &Path, place: usize) -> PathBuf {
    folder.join(format!("floor{place}.so"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn programs(folder: &Path) -> Result<Vec<Program>> {
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let threads = folder.join("threads");
    let source = root().join("xtask/src/bench/recorder_threads.c");
    run_command(Command::new("cc").args(["-O2", "-pthread", "-fno-builtin-malloc", "-o"]).arg(&threads).arg(source))?;
    let preprocessed = folder.join("templates.ii");
    run_command(Command::new("g++").args(["-std=c++17", "-E", "-o"]).arg(&preprocessed).arg(root().join("traces/templates.cpp")))?;
    let compiler = Command::new("g++").args(["-print-prog-name=cc1plus"]).output()?;
    let compiler = String::from_utf8(compiler.stdout)?.trim().to_string();
    let mut compile = words(&[&compiler, "-quiet", "-std=c++17", "-O1", "-o", "/dev/null"]);
    compile.push(preprocessed.into());
    let threads = |n: &str, pairs: &str| vec![threads.clone().into(), n.into(), pairs.into()];
    Ok(vec![
        Program { name: "sqlite", command: words(&["sqlite3", ":memory:"]), input: Some(repeated(folder)?) },
        Program { name: "C++ compiler", command: compile, input: None },
        Program { name: "one thread", command: threads("1", "8000000"), input: None },
        Program { name: "two threads", command: threads("2", "8000000"), input: None },
    ])
}

/// SQLite's workload four times over, so that what a recording costs once (starting, looking functions up) does not weigh more than
/// it does in a program that lasts.
fn repeated(folder: &Path) -> Result<PathBuf> {
    let once = std::fs::read_to_string(root().join("traces/sqlite-workload.sql"))?;
    let file = folder.join("workload.sql");
    std::fs::write(&file, format!("{once}DROP TABLE a; DROP TABLE t;\n").repeat(4))?;
    Ok(file)
}

impl Bench<'_> {
    /// Runs the program in one way.
    fn measure(&self, program: &Program, way: Way) -> Result<Run> {
        let used = self.folder.join("used.json");
        let raw = self.folder.join("heaptrack.raw");
        let environment = match way {
            Way::Heaptrack => vec![format!("LD_PRELOAD={HEAPTRACK}"), format!("DUMP_HEAPTRACK_OUTPUT={}", raw.display())],
            Way::Floor(place) => vec![format!("LD_PRELOAD={}", floor_object(self.folder, place).display())],
            _ => Vec::new(),
        };
        let words = through_child(&used, &environment, &program.command)?;
        let mut command = match way {
            Way::Heaplab(depth) => self.recorded(self.heaplab, depth, &words),
            Way::Before(depth) => self.recorded(self.before.context("no --before")?, depth, &words),
            Way::Plain | Way::Heaptrack | Way::Floor(_) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                command
            }
        };
        let summary = self.folder.join("summary.json");
        let input = program.input.as_ref().map_or(Ok(Stdio::null()), |path| File::open(path).map(Stdio::from));
        command.stdin(input?).stdout(Stdio::null()).stderr(File::create(&summary)?);
        let all = run_command(&mut command).with_context(|| std::fs::read_to_string(&summary).unwrap_or_default())?;
        let events = match way {
            Way::Heaplab(_) => events_of(&summary)?,
            _ => 0,
        };
        Ok(Run { target: read_child(&used)?, all, events })
    }

    fn recorded(&self, heaplab: &Path, depth: u32, words: &[OsString]) -> Command {
        let mut command = Command::new(heaplab);
        let depth = depth.to_string();
        command.args(["record", "--quiet", "--json", "--force", "--stack-depth", &depth, "-o"]).arg(self.folder.join("run.heaplab"));
        command.arg("--").args(words);
        command
    }
}

/// The number of events in the summary's last line.
fn events_of(summary: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(summary)?;
    let line = text.lines().last().context("heaplab record --json printed nothing")?;
    let value: serde_json::Value = serde_json::from_str(line).with_context(|| line.to_string())?;
    value["events"].as_u64().with_context(|| format!("no \"events\" in {line}"))
}

/// Prints one program's table; gives the nanoseconds an event that depth 16 adds in the target.
fn report(program: &Program, ways: &[Way], rows: &[Vec<Run>]) -> Option<f64> {
    let events = rows[0].iter().map(|run| run.events).max()? as f64;
    let plain = Spread::of(rows.iter().map(|row| row[0].target.cpu_s));
    println!("\n{}: {events:.0} events, {:.3} s of CPU when not recorded", program.name, plain.median);
    println!("  {:<20} {:<28} {:>12} {:<28} {:>10}", "", "in the target", "of it system", "in all processes", "KiB added");
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
        println!("  {name:<20} {:<28} {:>12.1} {:<28} {:>10.0}", target.to_string(), system.median, all.to_string(), resident.median);
        if way == Way::Heaplab(16) {
            at_16 = Some(target.median);
        }
    }
    at_16
}
