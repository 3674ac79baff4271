//! The results of an experiment as plain data: the JSON that `heaplab replay --json` prints and the
//! report page shows (docs/replay-json.md).
//!
//! Bytes are bytes, times nanoseconds. A ratio is heap over baseline, so below 1 means less.
//! Figures that an allocator does not report are `None`, never zero.

use heaplab_heap::{Collection, CollectorLog};
use heaplab_statistics::Estimate;
use heaplab_trace::NOTICED_AT_COLLECTION;
use heaplab_trace::program::Program;
use serde::{Deserialize, Serialize};
use std::path::Path;

pub use heaplab_replay::Touch;

/// The version of this JSON; it changes when a field changes its meaning.
pub const RESULTS_VERSION: u32 = 1;

/// Everything one replay of one workload on several heaps found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`RESULTS_VERSION`].
    pub format_version: u32,
    /// The replayed workload.
    pub workload: Workload,
    /// The settings of the measurement.
    pub settings: Settings,
    /// The machine of the measurement.
    pub machine: Machine,
    /// One row a heap, in the requested order.
    pub heaps: Vec<HeapResult>,
    /// Every heap against the first one, by space and by time.
    pub comparisons: Vec<Comparison>,
    /// The machine's steadiness.
    pub canary: Option<Canary>,
    /// The verdict: sentences for a person, the most important first.
    pub verdict: Vec<String>,
    /// The limits of the verdict: allocator-dependent streams, cut recordings, an unsteady machine.
    pub cautions: Vec<String>,
    /// When it was measured, seconds since 1970 UTC; 0: not known.
    #[serde(default)]
    pub measured_unix_s: u64,
    /// Measures from an earlier replay of the same heaps, not this one; the settings of time are
    /// then that replay's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Measure>,
}

/// The workload as replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The bundle's folder as the user named it.
    pub bundle: String,
    /// The command that was recorded.
    pub program: String,
    /// The allocator it was recorded under; empty: not known.
    pub allocator: String,
    /// Row of the bundle's `processes`; `None`: the bundle's only stream.
    pub process: Option<u32>,
    /// Allocations, frees and reallocations of one pass.
    pub events: u64,
    /// Objects born in one pass.
    pub objects: u64,
    /// Threads that took part.
    pub threads: u32,
    /// Largest sum of requested bytes that were live at once.
    pub peak_requested_bytes: u64,
    /// Requested bytes live at the end.
    pub end_requested_bytes: u64,
    /// Number of times that the program read a usable size; such reads make its requests depend on
    /// the allocator of the recording.
    pub usable_size_reads: u64,
    /// The place of the recording's cut; `None`: it is complete.
    #[serde(default)]
    pub cut: Option<String>,
    /// Length of the recording; 0: unknown.
    #[serde(default)]
    pub recorded_ns: u64,
    /// Deaths are as late as the recorded program's own collections noticed them: nobody forced
    /// any.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late_deaths: bool,
    /// Forced collections told deaths each time this many bytes were born; 0: unknown, or the
    /// program freed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub granularity_bytes: u64,
    /// Recorded objects left out because their memory is outside of the recorded heap.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub outside_objects: u64,
    /// Objects born in the old generation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub old_births: u64,
    /// Objects with an alignment above 8 bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub aligned_births: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The settings of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The blocks that the driver writes.
    pub touch: Touch,
    /// One OS thread a recorded thread, rather than recorded order on one.
    pub threads: bool,
    /// Requested blocks.
    pub reps: u32,
    /// Passes over the program in one time cell (short workloads are repeated until they last).
    pub passes: u32,
    /// Seed of the cells' order and of the bootstrap.
    pub seed: u64,
    /// Relative difference below which two heaps are called equivalent: 0.03 is 3 %.
    pub margin: f64,
    /// Confidence of the intervals: 0.95.
    pub confidence: f64,
    /// heaplab was built without optimisation: times mean nothing.
    #[serde(default)]
    pub debug_build: bool,
    /// The setting of huge pages for the comparison of all heaps' space; `None`: results from
    /// before the choice existed, as [`HugePages::System`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_pages: Option<HugePages>,
    /// The recorded program had switched huge pages off (`PR_SET_THP_DISABLE`): so have all cells.
    #[serde(default)]
    pub program_without_huge_pages: bool,
}

