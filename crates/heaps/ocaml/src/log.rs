//! The heap's own record: counters, and a row for each slice of the major collector.
//!
//! The names are those of `Gc.quick_stat` and of the messages of `OCAMLRUNPARAM=v=0x44`, so that a
//! run of this heap and a log of the runtime can be compared line by line.

use heaplab_heap::{CollectorLog, SliceRow};
use serde::{Deserialize, Serialize};

/// The major collector's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Marks live blocks.
    Mark,
    /// Reclaims dead blocks.
    Sweep,
    /// Waits for the next cycle.
    Idle,
}

/// One slice of the major collector.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Births of the workload before the slice.
    pub births: u64,
    /// The phase when the slice began. A slice that begins idle starts a cycle and does no other
    /// work.
    pub phase: Phase,
    /// Words of the major heap when the slice began.
    pub heap_words: usize,
    /// Words allocated in the major heap since the slice before.
    pub allocated_words: usize,
    /// Raw work, as a part of a cycle, at most 0.3.
    pub p: f64,
    /// The excess over 0.3, carried to the next slice.
    pub backlog: f64,
    /// Work to do after smoothing over the window.
    pub filtered_p: f64,
    /// Words to mark or to sweep; 0 in a slice that begins idle.
    pub computed_work: i64,
}

/// Counters of the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Words allocated in the minor heap, headers included.
    pub minor_words: u64,
    /// Words promoted, headers included.
    pub promoted_words: u64,
    /// Words allocated in the major heap, promoted ones included.
    pub major_words: u64,
    /// Minor collections.
    pub minor_collections: u64,
    /// Cycles of the major collector that have ended.
    pub major_collections: u64,
    /// Full collections requested by the program or needed by a compaction.
    pub forced_major_collections: u64,
    /// Compactions; a second one right after the first counts too.
    pub compactions: u64,
    /// Words of the major heap.
    pub heap_words: u64,
    /// Chunks of the major heap.
    pub heap_chunks: u64,
    /// Peak of the major heap's words.
    pub top_heap_words: u64,
    /// Words of the free set.
    pub free_words: u64,
}

impl Phase {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Mark => "mark",
            Phase::Sweep => "sweep",
            Phase::Idle => "idle",
        }
    }
}

impl From<&Slice> for SliceRow {
    fn from(slice: &Slice) -> SliceRow {
        SliceRow {
            births: Some(slice.births),
            phase: slice.phase.name().into(),
            heap_words: slice.heap_words as u64,
            allocated_words: slice.allocated_words as u64,
            p: slice.p,
            backlog: slice.backlog,
            computed_work: slice.computed_work,
        }
    }
}

impl Counters {
    /// Slices and these counters in the form that all collectors share.
    pub fn log(&self, slices: Vec<SliceRow>) -> CollectorLog {
        let counters = [
            ("minor_words", self.minor_words),
            ("promoted_words", self.promoted_words),
            ("major_words", self.major_words),
            ("minor_collections", self.minor_collections),
            ("major_collections", self.major_collections),
            ("forced_major_collections", self.forced_major_collections),
            ("compactions", self.compactions),
            ("heap_words", self.heap_words),
            ("heap_chunks", self.heap_chunks),
            ("top_heap_words", self.top_heap_words),
            ("free_words", self.free_words),
        ];
        let counters = counters.into_iter().map(|(name, count)| (name.into(), count)).collect();
        CollectorLog { slices, counters }
    }
}
