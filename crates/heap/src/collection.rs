//! One collection of a collected heap, as a row of a result.
//!
//! A collected heap is a curve and not a point: how much space it takes depends on when it
//! collects. So a result keeps every collection with what the space held before and after.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Bytes of one space at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceState {
    /// In objects, headers included; dead objects that no collection has found yet are among them.
    pub used_bytes: u64,
    /// Free, and where an allocation looks: free lists and the rest of a linear area.
    pub available_bytes: u64,
    /// Obtained from the system for this space and not given back.
    pub committed_bytes: u64,
    /// Free and on no list, because too small for it, until a sweep finds them again.
    pub waste_bytes: u64,
}

/// A further space of the same heap: new space, large objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceChange {
    /// As the design names the space.
    pub name: Cow<'static, str>,
    /// When the collection began.
    pub before: SpaceState,
    /// When the collection had ended.
    pub after: SpaceState,
}

/// Free blocks of one category of a free list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeBlocks {
    /// How many.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What the free lists of a space hold when a full collection runs, by category.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeLists {
    /// When it begins: pages that wait to be swept have no block yet.
    pub before: Vec<FreeBlocks>,
    /// When every page is swept, and before the lists are forgotten.
    pub swept: Vec<FreeBlocks>,
    /// When it begins: bytes of blocks that the lists were given since the last full collection and
    /// that are too small for them. V8's own count, which loses those of a page that a collector
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
    /// Objects that were copied elsewhere, promotions included.
    pub moved_objects: u64,
    /// Their bytes.
    pub moved_bytes: u64,
    /// Of the moved objects, those that left the young generation.
    pub promoted_objects: u64,
    /// Their bytes.
    pub promoted_bytes: u64,
}

/// One collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    /// What ran, as the design names it: `scavenge`, `mark-sweep`, `mark-compact`, `minor`,
    /// `major`.
    pub kind: Cow<'static, str>,
    /// Why: `forced`, `allocation`, `limit`, `pacing`, or the design's own word.
    pub cause: Cow<'static, str>,
    /// Births of the workload before the collection.
    pub births: u64,
    /// Requested bytes of these births.
    pub born_bytes: u64,
    /// The space that the heap is about (old space, major heap) when the collection began.
    pub before: SpaceState,
    /// The same space when the collection had ended, lazy sweeping aside.
    pub after: SpaceState,
    /// Other spaces of the heap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spaces: Vec<SpaceChange>,
    /// Free blocks by category; `None` where the design has no categories, or nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_lists: Option<FreeLists>,
    /// What the collection did.
    pub work: Work,
    /// CPU time of the pause, ns; `None` where pauses are not measured (space cells, `--verify`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ns: Option<u64>,
}
