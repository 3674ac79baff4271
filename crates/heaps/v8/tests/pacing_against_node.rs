//! The growing rule (`overhead`) against each installed Node: the limit after each full collection,
//! and the scavenges after which V8 begins to mark.
//!
//! V8 prints its sizes in whole KB (`--trace-gc-verbose`). So each comparison runs for the smallest
//! and for the largest size that a printed one may stand for.

mod installed;

use heaplab_node::{Spec, find};
use heaplab_v8::facts::{self, PAGE_BYTES, SEMI_SPACE_BYTES};
use heaplab_v8::pacing::Pacing;
use std::process::Command;

const KB: usize = 1024;
/// Spaces that V8 counts against the limit (`OldGenerationSizeOfObjects`).
const OLD: [&str; 5] =
    ["Old space", "Code space", "Map space", "Large object space", "Code large object space"];

/// V8's messages on pacing, in the order of a run; sizes in KB.
#[derive(Debug)]
enum Event {
    Limit { old: usize, limit: usize },
    Collection { full: bool },
    Used(usize),
    Marking,
}

fn event(line: &str) -> Option<Event> {
    let number = |text: &str| text.split_whitespace().next()?.parse().ok();
    if let Some((_, rest)) = line.split_once("[HeapController] Limit: old size: ") {
        let limit = rest.split_once("new limit: ")?.1;
        return Some(Event::Limit { old: number(rest)?, limit: number(limit)? });
    }
    if line.contains("[IncrementalMarking] Start (") {
        return Some(Event::Marking);
    }
    for (kind, full) in [(" ms: Scavenge ", false), (" ms: Mark-sweep ", true)] {
        let sizes = line.split_once(kind).map(|(_, rest)| rest);
        if sizes.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())) {
            return Some(Event::Collection { full });
        }
    }
    let (name, used) = line.split_once("] ")?.1.split_once(", ")?;
    let used = used.trim_start().strip_prefix("used:")?;
    OLD.contains(&name).then(|| number(used).map(Event::Used))?
}

/// Comparisons of one run: limits, and scavenges with and without marking behind.
#[derive(Debug, Default)]
struct Compared {
    limits: usize,
    begun: usize,
    not_begun: usize,
}

/// Pacings after a collection that left `old` KB: for the smallest and the largest possible size.
fn pacings(version: &facts::Version, percent: u32, largest_mb: usize, old: usize) -> [Pacing; 2] {
    let new_bytes = SEMI_SPACE_BYTES / PAGE_BYTES * version.area_bytes;
    [old * KB, old * KB + KB - 1].map(|bytes| {
        let mut pacing = Pacing::new(Some(percent), new_bytes, largest_mb << 20);
        pacing.collected(bytes);
        pacing
    })
}

fn compare(version: &facts::Version, percent: u32, largest_mb: usize, text: &str) -> Compared {
    let mut compared = Compared::default();
    let (mut limit, mut next) = (None::<[Pacing; 2]>, None);
    let (mut marking, mut scavenged) = (false, false);
    let mut used = Vec::new();
    for event in text.lines().filter_map(event) {
        if matches!(event, Event::Collection { .. } | Event::Marking) && used.len() == OLD.len() {
            let begins = matches!(event, Event::Marking);
            let sum: usize = used.drain(..).sum::<usize>() * KB;
            if let (Some([smallest, largest]), true, false) = (limit, scavenged, marking) {
                let most = sum + OLD.len() * KB;
                assert!(!begins || smallest.is_due(most), "marks early: {most} {smallest:?}");
                assert!(begins || !largest.is_due(sum), "marks late: {sum} {largest:?}");
                compared.begun += usize::from(begins);
                compared.not_begun += usize::from(!begins);
            }
        }
        match event {
            Event::Limit { old, limit } => {
                let [smallest, largest] = pacings(version, percent, largest_mb, old);
                let says = format!("{old} KB, limit {limit} KB: {smallest:?} to {largest:?}");
                assert!(smallest.is_due((limit + 1) * KB), "ours is larger after {says}");
                assert!(!largest.is_due(limit * KB), "ours is smaller after {says}");
                compared.limits += 1;
                next = Some([smallest, largest]);
            }
            Event::Collection { full } => {
                // A limit that V8 computes in a scavenge applies only if it is lower; none was.
                if full {
                    (limit, marking) = (next, false);
                }
                scavenged = !full;
                used.clear();
            }
            Event::Used(kb) => used.push(kb),
            Event::Marking => marking = true,
        }
    }
    compared
}

#[test]
fn limits_and_beginnings_of_marking_are_those_of_each_version() {
    for version in facts::VERSIONS.iter().filter(|version| installed::have(version.node)) {
        let spec = Spec::parse(&format!("version={}", version.node)).unwrap();
        let node = find::node(&spec).unwrap();
        let mut all = Compared::default();
        for shape in ["grow", "replace", "phases"] {
            for (percent, largest_mb) in [(10, 1024), (60, 1024), (200, 1024), (300, 128)] {
                let output = Command::new(&node)
                    .args(
                        "--single-threaded --single-threaded-gc --no-memory-reducer --no-opt"
                            .split(' '),
                    )
                    .args("--expose-gc --min-semi-space-size=4 --max-semi-space-size=4".split(' '))
                    .args(["--trace-gc-verbose", "--trace-incremental-marking"])
                    .arg(format!("--heap-growing-percent={percent}"))
                    .arg(format!("--max-old-space-size={largest_mb}"))
                    .args([concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/pacing.js"), shape])
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{shape} {percent}: {:?}", output.status);
                let text = String::from_utf8_lossy(&output.stdout);
                let one = compare(version, percent, largest_mb, &text);
                println!("{} {shape} {percent} % of {largest_mb} MB: {one:?}", version.node);
                assert!(one.limits >= 4, "{shape} {percent}: {one:?}");
                all.limits += one.limits;
                all.begun += one.begun;
                all.not_begun += one.not_begun;
            }
        }
        println!("{}: {all:?}", version.node);
        assert!(all.limits >= 60 && all.begun >= 6 && all.not_begun >= 60, "{all:?}");
    }
}
