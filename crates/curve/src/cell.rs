//! What is asked of one run, and what came of it.

use crate::handling::{IgnoredStatuses, Output};
use crate::launch::Launch;
use crate::runtimes::{Collections, Runtime};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A run, as the process that carries it out is told on its standard input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellRequest {
    /// What to run; `None`: the canary.
    pub launch: Option<Launch>,
    /// The file on its standard input; `None`: nothing.
    pub input: Option<PathBuf>,
    /// Milliseconds after which it is ended.
    pub timeout_ms: u64,
    /// Milliseconds between two looks at its memory.
    pub interval_ms: u64,
    /// Processors that it may run on; empty: all.
    pub cores: Vec<u32>,
    /// The runtime that was asked to tell.
    pub runtime: Option<Runtime>,
    /// Where a JVM tells.
    pub logs: Option<PathBuf>,
    /// Statuses other than 0 that are no failure.
    pub ignore_failure: IgnoredStatuses,
    /// Where its standard output goes; the name of a file is whole.
    pub output: Output,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellReport {
    /// It ran.
    Measured(Box<Measure>),
    /// It failed: a point of the result.
    Failed(Failure),
    /// It failed in two blocks before this one, and was not run again.
    Skipped,
}

impl CellReport {
    /// What was measured.
    pub fn measure(&self) -> Option<&Measure> {
        match self {
            CellReport::Measured(measure) => Some(measure),
            _ => None,
        }
    }
}

/// How a run failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// In words.
    pub reason: String,
    /// It did not end in time.
    pub timed_out: bool,
    /// Its program could not be started at all, which no other setting changes.
    pub not_started: bool,
    /// How long it ran.
    pub wall_ns: u64,
    /// The most memory it was seen with.
    pub peak_bytes: u64,
}

/// What one run took, all processes of the command together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// From start to end of the command.
    pub wall_ns: u64,
    /// User time.
    pub user_ns: u64,
    /// System time.
    pub system_ns: u64,
    /// The largest resident set: the kernel's own peak of one process, or the largest sum of
    /// proportional sets that was seen of several.
    pub peak_bytes: u64,
    /// The peak is no more than that: the command ended before anybody looked at it, and is smaller
    /// than the process that measured it.
    #[serde(default)]
    pub peak_is_bound: bool,
    /// The most anonymous memory that was seen: without files, shared between processes counted
    /// once.
    pub peak_anonymous_bytes: u64,
    /// Its mean over the run.
    pub mean_anonymous_bytes: u64,
    /// The most that a heap of the lab said it had committed; `None`: nobody says.
    #[serde(default)]
    pub committed_bytes: Option<u64>,
    /// Faults that had to wait for a disk.
    pub major_faults: u64,
    /// Other faults.
    pub minor_faults: u64,
    /// Switches because it waited.
    pub voluntary_switches: u64,
    /// Switches because another one's turn came.
    pub involuntary_switches: u64,
    /// The most processes that were seen at once.
    pub processes: u32,
    /// Looks at its memory.
    pub looks: u32,
    /// Resident and anonymous bytes over time, thinned.
    pub series: Vec<Look>,
    /// Processes that still ran when the command had ended; they were ended.
    pub left_behind: Vec<String>,
    /// What the runtime told.
    pub collections: Option<Collections>,
}

impl Measure {
    /// User and system time.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }
}

/// Memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Milliseconds since the start.
    pub ms: u64,
    /// Resident.
    pub resident_bytes: u64,
    /// Anonymous.
    pub anonymous_bytes: u64,
}

/// A fixed piece of work beside the cells of a block: it knows no heap, so that what it feels is
/// the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Its processor time.
    pub cpu_ns: u64,
    /// Its time on the wall: longer where it shares its processor.
    pub wall_ns: u64,
}
