//! The cost of the settings that answer the document's concerns: the commit granule (1, number of
//! mappings) and the time of giving memory back (2, speed of uncommitting), on churn's arenas, and
//! the granule on ten thousand small ones. Each runs in a fresh process. The figures are for
//! reading: they have no bound.

use super::peers::{Elastic, Peer};
use super::space::{Measured, in_child};
use super::time::{cpu_ns, faults, median};
use super::workload::{Step, recording};
use anyhow::{Context, Result};
use heaplab_elastic::{Growth, Options, Reclaim, UncommitTimes};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The word that asks a child for one of [`SETTINGS`].
pub const CHILD: &str = "settings";
/// The replayed recording.
const RECORDING: &str = "churn";
/// Granules, KB.
pub const GRANULES_KB: [usize; 3] = [4, 16, 64];
/// The default's.
const KEPT_BYTES: usize = 256 << 10;

/// The varied settings by name: granule and reclaim.
const SETTINGS: [(&str, usize, Reclaim); 8] = [
    (
        "granule 4 KB, at return keeping 256 KB (default)",
        4,
        Reclaim::AtReturn { keep_bytes: KEPT_BYTES },
    ),
    ("granule 16 KB", 16, Reclaim::AtReturn { keep_bytes: KEPT_BYTES }),
    ("granule 64 KB", 64, Reclaim::AtReturn { keep_bytes: KEPT_BYTES }),
    ("at return, keeping nothing", 4, Reclaim::AtReturn { keep_bytes: 0 }),
    ("at trim, which nobody calls", 4, Reclaim::AtTrim),
    (
        "background, every ms, keeping nothing",
        4,
        Reclaim::Background { interval: Duration::from_millis(1), keep_bytes: 0 },
    ),
    (
        "background, every 10 ms, keeping nothing",
        4,
        Reclaim::Background { interval: Duration::from_millis(10), keep_bytes: 0 },
    ),
    (
        "the same, granule 64 KB",
        64,
        Reclaim::Background { interval: Duration::from_millis(10), keep_bytes: 0 },
    ),
];

/// One replay.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// CPU time of the program's thread, ns an event.
    pub own_ns: f64,
    /// CPU time of all threads, ns an event.
    pub all_ns: f64,
    /// Largest ratio of committed bytes to live requested ones at a drop.
    pub committed_to_live: f64,
    /// Page faults.
    pub faults: i64,
    /// Calls that gave memory back.
    pub uncommits: u64,
    /// Time in them.
    pub times: Times,
    /// Mappings at the end.
    pub mappings: usize,
}

/// The printed figures of [`UncommitTimes`], ns.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Times {
    /// Time of the program's thread.
    pub own_ns: u64,
    /// Time of the space's own thread.
    pub background_ns: u64,
    /// The longest at a time.
    pub longest_ns: u64,
}

impl From<UncommitTimes> for Times {
    fn from(times: UncommitTimes) -> Times {
        let own_ns = times.at_return_ns + times.at_trim_ns + times.for_room_ns;
        Times { own_ns, background_ns: times.background_ns, longest_ns: times.longest_ns }
    }
}

fn options(granule_kb: usize, reclaim: Reclaim) -> Options {
    Options { granule_bytes: granule_kb << 10, reclaim, ..Options::default() }
}

