//! `cargo xtask bench snapshot FILE`: time and memory to read a heap snapshot and to compute everything that its summary shows, beside other
//! programs; `--copies K` does it for a ladder file too, K copies under one root, and checks that every class has K times its figures.
//!
//! Each measurement is a process of its own, and the programs take turns, so that a busy machine is busy for all of them. Memory is what is resident
//! besides the mapped file; for other programs it is all that is resident.

use super::{measure, release, snapshot_ladder};
use anyhow::{Context, Result, bail, ensure};
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::index::{Key, Summary};
use heaplab_snapshot::{ReadOptions, Snapshot};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Arguments of `cargo xtask bench snapshot`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A heap snapshot; studies/heap-snapshots/programs makes large ones
    file: PathBuf,
    /// Also a file of that many copies under one root, written beside the snapshot and removed again
    #[arg(long)]
    copies: Option<u32>,
    /// Times each measurement is repeated
    #[arg(long, default_value_t = 5)]
    reps: usize,
    /// Another program to run on the file, `NAME=COMMAND ARGUMENT...`, `{}` for the file
    #[arg(long)]
    peer: Vec<String>,
    /// Measure one thing in this process and print it as JSON
    #[arg(long, hide = true)]
    one: Option<One>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum One {
    Read,
    Summary,
    SummaryBy2,
    Index,
}

const ALL: [(One, &str); 4] = [
    (One::Read, "read into columns"),
    (One::Summary, "read, and everything a summary shows"),
    (One::SummaryBy2, "the same with two threads"),
    (One::Index, "summary from its index"),
];

/// What one process measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    wall_s: f64,
    cpu_s: f64,
    anonymous_mb: f64,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    if let Some(one) = args.one {
        println!("{}", serde_json::to_string(&measure_one(one, &args.file)?)?);
        return Ok(());
    }
    if release::again()? {
        return Ok(());
    }
    table(args, &args.file)?;
    if let Some(copies) = args.copies {
        let ladder = args.file.with_extension("ladder");
        let written = snapshot_ladder::write(&args.file, &ladder, copies).and_then(|()| {
            println!("\n{copies} copies, every class's figures {copies} times those of one: checked");
            table(args, &ladder)
        });
        std::fs::remove_file(&ladder).ok();
        written?;
    }
    Ok(())
}

/// Measures everything on one file, in turns, and prints a row each.
fn table(args: &Args, file: &Path) -> Result<()> {
    let bytes = std::fs::metadata(file).with_context(|| file.display().to_string())?.len();
    println!("{} of {:.0} MB, {} repetitions in turns: medians, and the range", file.display(), bytes as f64 / 1e6, args.reps);
    let mut ours: Vec<Vec<Measured>> = vec![Vec::new(); ALL.len()];
    let mut peers: Vec<Vec<Measured>> = vec![Vec::new(); args.peer.len()];
    for _ in 0..args.reps {
        for ((one, _), measured) in ALL.iter().zip(&mut ours) {
            measured.push(child(*one, file)?);
        }
        for (peer, measured) in args.peer.iter().zip(&mut peers) {
            measured.extend(run_peer(peer, file)?);
        }
    }
    for ((one, name), measured) in ALL.iter().zip(&ours) {
        let rate = if *one == One::Read {
            format!(", {:.2} GB/s of CPU", bytes as f64 / 1e9 / least(measured, |one| one.cpu_s))
        } else {
            String::new()
        };
        print_row(name, measured, "besides the file", &rate);
    }
    for (peer, measured) in args.peer.iter().zip(&peers) {
        print_row(peer.split_once('=').map_or(peer, |(name, _)| name), measured, "in all", "");
    }
    Ok(())
}

fn least(measured: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    measured.iter().map(of).fold(f64::INFINITY, f64::min)
}

fn print_row(name: &str, measured: &[Measured], memory: &str, more: &str) {
    if measured.is_empty() {
        println!("{name}: skipped, it cannot be run here");
        return;
    }
    let spread = |of: fn(&Measured) -> f64| {
        let spread = measure::Spread::of(measured.iter().map(of));
        format!("{:.3} ({:.3} to {:.3})", spread.median, spread.least, spread.most)
    };
    let memory_mb = measured.iter().map(|one| one.anonymous_mb).fold(0.0, f64::max);
    println!("{name}: {} s, CPU {} s, peak {memory_mb:.0} MB {memory}{more}", spread(|one| one.wall_s), spread(|one| one.cpu_s));
}

