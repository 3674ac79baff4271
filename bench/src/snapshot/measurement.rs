//! One measurement, in a process of its own: time, CPU time, memory beside the file, and the CPU
//! time of each phase, by thread.

use anyhow::{Result, anyhow, ensure};
use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::index::{self, Indexed, Key};
use heaplab_snapshot::leaks::{Born, Leaks, OwnSizes, grown};
use heaplab_snapshot::session::SnapshotIds;
use heaplab_snapshot::shortest_paths::ShortestPaths;
use heaplab_snapshot::summary::Summary;
use heaplab_snapshot::{Instructions, ReadOptions, Snapshot};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The measured work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum One {
    /// Parsing into columns, with the best instructions available.
    Read,
    /// With AVX2 at most.
    ReadAvx2,
    /// With SSE4.1 at most.
    ReadSse4,
    /// With SSE2 at most.
    ReadSse2,
    /// Without vectors.
    ReadPortable,
    /// Parsing, and everything in a summary.
    Summary,
    /// The same with two threads.
    SummaryBy2,
    /// A summary from an index, after a check of the whole index.
    Index,
    /// The shortest way to each object of the class that retains most, from an index.
    IndexWays,
    /// Three files read, and the leaks of the third.
    Leaks,
}

/// All, with their names.
pub const ALL: [(One, &str); 10] = [
    (One::Read, "read into columns"),
    (One::ReadAvx2, "the same without AVX-512"),
    (One::ReadSse4, "the same without AVX2"),
    (One::ReadSse2, "the same without SSSE3"),
    (One::ReadPortable, "the same without vectors"),
    (One::Summary, "read, and everything a summary shows"),
    (One::SummaryBy2, "the same with two threads"),
    (One::Index, "second question, from the index: summary"),
    (One::IndexWays, "second question, from the index: ways to a class"),
    (One::Leaks, "leaks of three such files"),
];

impl One {
    /// Whether it only reads.
    pub fn is_reading(self) -> bool {
        matches!(self, One::Read) || self.instructions().is_some()
    }

    /// Whether this machine can.
    pub fn is_possible(self) -> bool {
        self.instructions().is_none_or(Instructions::is_usable)
    }

    fn instructions(self) -> Option<Instructions> {
        match self {
            One::ReadAvx2 => Some(Instructions::Avx2),
            One::ReadSse4 => Some(Instructions::Sse4),
            One::ReadSse2 => Some(Instructions::Sse2),
            One::ReadPortable => Some(Instructions::Portable),
            _ => None,
        }
    }

    fn threads(self) -> usize {
        if self == One::SummaryBy2 { 2 } else { 1 }
    }
}

/// The figures of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    pub wall_s: f64,
    /// User and system time of all threads.
    pub cpu_s: f64,
    /// System time within it: fresh memory, mostly.
    pub system_s: f64,
    /// Page faults served without a disk: one for each page, small or huge, at its first touch.
    pub faults: u64,
    pub anonymous_mb: f64,
    /// CPU time by phase, in the order of their ends.
    pub phases: Vec<(String, f64)>,
}

/// Work of a second thread beside the first: phases of one, phases of the other.
const BESIDE: [(&[&str], &[&str]); 2] = [
    (&["nodes"], &["edges"]),
    (
        &["depth-first walk", "sorting references", "semidominators", "dominators"],
        &["own sizes", "distances", "classes"],
    ),
];

impl Measured {
    /// CPU time on the longest way through the phases with two free processors: a second thread
    /// cannot shorten it.
    pub fn critical_s(&self) -> f64 {
        let sum = |names: &[&str]| -> f64 {
            self.phases
                .iter()
                .filter(|(name, _)| names.contains(&name.as_str()))
                .map(|(_, cpu_s)| cpu_s)
                .sum()
        };
        let hidden: f64 = BESIDE.iter().map(|(one, other)| sum(one).min(sum(other))).sum();
        self.cpu_s - hidden
    }
}