/// The kernel's treatment of a space cell's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HugePages {
    /// Nothing lies in transparent huge pages.
    #[default]
    None,
    /// By the system's setting, and each heap's own requests.
    System,
}

impl std::str::FromStr for HugePages {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<HugePages, &'static str> {
        match text {
            "none" => Ok(HugePages::None),
            "system" => Ok(HugePages::System),
            _ => Err("none or system"),
        }
    }
}

impl HugePages {
    /// The other setting, reported beside this one.
    pub fn other(self) -> HugePages {
        match self {
            HugePages::None => HugePages::System,
            HugePages::System => HugePages::None,
        }
    }
}

impl Workload {
    /// A program of the bundle at `bundle`, as the user named it.
    pub fn of(program: &Program, bundle: &Path, recorded_ns: u64) -> Workload {
        let facts = program.facts();
        Workload {
            bundle: bundle.display().to_string(),
            program: facts.program.clone(),
            allocator: facts.allocator.clone(),
            process: facts.process,
            events: facts.events,
            objects: facts.objects,
            threads: facts.threads,
            peak_requested_bytes: facts.peak_requested_bytes,
            end_requested_bytes: facts.end_requested_bytes,
            usable_size_reads: facts.usable_size_reads,
            cut: facts.cut.clone(),
            recorded_ns,
            granularity_bytes: facts.granularity_bytes,
            outside_objects: facts.outside_objects,
            old_births: facts.old_births,
            aligned_births: facts.aligned_births,
            late_deaths: facts.death_rule == NOTICED_AT_COLLECTION && facts.granularity_bytes == 0,
        }
    }
}

/// The machine of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name, from the kernel.
    pub processor: String,
    /// Processors that the measurement could use.
    pub processors: u32,
    /// Kernel release.
    pub kernel: String,
    /// Transparent huge pages: "always", "madvise", "never"; empty: not known.
    pub huge_pages: String,
    /// "x86_64", "aarch64".
    pub architecture: String,
}

/// The needs of one heap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeapResult {
    /// Its name on the command line: `jemalloc:narenas=1`.
    pub heap: String,
    /// The heap's full name, if it has an alias: `lib:/opt/libmine.so`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias_of: Option<String>,
    /// The heap's own version text: "jemalloc 5.3.0".
    pub version: String,
    /// Space, if requested and successful.
    pub space: Option<Space>,
    /// Time, if requested and successful.
    pub time: Option<Time>,
    /// Every collection of a heap that collects, oldest first, of its space cell; pauses are
    /// medians over the time blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collections: Vec<Collection>,
    /// Slices and counters of its space cell, of a heap that has them.
    #[serde(flatten)]
    pub log: CollectorLog,
    /// Cells that failed: the others stand.
    pub failures: Vec<CellFailure>,
    /// The heap's name without huge pages: `mimalloc:allow_thp=false`; `None`: it has no such
    /// switch, or has it set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_huge_pages: Option<String>,
}

impl HeapResult {
    /// Whether the heap has a result for `measure`.
    pub fn has(&self, measure: Measure) -> bool {
        match measure {
            Measure::Space => self.space.is_some(),
            Measure::Time => self.time.is_some(),
        }
    }
}

/// The largest resident bytes under the setting of huge pages that is not compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherHugePages {
    /// The driver's taken off.
    pub peak_resident_bytes: u64,
    /// The part in huge pages.
    pub peak_huge_page_bytes: u64,
}

/// Space: resident bytes are those of the cell less those of a driver without a heap at the same
/// moments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// Largest resident bytes over the moments.
    pub peak_resident_bytes: u64,
    /// Smallest and largest peak over repeated cells (one cell where the heap's space does not
    /// depend on time).
    pub peak_resident_range_bytes: (u64, u64),
    /// Cells measured.
    pub cells: u32,
    /// Resident bytes when the program had most requested bytes live.
    pub resident_at_requested_peak_bytes: u64,
    /// Resident bytes after the last event.
    pub end_resident_bytes: u64,
    /// Resident bytes after a trim; `None`: the heap has no such call.
    pub trimmed_resident_bytes: Option<u64>,
    /// Largest committed bytes, from the heap.
    pub peak_committed_bytes: Option<u64>,
    /// Committed bytes after the last event, from the heap.
    pub end_committed_bytes: Option<u64>,
    /// Resident bytes at the peak for each requested byte then.
    pub resident_per_requested: f64,
    /// Part of the largest resident bytes in huge pages of the kernel, without the driver's.
    #[serde(default)]
    pub peak_huge_page_bytes: u64,
    /// The same heap under the other setting of huge pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_huge_pages: Option<OtherHugePages>,
    /// Nobody knows the resident bytes: the workload ran in a runtime of its own that does not
    /// report them. All resident bytes are 0 then, and are compared with nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resident_unknown: bool,
    /// The moments, in order.
    pub curve: Vec<SpaceMoment>,
}