/// Runs one of our measurements in a process of its own.
fn child(one: One, file: &Path) -> Result<Measured> {
    let name = clap::ValueEnum::to_possible_value(&one).context("a measurement with a name")?;
    let output = Command::new(std::env::current_exe()?).args(["bench", "snapshot", "--one", name.get_name()]).arg(file).output()?;
    ensure!(output.status.success(), "measuring failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs another program; `None` if it cannot be started.
fn run_peer(peer: &str, file: &Path) -> Result<Option<Measured>> {
    let Some((_, command)) = peer.split_once('=') else { bail!("--peer NAME=COMMAND ARGUMENT...") };
    let words: Vec<String> = command.split_whitespace().map(|word| word.replace("{}", &file.display().to_string())).collect();
    let program = words.first().context("--peer without a command")?;
    let from = Instant::now();
    let mut command = Command::new(program);
    command.args(&words[1..]).stdout(std::process::Stdio::null());
    match measure::run(&mut command) {
        Ok(used) => Ok(Some(Measured {
            wall_s: from.elapsed().as_secs_f64(),
            cpu_s: used.cpu_s,
            anonymous_mb: used.resident_kib as f64 * 1024.0 / 1e6,
        })),
        Err(error) => {
            eprintln!("{peer}: {error:#}");
            Ok(None)
        }
    }
}

/// Measures in this process.
fn measure_one(one: One, path: &Path) -> Result<Measured> {
    let file = std::fs::File::open(path)?;
    // SAFETY: the file is not changed while this process runs; if somebody cuts it, this process dies and nothing else.
    let bytes = unsafe { memmap2::Mmap::map(&file)? };
    // Once over the pages of the file, so that what is measured is not the disk.
    ensure!(!bytes.is_empty() && bytes.iter().step_by(4096).map(|byte| u64::from(*byte)).sum::<u64>() > 0, "an empty file");
    let index = if one == One::Index { Some(summary_of(&bytes, 2)?.to_index(&Key::of(&bytes, 0))) } else { None };
    let watch = Watch::start();
    let (from, cpu) = (Instant::now(), cpu_s());
    match (one, &index) {
        (One::Index, Some(index)) => {
            let summary = Summary::from_index(index, &Key::of(&bytes, 0))?;
            ensure!(!summary.classes.is_empty(), "no classes");
        }
        (One::Read, _) => {
            let snapshot = Snapshot::read(&bytes)?;
            ensure!(snapshot.graph.node_count() > 0, "no nodes");
        }
        _ => {
            let summary = summary_of(&bytes, if one == One::SummaryBy2 { 2 } else { 1 })?;
            ensure!(!summary.classes.is_empty(), "no classes");
        }
    }
    let (wall_s, cpu_s) = (from.elapsed().as_secs_f64(), cpu_s() - cpu);
    Ok(Measured { wall_s, cpu_s, anonymous_mb: watch.stop() })
}

fn summary_of(bytes: &[u8], threads: usize) -> Result<Summary> {
    let snapshot = Snapshot::read_with(bytes, &ReadOptions { threads, ..ReadOptions::default() })?;
    Ok(Summary::of(&Analysis::of(&snapshot, &Options { threads, ..Options::default() })))
}

/// CPU time of this process, s.
fn cpu_s() -> f64 {
    // SAFETY: a rusage of zeros is valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// A thread that looks at this process's anonymous memory every few milliseconds: the kernel keeps the peak of all that is resident only.
struct Watch {
    thread: std::thread::JoinHandle<()>,
}

static PEAK_KIB: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicBool = AtomicBool::new(false);

impl Watch {
    fn start() -> Watch {
        let look = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            let anonymous =
                status.lines().find_map(|line| line.strip_prefix("RssAnon:")).and_then(|line| line.split_whitespace().next()?.parse().ok());
            PEAK_KIB.fetch_max(anonymous.unwrap_or(0), Ordering::Relaxed);
        };
        let watch = move || {
            while !DONE.load(Ordering::Relaxed) {
                look();
                std::thread::sleep(Duration::from_millis(4));
            }
        };
        Watch { thread: std::thread::spawn(watch) }
    }

    /// The peak, MB.
    fn stop(self) -> f64 {
        DONE.store(true, Ordering::Relaxed);
        self.thread.join().ok();
        PEAK_KIB.load(Ordering::Relaxed) as f64 * 1024.0 / 1e6
    }
}
