//! `cargo xtask bench report-calls`: the cost of a reporter's call for each block, recorded with
//! `record --dmd`, recorded without, and not recorded; and whether recording costs more with
//! `--dmd` where no reporter runs.
//!
//! One program (this one, `--run`) holds blocks and measures them as a reporter does, or allocates
//! and frees in pairs. Each repetition runs it in every way, every other one backwards. Callgrind
//! counts instructions under the same recorder: the difference of a run that works twice and a run
//! that works three times has neither the process's start nor the recorder's.

use super::bounds::Bounds;
use super::measure::{self, Spread};
use super::programs;
use anyhow::{Context, Result, ensure};
use heaplab_reporter::{Kind, Measure, collect, register};
use std::ffi::OsString;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The bound of a reporter's call, ns a block.
const CALL_NS: f64 = 50.0;
/// Blocks of a reporter, and pairs of malloc and free, of a timed run.
const TIMED: usize = 200_000;
/// The same under callgrind, some fifty times slower.
const COUNTED: usize = 20_000;
/// Times that a timed run does its work: the first finds no stack in the recorder's table.
const TIMES: u32 = 10;

/// Arguments of `cargo xtask bench report-calls`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Repetitions
    #[arg(long, default_value_t = 9, value_parser = super::one_or_more)]
    reps: usize,
    /// The heaplab to measure [default: a release build of this tree]
    #[arg(long, value_parser = super::existing)]
    heaplab: Option<PathBuf>,
    /// A heaplab from before a change, measured in the same repetitions
    #[arg(long, value_parser = super::existing)]
    before: Option<PathBuf>,
    /// Stack depth
    #[arg(long, default_value_t = 64)]
    depth: u32,
    /// Be the measured program (used by the benchmark itself)
    #[arg(long, hide = true)]
    run: Option<Work>,
    /// With --run: blocks or pairs
    #[arg(long, hide = true, default_value_t = TIMED)]
    count: usize,
    /// With --run: how often
    #[arg(long, hide = true, default_value_t = 1)]
    times: u32,
}

/// The program's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Work {
    /// Reporters measure blocks.
    Reports,
    /// malloc and free in pairs.
    Pairs,
}

/// How the program runs: its name, the recorder, and whether reports are recorded.
#[derive(Clone, Copy)]
struct Way<'a> {
    name: &'static str,
    recorder: Option<(&'a Path, bool)>,
}

/// Runs the benchmark, or is its program.
pub fn run(args: &Args) -> Result<()> {
    match args.run {
        Some(Work::Reports) => return work(args.times, reports(args.count)),
        Some(Work::Pairs) => return work(args.times, || pairs(args.count)),
        None => {}
    }
    let heaplab = programs::heaplab(args.heaplab.as_deref())?;
    let before =
        args.before.as_ref().map(|path| path.canonicalize().context("--before")).transpose()?;
    let mut ways = vec![
        Way { name: "not recorded", recorder: None },
        Way { name: "record", recorder: Some((&heaplab, false)) },
        Way { name: "record --dmd", recorder: Some((&heaplab, true)) },
    ];
    if let Some(before) = &before {
        ways.push(Way { name: "record, before", recorder: Some((before, false)) });
        ways.push(Way { name: "record --dmd, before", recorder: Some((before, true)) });
    }
    let folder = tempfile::tempdir()?;
    let mut bounds = Bounds::default();
    for (work, what) in
        [(Work::Reports, "block reported"), (Work::Pairs, "pair of malloc and free")]
    {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
        for repetition in 0..args.reps {
            let places = 0..ways.len();
            let order: Vec<usize> =
                if repetition % 2 == 1 { places.rev().collect() } else { places.collect() };
            for place in order {
                times[place].push(timed(ways[place], work, args.depth, folder.path())?);
            }
        }
        println!("\n{what}, depth {}: ns of CPU, median (range) of {}", args.depth, args.reps);
        println!("{:<21} {:>22} {:>14}", "", "ns", "instructions");
        let mut instructions = Vec::new();
        for (way, times) in ways.iter().zip(&times) {
            let counted = counted(*way, work, args.depth, folder.path())?;
            let spread = Spread::of(times.iter().copied()).to_string();
            println!("{:<21} {spread:>22} {counted:>14.1}", way.name);
            instructions.push(counted);
        }
        match work {
            Work::Reports => bounds.median_at_most(
                "a reporter's call, record --dmd",
                times[2].iter().copied(),
                "ns a block",
                CALL_NS,
            ),
            Work::Pairs => bounds.at_most(
                "instructions that --dmd adds to malloc and free",
                (instructions[2] - instructions[1]).abs(),
                "a pair",
                0.05,
            ),
        }
    }
    bounds.finish()
}

