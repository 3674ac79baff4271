//! Runs a program under the preload object with the tests' drainer and prints a summary of the
//! recording: `cargo run -p heaplab-preload --example drain -- DEPTH PROGRAM ARGUMENTS...`

#[path = "../tests/drainer/mod.rs"]
mod drainer;

use std::collections::HashSet;
use std::process::Command;

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let usage = "usage: drain DEPTH PROGRAM ARGUMENTS...";
    let depth = arguments.next().and_then(|a| a.to_str()?.parse().ok()).expect(usage);
    let mut command = Command::new(arguments.next().expect(usage));
    command.args(arguments);
    let keep = std::env::var_os("DRAIN_KEEP").is_some();
    let mut options = drainer::Options { stack_depth: depth, keep, ..drainer::Options::default() };
    if let Some(bytes) = std::env::var("DRAIN_RING").ok().and_then(|v| v.parse().ok()) {
        options.ring_bytes = bytes;
    }
    let mut drainer = drainer::drainer(options);
    // DRAIN_PRELOAD names another preload object than the crate's, to compare builds.
    if let Some(path) = std::env::var_os("DRAIN_PRELOAD") {
        drainer.preload = path.into();
    }
    let (status, images) = drainer.run(&mut command);
    for image in &images {
        eprintln!(
            "{}-{} began {} state {} exit {:?} rings {} events {} nodes {} modules {} lost {:?} {}",
            image.pid,
            image.seq,
            image.began,
            image.state,
            image.exit,
            image.rings,
            image.event_count,
            image.nodes.len(),
            image.modules.len(),
            image.lost.iter().enumerate().filter(|l| *l.1 > 0).collect::<Vec<_>>(),
            image.executable
        );
        if keep {
            let stacks: HashSet<Vec<u64>> = image
                .of_kind(heaplab_preload::layout::ALLOC)
                .map(|e| image.stack(e.node()))
                .collect();
            eprintln!(
                "  {} stacks, depth up to {:?}",
                stacks.len(),
                stacks.iter().map(Vec::len).max()
            );
        }
    }
    // SAFETY: a rusage of zeros is valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    eprintln!(
        "{status}; the target's CPU: {:.3} s, of it system {:.3} s",
        seconds(usage.ru_utime) + seconds(usage.ru_stime),
        seconds(usage.ru_stime)
    );
}
