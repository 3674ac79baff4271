//! The reports of a collector that works in slices, between collections.
//!
//! An incremental collector does a part of a cycle at a time, and the size of this part is the core
//! of its design. The names are OCaml's (`OCAMLRUNPARAM=v=0x44`, `Gc.quick_stat`), so far the only
//! design with slices here.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Slices, oldest first, and counters of the whole run by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectorLog {
    /// Each slice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceRow>,
    /// Counters at the end, under the design's own names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

impl CollectorLog {
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.counters.is_empty()
    }
}

/// One slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceRow {
    /// Objects born before it; `None`: the runtime does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub births: Option<u64>,
    /// The collector's phase at its start: `mark`, `sweep`, or `idle`, which starts a cycle.
    pub phase: String,
    /// Words of the heap at its start.
    pub heap_words: u64,
    /// Words allocated in the heap since the slice before.
    pub allocated_words: u64,
    /// The part of a cycle that is due, with the remainder of earlier slices.
    pub p: f64,
    /// The excess over the most that a slice does, carried to the next one.
    pub backlog: f64,
    /// Words to mark or to sweep; 0 in a slice that begins idle.
    pub computed_work: i64,
}
