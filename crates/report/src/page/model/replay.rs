//! The page's part about the same workload on other heaps, if it was replayed.

use serde::Serialize;

/// The same workload on other heaps.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Replay {
    /// When it was measured, seconds since 1970 UTC; 0: not known.
    pub measured_unix_s: u64,
    /// The measures, in words: "space and time of glibc; space of jemalloc".
    pub measured: String,
    /// The measures that a newer replay repeated, in words; empty: none.
    pub measured_again: String,
    /// The heap that ratios are against.
    pub baseline: String,
    /// How it was measured, in words.
    pub settings: String,
    /// Where it was measured, in words.
    pub machine: String,
    /// Of the intervals: 0.95.
    pub confidence: f64,
    /// One a heap, the baseline first.
    pub heaps: Vec<ReplayHeap>,
    /// The verdict in words, most important first.
    pub verdicts: Vec<String>,
    /// Its limits.
    pub cautions: Vec<String>,
}

/// One heap's results.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReplayHeap {
    /// Its name, with parameters.
    pub name: String,
    /// The heap's own version text.
    pub version: String,
    /// Resident bytes, the driver's own taken off; `None`: not measured.
    pub space: Option<ReplaySpace>,
    /// Collections, of a heap that collects.
    pub collections: Option<ReplayCollections>,
    /// Nanoseconds an event, the driver's own taken off; `None`: not measured.
    pub event_ns: Option<f64>,
    /// Peak space as a ratio to the baseline.
    pub space_ratio: Option<Ratio>,
    /// Time as a ratio to the baseline.
    pub time_ratio: Option<Ratio>,
    /// Measurements that failed, each a sentence.
    pub failures: Vec<String>,
}

/// The collections of one heap: at most [`crate::page::limits::COLLECTION_POINTS`] of them, evenly
/// chosen, the last included.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReplayCollections {
    /// All that ran.
    pub count: u64,
    /// How many of each kind, in words: "12 scavenge, 7 mark-compact".
    pub kinds: String,
    /// Of each, counted from 1 over all that ran.
    pub number: Vec<u64>,
    /// Births before each.
    pub births: Vec<u64>,
    /// Committed bytes of the space that the heap is about, after each.
    pub committed_bytes: Vec<u64>,
    /// Used bytes after each.
    pub used_bytes: Vec<u64>,
    /// Committed bytes before each.
    pub before_committed_bytes: Vec<u64>,
    /// Used bytes before each.
    pub before_used_bytes: Vec<u64>,
    /// The cells that ran.
    pub kind: Vec<String>,
    /// Why.
    pub cause: Vec<String>,
    /// Bytes that each found alive in all spaces; `None`: it did not mark.
    pub live_bytes: Vec<Option<u64>>,
    /// The pause of each, where it was measured.
    pub point_pause_ns: Vec<Option<u64>>,
    /// Free bytes by category, if the heap reports them.
    pub categories: Option<FreeCategories>,
    /// Free bytes on no list after each, if the heap tells.
    pub waste_bytes: Vec<Option<u64>>,
    /// Pauses, where they were measured.
    pub pause_ns: Vec<u64>,
}

/// Free bytes of each category of a heap's lists, when everything is swept.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FreeCategories {
    /// Of each category, smallest blocks first.
    pub names: Vec<String>,
    /// Births before each full collection.
    pub births: Vec<u64>,
    /// One row a full collection, one number a category.
    pub bytes: Vec<Vec<u64>>,
}

/// Resident bytes of one heap.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReplaySpace {
    /// At their largest.
    pub peak_bytes: u64,
    /// After the last event.
    pub end_bytes: u64,
    /// After a trim; `None`: the heap has no call for a trim.
    pub trimmed_bytes: Option<u64>,
    /// Largest committed bytes, as the heap reports them.
    pub committed_bytes: Option<u64>,
    /// Resident bytes at the peak for each byte asked for then.
    pub resident_per_requested: f64,
    /// Events replayed at each moment of the curve, at most [`crate::page::limits::CURVE_POINTS`].
    pub curve_event: Vec<u64>,
    /// Resident bytes then.
    pub curve_bytes: Vec<u64>,
    /// Bytes asked for and live then.
    pub curve_requested_bytes: Vec<u64>,
}

/// A ratio with the range it may lie in.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ratio {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The same in words: "1.17 to 1.43", or why there is no range.
    pub range: String,
    /// "less", "more", "equivalent" or "not_shown".
    pub outcome: String,
}