/// CPU time of all threads of this process, ns.
fn all_cpu_ns() -> u64 {
    // SAFETY: a timespec of zeros is valid, and the call fills it.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs in the child process of [`replays`].
pub fn child(nth: &str) -> Result<Replay> {
    let nth: usize = nth.parse()?;
    let (_, granule_kb, reclaim) = *SETTINGS.get(nth).context("a number of a setting")?;
    let recording = recording(RECORDING, true)?;
    let mut elastic = Elastic::with(Growth::STANDARD, options(granule_kb, reclaim));
    let mut blocks = Vec::with_capacity(recording.blocks.len());
    let mut live = vec![0usize; recording.arenas];
    let (mut live_bytes, mut committed_to_live) = (0usize, 0.0f64);
    let (own, all, faults_before) = (cpu_ns(), all_cpu_ns(), faults());
    for step in &recording.steps {
        match *step {
            Step::Begin(arena) => elastic.begin(arena as usize),
            Step::Allocate(arena, bytes) => {
                let block = elastic.allocate(arena as usize, bytes as usize);
                // SAFETY: the block has this size.
                unsafe { block.write_bytes(1, bytes as usize) };
                blocks.push(block);
                live[arena as usize] += bytes as usize;
                live_bytes += bytes as usize;
            }
            Step::Free(block) => {
                let (arena, bytes) = recording.blocks[block as usize];
                // SAFETY: the recording frees only live blocks, each once.
                unsafe { elastic.free(arena as usize, blocks[block as usize], bytes as usize) };
                live[arena as usize] -= bytes as usize;
                live_bytes -= bytes as usize;
            }
            Step::End(arena) => {
                elastic.end(arena as usize);
                live_bytes -= std::mem::take(&mut live[arena as usize]);
            }
            // Without a trim, because the setting is about it.
            Step::Purge => {
                committed_to_live = committed_to_live
                    .max(elastic.space.committed_bytes() as f64 / live_bytes.max(1) as f64)
            }
        }
    }
    let events = recording.steps.len() as f64;
    let (own, all, faults) = (cpu_ns() - own, all_cpu_ns() - all, faults() - faults_before);
    let report = elastic.space.report()?;
    Ok(Replay {
        own_ns: own as f64 / events,
        all_ns: all as f64 / events,
        committed_to_live,
        faults,
        uncommits: report.uncommits,
        times: report.uncommit_times.into(),
        mappings: report.mappings,
    })
}

/// Each setting with the replay of the median time.
pub fn replays(repetitions: usize) -> Result<Vec<(&'static str, Replay)>> {
    let mut all = Vec::new();
    for (nth, (name, ..)) in SETTINGS.iter().enumerate() {
        let runs: Vec<Replay> = (0..repetitions)
            .map(|_| in_child(&format!("{CHILD},{nth},{RECORDING}")))
            .collect::<Result<_>>()?;
        let middle = median(runs.iter().map(|run| run.own_ns).collect());
        all.push((
            *name,
            *runs.iter().find(|run| run.own_ns == middle).context("a run is the middle one")?,
        ));
    }
    Ok(all)
}

/// The options of a heap named `elastic, granule N KB` in [`space`](super::space); `None`: another
/// heap.
pub fn granule_of(heap: &str) -> Option<Options> {
    let kb = heap.strip_prefix("elastic granule ")?.strip_suffix(" KB")?.parse().ok()?;
    Some(options(kb, Reclaim::default()))
}

/// Ten thousand arenas by granule.
pub fn spaces(order: &str, seed: u64) -> Result<Vec<Measured>> {
    let one = |kb: &usize| {
        super::space::fresh(&format!("elastic granule {kb} KB"), order, seed)?
            .context("it is linked")
    };
    GRANULES_KB.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn granules_are_told_from_other_heaps() {
        assert_eq!(
            granule_of("elastic granule 16 KB").map(|options| options.granule_bytes),
            Some(16 << 10)
        );
        assert!(granule_of("elastic").is_none() && granule_of("elastic granule x KB").is_none());
    }

    #[test]
    fn what_is_returned_at_once_costs_the_programs_own_thread_and_what_is_kept_costs_memory() {
        let numbered = |start: &str| {
            SETTINGS.iter().position(|(name, ..)| name.starts_with(start)).unwrap().to_string()
        };
        let replay = child(&numbered("at return")).unwrap();
        assert!(
            replay.uncommits > 0 && replay.times.own_ns > 0 && replay.times.background_ns == 0,
            "{replay:?}"
        );
        let kept = child(&numbered("at trim")).unwrap();
        assert!(
            kept.uncommits == 0
                && kept.times.own_ns == 0
                && kept.committed_to_live > replay.committed_to_live,
            "{kept:?}"
        );
    }
}