/// Measures in this process, once `begin` returns from waiting.
pub fn measure(
    one: One,
    path: &Path,
    begin: impl FnOnce() -> std::io::Result<u64>,
) -> Result<Measured> {
    let file = std::fs::File::open(path)?;
    // SAFETY: the file does not change while this process runs; if somebody truncates it, only this
    // process dies.
    let bytes = unsafe { memmap2::Mmap::map(&file)? };
    // Touches all pages of the file first, so that the disk is not measured.
    ensure!(
        !bytes.is_empty()
            && bytes.iter().step_by(4096).map(|byte| u64::from(*byte)).sum::<u64>() > 0,
        "an empty file"
    );
    let index = if matches!(one, One::Index | One::IndexWays) {
        Some(index_of(&bytes, path)?)
    } else {
        None
    };
    if let Ok(mut phases) = PHASES.lock() {
        phases.clear();
    }
    begin()?;
    let watch = Watch::start();
    BEFORE_S.set(thread_cpu_s());
    let (from, before) = (Instant::now(), process_used());
    match (one, &index) {
        (_, Some(index)) => answered(one, index, &bytes)?,
        (One::Leaks, _) => ensure!(leaks_of(&bytes)? > 0, "no leaks"),
        _ if one.is_reading() => {
            let options = ReadOptions {
                instructions: one.instructions(),
                on_phase: Some(on_phase),
                ..ReadOptions::default()
            };
            ensure!(Snapshot::read_with(&bytes, &options)?.graph.node_count() > 0, "no nodes");
        }
        _ => ensure!(!summary_of(&bytes, one.threads())?.classes.is_empty(), "no classes"),
    }
    let (wall_s, after) = (from.elapsed().as_secs_f64(), process_used());
    let anonymous_mb = watch.stop();
    let phases = PHASES.lock().map(|phases| phases.clone()).unwrap_or_default();
    let (cpu_s, system_s, faults) = (
        after.cpu_s - before.cpu_s,
        after.system_s - before.system_s,
        after.faults - before.faults,
    );
    Ok(Measured { wall_s, cpu_s, system_s, faults, anonymous_mb, phases })
}

/// The objects taken for leaked: those born last, one in this many.
const LEAKED: usize = 10;

/// Number of ways that hold the leaks of a file read three times; computes the cuts of the first
/// five, as the command does.
fn leaks_of(bytes: &[u8]) -> Result<usize> {
    let moment = || Ok::<_, anyhow::Error>(SnapshotIds::of(&Snapshot::read(bytes)?));
    let first = Snapshot::read(bytes)?;
    let (base, before) = (SnapshotIds::of(&first), OwnSizes::of(&first));
    drop(first);
    let target = moment()?;
    let snapshot = Snapshot::read(bytes)?;
    let analysis = Analysis::of(&snapshot, &Options::default());
    let last = SnapshotIds::of(&snapshot);
    ensure!(Born::between(&base, &target, &last)?.count() == 0, "one file differs from itself");
    let ids = last.ids();
    let born = Born::of_ids(ids[ids.len() - ids.len() / LEAKED..].to_vec());
    drop((base, target, last));
    let leaks = Leaks::of(&analysis, &born, |_| true);
    let cuts: Vec<_> = leaks.groups.iter().take(5).map(|group| leaks.cut(group)).collect();
    ensure!(cuts.iter().all(|cut| cut.references > 0), "a leak that nothing holds");
    let grown = grown(&analysis, &before, &born, |_| true);
    ensure!(grown.is_empty(), "one file grew in itself");
    Ok(leaks.groups.len())
}

