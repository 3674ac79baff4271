//! One collection of a collected heap, as a row of a result.
//!
//! A collected heap is a curve and not a point: its space depends on when it collects. So a result
//! keeps every collection with the space's bytes before and after.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Bytes of one space at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceState {
    /// In objects, headers included; includes dead objects that no collection has found yet.
    pub used_bytes: u64,
    /// Free, in places where an allocation looks: free lists and the rest of a linear area.
    pub available_bytes: u64,
    /// Obtained from the system for this space and not given back.
    pub committed_bytes: u64,
    /// Free but too small for any list, until a sweep finds the bytes again; `None`: the heap does
    /// not tell.
    pub waste_bytes: Option<u64>,
}

/// A further space of the same heap: new space, large objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceChange {
    /// The space's name in the design.
    pub name: Cow<'static, str>,
    /// At the start of the collection.
    pub before: SpaceState,
    /// At the end of the collection.
    pub after: SpaceState,
}

/// Free blocks of one category of a free list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeBlocks {
    /// Number of blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The free lists of a space around a full collection, by category.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeLists {
    /// The smallest block of each category, rising; empty: the heap does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub smallest_bytes: Vec<u64>,
    /// At its start: pages that wait for sweeping have no block yet.
    pub before: Vec<FreeBlocks>,
    /// After sweeping every page, before the lists are cleared.
    pub swept: Vec<FreeBlocks>,
    /// At its start: bytes of blocks added to the lists since the last full collection and too
    /// small for any list. This is V8's own count. It loses the blocks of pages that a collector
    /// took; [`SpaceState::waste_bytes`] has them.
    pub waste_bytes: u64,
}

/// Counted work of one collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Objects found alive by marking or tracing.
    pub marked_objects: u64,
    /// Their bytes.
    pub marked_bytes: u64,
    /// Objects reclaimed.
    pub swept_objects: u64,
    /// Their bytes.
    pub swept_bytes: u64,
    /// Objects copied elsewhere, promotions included.
    pub moved_objects: u64,
    /// Their bytes.
    pub moved_bytes: u64,
    /// Moved objects that left the young generation.
    pub promoted_objects: u64,
    /// Their bytes.
    pub promoted_bytes: u64,
}

/// One collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    /// The kind, by the design's name: `scavenge`, `mark-sweep`, `mark-compact`, `minor`, `major`.
    pub kind: Cow<'static, str>,
    /// The cause: `forced`, `allocation`, `limit`, `pacing`, or the design's own word.
    pub cause: Cow<'static, str>,
    /// Births of the workload before the collection.
    pub births: u64,
    /// Requested bytes of these births.
    pub born_bytes: u64,
    /// The heap's main space (old space, major heap) at the start of the collection.
    pub before: SpaceState,
    /// The same space at the end of the collection, lazy sweeping aside.
    pub after: SpaceState,
    /// Other spaces of the heap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spaces: Vec<SpaceChange>,
    /// Free blocks by category; `None` without categories, or without a request for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_lists: Option<FreeLists>,
    /// The collection's work; `None`: the heap does not tell.
    pub work: Option<Work>,
    /// Time of the pause, ns: CPU time in V8's rules, elapsed time elsewhere. `None` if pauses are
    /// not measured (space cells, `--verify`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ns: Option<u64>,
}