/// Does the work so often and prints the CPU time of each time in ns, without the first if there
/// are several. Their mean, because some kernels count CPU time in ticks of 4 ms.
fn work(times: u32, mut once: impl FnMut()) -> Result<()> {
    let counted = times.saturating_sub(1).max(1);
    (counted..times).for_each(|_| once());
    let from = measure::cpu_ns()?;
    (0..counted).for_each(|_| once());
    println!("{}", (measure::cpu_ns()? - from) as f64 / f64::from(counted));
    Ok(())
}

/// One reporter that measures so many blocks, asked at each call.
fn reports(count: usize) -> impl FnMut() {
    let kept: Vec<Box<[u8]>> = (0..count).map(|at| vec![0; 16 + at % 64 * 8].into()).collect();
    register(move |sink| {
        let mut measure = Measure::new();
        let addresses = kept.iter().map(|block| block.as_ptr());
        // SAFETY: the boxes are live blocks of the allocator, which is malloc.
        let bytes: usize = addresses.map(|block| unsafe { measure.block(block.cast()) }).sum();
        sink.bytes("explicit/kept", Kind::Heap, bytes as i64, "Blocks kept.");
    })
    .forever();
    || drop(black_box(collect()))
}

fn pairs(count: usize) {
    for at in 0..count {
        // SAFETY: malloc takes any size; the block is freed once.
        unsafe { libc::free(black_box(libc::malloc(16 + at % 64 * 8))) };
    }
}

/// The command of a run in one way. `under` are words before the program's own.
fn command(
    way: Way<'_>,
    work: Work,
    depth: u32,
    (count, times): (usize, u32),
    folder: &Path,
    under: &[&str],
) -> Result<Command> {
    let mut words: Vec<OsString> = Vec::new();
    if let Some((heaplab, reports)) = way.recorder {
        words.push(heaplab.into());
        words.extend(["record", "--quiet", "--force", "--stack-depth"].map(OsString::from));
        words.extend([depth.to_string().into(), "-o".into()]);
        words.push(folder.join("run.heaplab").into());
        words.extend(reports.then(|| "--dmd".into()));
        words.push("--".into());
    }
    words.extend(under.iter().map(OsString::from));
    words.push(std::env::current_exe()?.into());
    let work = if work == Work::Reports { "reports" } else { "pairs" };
    words.extend(["report-calls", "--run", work, "--count"].map(OsString::from));
    words.extend([count.to_string().into(), "--times".into(), times.to_string().into()]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    Ok(command)
}

/// ns of CPU of the program's thread, a block or a pair.
fn timed(way: Way<'_>, work: Work, depth: u32, folder: &Path) -> Result<f64> {
    let mut command = command(way, work, depth, (TIMED, TIMES), folder, &[])?;
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let ns: f64 = text.trim().parse().with_context(|| format!("{command:?} printed {text:?}"))?;
    Ok(ns / TIMED as f64)
}

/// Instructions of the program, a block or a pair.
fn counted(way: Way<'_>, work: Work, depth: u32, folder: &Path) -> Result<f64> {
    let run = |times| -> Result<f64> {
        let file = folder.join("profile");
        let out = format!("--callgrind-out-file={}", file.display());
        let under = ["valgrind", "-q", "--tool=callgrind", &out];
        let mut command = command(way, work, depth, (COUNTED, times), folder, &under)?;
        // Of an earlier run.
        let _ = std::fs::remove_file(&file);
        let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
        // `record` ends with an error, because valgrind's own process is statically linked and not
        // recorded. The profile tells whether its program was run.
        let text = std::fs::read_to_string(&file).with_context(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("{command:?} wrote no profile (apt-get install valgrind)\n{said}")
        })?;
        total(&text).context("callgrind's profile has no total")
    };
    // The first time fills tables.
    Ok((run(3)? - run(2)?) / COUNTED as f64)
}

/// The number behind `totals:` in a profile.
fn total(profile: &str) -> Option<f64> {
    let line = profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profiles_total_is_read() {
        assert_eq!(total("events: Ir\nfn=(1) a\n1 5\n\ntotals: 4744996\n"), Some(4_744_996.0));
        assert_eq!(total("events: Ir\nsummary: 5\n"), None);
    }

    #[test]
    fn a_reporter_measures_every_block() {
        let mut ask = reports(100);
        ask();
        let kept = collect().reports.into_iter().find(|report| report.path == "explicit/kept");
        let requested: i64 = (0..100).map(|at| 16 + at % 64 * 8).sum();
        assert!(kept.unwrap().amount >= requested);
    }
}