/// The index of a file, on the same disk, mapped and read once.
fn index_of(bytes: &[u8], path: &Path) -> Result<memmap2::Mmap> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::tempfile_in(folder.unwrap_or(Path::new(".")))?;
    let (read, options) = by_2();
    let snapshot = Snapshot::read_with(bytes, &read)?;
    let analysis = Analysis::of(&snapshot, &options);
    index::write(&analysis, &Key::of(bytes, &read, &options), &mut file)?;
    // SAFETY: no other process has the file.
    Ok(unsafe { memmap2::Mmap::map(&file)? })
}

/// The settings of the command line.
fn by_2() -> (ReadOptions, Options) {
    let read = ReadOptions { threads: 2, ..ReadOptions::default() };
    (read, Options { threads: 2, ..Options::default() })
}

/// The second question of a file, as the command answers it: it first compares the index with all
/// bytes of the file.
fn answered(one: One, index: &[u8], bytes: &[u8]) -> Result<()> {
    let (read, options) = by_2();
    let key = Key::of(bytes, &read, &options);
    let indexed = Indexed::open(index, bytes, &key, read.threads)?;
    let analysis = indexed.analysis();
    if one == One::Index {
        ensure!(!Summary::of(&analysis).classes.is_empty(), "no classes");
        return Ok(());
    }
    let largest = analysis.shown_classes().max_by_key(|(_, class)| class.retained_size);
    let (largest, _) = largest.ok_or_else(|| anyhow!("no classes"))?;
    let graph = &analysis.snapshot().graph;
    let nodes: Vec<_> = graph.nodes().filter(|node| analysis.class_of(*node) == largest).collect();
    let mut ways = ShortestPaths::new(&analysis, analysis.backward(), 20);
    ensure!(!ways.groups(&nodes).is_empty(), "no ways");
    Ok(())
}

fn summary_of(bytes: &[u8], threads: usize) -> Result<Summary> {
    let snapshot = Snapshot::read_with(
        bytes,
        &ReadOptions { threads, on_phase: Some(on_phase), ..ReadOptions::default() },
    )?;
    Ok(Summary::of(&Analysis::of(
        &snapshot,
        &Options { threads, on_phase: Some(on_phase), ..Options::default() },
    )))
}

static PHASES: Mutex<Vec<(String, f64)>> = Mutex::new(Vec::new());

thread_local! {
    /// CPU time of this thread at the end of its last phase; a new thread begins with a phase.
    static BEFORE_S: Cell<f64> = const { Cell::new(0.0) };
}

fn on_phase(name: &'static str) {
    let now_s = thread_cpu_s();
    let cpu_s = now_s - BEFORE_S.replace(now_s);
    if let Ok(mut phases) = PHASES.lock() {
        phases.push((name.to_owned(), cpu_s));
    }
}

/// CPU time of this thread, s.
pub(super) fn thread_cpu_s() -> f64 {
    // SAFETY: a timespec of zeros is valid, and the call fills it.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        time
    };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// This process's figures so far.
struct ProcessUsed {
    cpu_s: f64,
    system_s: f64,
    faults: u64,
}

fn process_used() -> ProcessUsed {
    // SAFETY: a rusage of zeros is valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let system_s = seconds(usage.ru_stime);
    ProcessUsed {
        cpu_s: seconds(usage.ru_utime) + system_s,
        system_s,
        faults: usage.ru_minflt as u64,
    }
}

/// A thread that samples this process's anonymous memory every few milliseconds: the kernel keeps
/// only the peak of all resident memory.
pub(super) struct Watch {
    thread: std::thread::JoinHandle<()>,
}

static PEAK_KIB: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicBool = AtomicBool::new(false);

impl Watch {
    pub(super) fn start() -> Watch {
        let look = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            let anonymous = status
                .lines()
                .find_map(|line| line.strip_prefix("RssAnon:"))
                .and_then(|line| line.split_whitespace().next()?.parse().ok());
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
        peak_mb()
    }
}

/// Largest sample so far, MB.
pub(super) fn peak_mb() -> f64 {
    PEAK_KIB.load(Ordering::Relaxed) as f64 * 1024.0 / 1e6
}
