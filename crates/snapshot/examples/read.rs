//! Reads and analyses files, and prints the cost of each phase by thread: time, user and system
//! time, page faults. `THREADS=2` uses two threads; `INSTRUCTIONS=avx2` (`sse4`, `sse2`,
//! `portable`) reads without newer instructions. `cargo xtask bench snapshot` measures the whole.

use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::{Instructions, ReadOptions, Snapshot};
use std::cell::Cell;
use std::time::Instant;

/// Costs of a thread: user and system time in s, page faults.
#[derive(Clone, Copy, Debug)]
struct Used {
    at: Instant,
    user_s: f64,
    system_s: f64,
    faults: i64,
}

impl Used {
    fn by(who: libc::c_int) -> Used {
        // SAFETY: a rusage of zeros is valid, and the call fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(who, &mut usage);
            usage
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Used {
            at: Instant::now(),
            user_s: seconds(usage.ru_utime),
            system_s: seconds(usage.ru_stime),
            faults: usage.ru_minflt,
        }
    }

    fn say(&self, what: &str, from: &Used) {
        println!(
            "  {what:<28} {:.3} s, user {:.3}, system {:.3}, {} faults",
            (self.at - from.at).as_secs_f64(),
            self.user_s - from.user_s,
            self.system_s - from.system_s,
            self.faults - from.faults,
        );
    }
}

thread_local! {
    static BEFORE: Cell<Option<Used>> = const { Cell::new(None) };
}

/// Called on the phase's thread; a new thread started with the phase.
fn on_phase(name: &'static str) {
    let now = Used::by(libc::RUSAGE_THREAD);
    let began = BEFORE.get().unwrap_or(Used { user_s: 0.0, system_s: 0.0, faults: 0, ..now });
    now.say(name, &began);
    BEFORE.set(Some(Used::by(libc::RUSAGE_THREAD)));
}

fn status_mb(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next())
        .and_then(|word| word.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads =
        std::env::var("THREADS").ok().and_then(|threads| threads.parse().ok()).unwrap_or(1);
    let asked = std::env::var("INSTRUCTIONS").ok();
    let instructions = asked.and_then(|asked| {
        Instructions::ALL
            .into_iter()
            .find(|known| format!("{known:?}").eq_ignore_ascii_case(&asked))
    });
    for path in std::env::args().skip(1) {
        let file = std::fs::File::open(&path)?;
        // SAFETY: a file that shrinks under the mapping kills this example, nothing else.
        let bytes = unsafe { memmap2::Mmap::map(&file)? };
        // Touch the file's pages once, so that the disk is not measured.
        let touched = bytes.iter().step_by(4096).fold(0u64, |sum, byte| sum + u64::from(*byte));
        println!("{path}: {} bytes (sum of samples {touched})", bytes.len());
        let whole = Used::by(libc::RUSAGE_SELF);
        BEFORE.set(Some(Used::by(libc::RUSAGE_THREAD)));
        let options = ReadOptions {
            threads,
            instructions,
            on_phase: Some(on_phase),
            ..ReadOptions::default()
        };
        let snapshot = match Snapshot::read_with(&bytes, &options) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                println!("{path}: {error}");
                continue;
            }
        };
        let graph = &snapshot.graph;
        println!(
            "  = {} nodes, {} edges, {} strings",
            graph.node_count(),
            graph.edge_count(),
            snapshot.strings.len()
        );
        let read = Used::by(libc::RUSAGE_SELF);
        read.say("READ", &whole);
        let analysis = Analysis::of(
            &snapshot,
            &Options { threads, on_phase: Some(on_phase), ..Options::default() },
        );
        let done = Used::by(libc::RUSAGE_SELF);
        done.say("ANALYSED", &read);
        println!("  = {} classes, {} bytes", analysis.classes().len(), analysis.total_bytes());
        done.say("BOTH", &whole);
        println!("  anonymous now {} MB", status_mb("RssAnon:"));
    }
    Ok(())
}
