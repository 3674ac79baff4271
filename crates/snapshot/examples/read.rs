//! Reads and analyses a file and says what is in it, how long that took in time and CPU time, and how much memory besides the file.

use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::{ReadOptions, Snapshot};
use std::time::Instant;

/// User and system time of this process, s.
fn cpu_s() -> (f64, f64) {
    // SAFETY: a rusage of zeros is valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

fn status(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse().ok()).unwrap_or(0)
}

struct Clock(Instant, (f64, f64));

impl Clock {
    fn start() -> Self {
        Clock(Instant::now(), cpu_s())
    }

    fn say(&self, what: &str) {
        let cpu = cpu_s();
        let (user, system) = (cpu.0 - self.1.0, cpu.1 - self.1.1);
        println!(
            "  {what}: {:.3} s, user {user:.3}, system {system:.3}; anonymous now {} MB",
            self.0.elapsed().as_secs_f64(),
            status("RssAnon:") / 1024
        );
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = std::env::var("THREADS").ok().and_then(|threads| threads.parse().ok()).unwrap_or(1);
    for path in std::env::args().skip(1) {
        let file = std::fs::File::open(&path)?;
        // SAFETY: a file that shrinks under the mapping kills this example, nothing else.
        let bytes = unsafe { memmap2::Mmap::map(&file)? };
        let whole = Clock::start();
        let clock = Clock::start();
        let snapshot = match Snapshot::read_with(&bytes, &ReadOptions { threads, ..ReadOptions::default() }) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                println!("{path}: {error}");
                continue;
            }
        };
        let graph = &snapshot.graph;
        println!("{path}: {} nodes, {} edges, {} strings", graph.node_count(), graph.edge_count(), snapshot.strings.len());
        clock.say(&format!("read, {:.2} GB/s", bytes.len() as f64 / clock.0.elapsed().as_secs_f64() / 1e9));
        let clock = Clock::start();
        let analysis = Analysis::of(&snapshot, &Options { threads, ..Options::default() });
        clock.say(&format!("analysed, {} classes, {} bytes", analysis.classes().len(), analysis.total_bytes()));
        whole.say("both");
    }
    Ok(())
}
