//! The request for one run, and its result.

use crate::handling::{IgnoredStatuses, Output};
use crate::launch::Launch;
use crate::runtimes::{Collections, Runtime};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A run, as the measuring process reads it on its standard input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellRequest {
    /// The command; `None`: the canary.
    pub launch: Option<Launch>,
    /// The file on its standard input; `None`: empty input.
    pub input: Option<PathBuf>,
    /// Milliseconds after which the run is ended.
    pub timeout_ms: u64,
    /// Milliseconds between two samples of its memory.
    pub interval_ms: u64,
    /// Processors that it may run on; empty: all.
    pub cores: Vec<u32>,
    /// The runtime whose messages are requested.
    pub runtime: Option<Runtime>,
    /// The folder for a JVM's logs.
    pub logs: Option<PathBuf>,
    /// Statuses other than 0 that count as success.
    pub ignore_failure: IgnoredStatuses,
    /// The destination of its standard output; the name of a file is complete.
    pub output: Output,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellReport {
    /// The run succeeded.
    Measured(Box<Measure>),
    /// The run failed: a point of the result.
    Failed(Failure),
    /// The cell failed in two earlier blocks, and was not run again.
    Skipped,
}

impl CellReport {
    /// The figures, if the run succeeded.
    pub fn measure(&self) -> Option<&Measure> {
        match self {
            CellReport::Measured(measure) => Some(measure),
            _ => None,
        }
    }
}

/// The failure of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// In words.
    pub reason: String,
    /// It did not end in time.
    pub timed_out: bool,
    /// Its program could not be started at all. No other setting changes this.
    pub not_started: bool,
    /// Elapsed time until then.
    pub wall_ns: u64,
    /// Largest memory seen.
    pub peak_bytes: u64,
}

/// Figures of one run, all processes of the command together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Elapsed time from start to end of the command.
    pub wall_ns: u64,
    /// User time.
    pub user_ns: u64,
    /// System time.
    pub system_ns: u64,
    /// Peak of resident bytes: the kernel's own peak of one process, or the largest sum of
    /// proportional sets seen of several.
    pub peak_bytes: u64,
    /// The peak is only an upper bound: the command ended before its first sample, and is smaller
    /// than the process that measured it.
    #[serde(default)]
    pub peak_is_bound: bool,
    /// Largest anonymous memory seen: without files; memory shared between processes counts once.
    pub peak_anonymous_bytes: u64,
    /// Its mean over the run.
    pub mean_anonymous_bytes: u64,
    /// Largest committed bytes of a heap of the lab, by the heap's account; `None`: no heap of the
    /// lab ran.
    #[serde(default)]
    pub committed_bytes: Option<u64>,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Other faults.
    pub minor_faults: u64,
    /// Switches because it waited.
    pub voluntary_switches: u64,
    /// Switches because another process had its turn.
    pub involuntary_switches: u64,
    /// Largest number of processes seen at once.
    pub processes: u32,
    /// Looks at its memory.
    pub looks: u32,
    /// Resident and anonymous bytes over time, thinned.
    pub series: Vec<Look>,
    /// Names of processes that still ran at the command's end, and were ended then.
    pub left_behind: Vec<String>,
    /// The runtime's report.
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

/// A fixed piece of work beside the cells of a block. It uses no heap, so only the machine moves
/// its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Its processor time.
    pub cpu_ns: u64,
    /// Elapsed time: longer than the CPU time if the canary shares its processor.
    pub wall_ns: u64,
}
