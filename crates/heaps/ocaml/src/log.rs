//! What the heap says of itself: counters, and a row for each slice of the major collector.
//!
//! The names are those of `Gc.quick_stat` and of the messages that `OCAMLRUNPARAM=v=0x44` prints,
//! so that a run of the heap and a log of the runtime can be laid side by side.

use serde::{Deserialize, Serialize};

/// What the major collector does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Marks what is alive.
    Mark,
    /// Reclaims what is not.
    Sweep,
    /// Waits for the next cycle.
    Idle,
}

/// One slice of the major collector.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Births of the workload before the slice.
    pub births: u64,
    /// What the collector did when the slice began. A slice that begins idle starts a cycle and
    /// does no other work.
    pub phase: Phase,
    /// Words of the major heap when the slice began.
    pub heap_words: usize,
    /// Words allocated in the major heap since the slice before.
    pub allocated_words: usize,
    /// Raw work to do, as a part of a cycle, at most 0.3.
    pub p: f64,
    /// What was above 0.3, carried to the next slice.
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
    /// Full collections that were asked for or that a compaction needed.
    pub forced_major_collections: u64,
    /// Compactions; a second one that follows at once counts too.
    pub compactions: u64,
    /// Words of the major heap.
    pub heap_words: u64,
    /// Chunks of the major heap.
    pub heap_chunks: u64,
    /// Largest number of words that the major heap has had.
    pub top_heap_words: u64,
    /// Words of the free set.
    pub free_words: u64,
}
