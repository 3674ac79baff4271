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
    /// What the collection did.
    pub work: Work,
    /// CPU time of the pause, ns; `None` where pauses are not measured (space cells, `--verify`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ns: Option<u64>,
}