/// Space at one moment of the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpaceMoment {
    /// Events replayed so far.
    pub event: u64,
    /// Requested bytes live.
    pub requested_bytes: u64,
    /// Resident bytes, the driver's taken off.
    pub resident_bytes: u64,
    /// Committed bytes, from the heap.
    pub committed_bytes: Option<u64>,
    /// Bytes in pages with live blocks, from the heap.
    pub active_bytes: Option<u64>,
    /// The phase that begins here.
    pub mark: Option<String>,
}

/// Time: the heap's part alone, over the blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// Nanoseconds an event with the driver's own taken off in each block.
    pub ns_per_event: Estimate,
    /// The driver's own (null heap).
    pub driver_ns_per_event: f64,
    /// First pass of each cell alone, on a heap never used before, the driver's taken off: median
    /// of the blocks.
    pub first_pass_ns_per_event: f64,
    /// Minor page faults in a cell, median of the blocks.
    pub minor_faults: u64,
    /// Nanoseconds an event in each block, the driver's taken off, in order of the blocks.
    pub blocks_ns_per_event: Vec<f64>,
}

/// A cell that did not end well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellFailure {
    /// "space", "time", "verify".
    pub kind: String,
    /// Block number; 0 for space.
    pub block: u32,
    /// The failure in words, with the signal's name.
    pub reason: String,
}

/// The compared measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Peak resident bytes.
    Space,
    /// Nanoseconds an event.
    Time,
}

/// One heap against the baseline, the first heap named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The heap.
    pub heap: String,
    /// The baseline.
    pub baseline: String,
    /// The compared measure.
    pub measure: Measure,
    /// Heap over baseline; for time the Hodges-Lehmann estimate with its interval, for space the
    /// ratio of the peaks with its range.
    pub ratio: Estimate,
    /// For time: the confidence of `ratio`'s interval. It is corrected for the number of
    /// comparisons like the test, so the interval excludes 1 exactly if the corrected test shows a
    /// difference. `None`: results from before this correction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// For time on an unsteady machine: the share by which `ratio`'s interval was widened at each
    /// end, which is the canary's spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub widened: Option<f64>,
    /// For time: the median of the blocks' ratios with its bootstrap interval.
    pub bootstrap: Option<Estimate>,
    /// For time: Wilcoxon signed-rank, two-sided.
    pub p_value: Option<f64>,
    /// The same after Benjamini-Hochberg over all comparisons of this experiment.
    pub p_adjusted: Option<f64>,
    /// Blocks in which both heaps succeeded (space: cells of the heap that had more).
    pub blocks: u32,
    /// For time over several machines: their contributions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<OverNodes>,
    /// The conclusion.
    pub outcome: Outcome,
}

/// A ratio over several machines, each one of many ([`heaplab_statistics::mixed`]).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverNodes {
    /// Machines with valid blocks.
    pub nodes: u32,
    /// Standard deviation of the ratio between machines, as a share, without the variation between
    /// blocks. 0.02 is 2 %.
    pub between: f64,
}

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The heap needs less than the baseline.
    Less,
    /// The heap needs more than the baseline.
    More,
    /// The whole interval lies within the stated margin.
    Equivalent,
    /// Neither a difference nor equivalence is shown.
    NotShown,
}

/// A fixed piece of work that runs in every block. It uses no heap, so only the machine moves its
/// time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Canary {
    /// Median over the blocks.
    pub median_ns: f64,
    /// Largest relative distance of a block from the median: 0.1 is 10 %.
    pub spread: f64,
    /// Blocks farther than 10 % from the median.
    pub unsteady_blocks: Vec<u32>,
}
