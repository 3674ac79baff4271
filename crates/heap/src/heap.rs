//! The common part of every heap's contract, whoever frees its blocks.

use crate::{Footprint, Part};

/// A memory manager under test.
pub trait Heap {
    /// Name and version of the design or library: `jemalloc 5.3.0`, `the rules of V8 7.9`. Asked
    /// for after a measurement, because a text takes memory from the process's malloc.
    fn version(&self) -> String;

    /// The current bytes by use.
    fn footprint(&self) -> Footprint;

    /// Gives memory back to the system, if possible; false if the heap has no such operation.
    fn trim(&mut self) -> bool {
        false
    }

    /// Checks the invariants that take constant time. A foreign malloc cannot inspect itself: `Ok`.
    ///
    /// # Errors
    /// The first broken invariant.
    fn check(&self) -> Result<(), CheckError>;

    /// Checks every invariant, in time proportional to the heap.
    ///
    /// # Errors
    /// The first broken invariant.
    fn check_deep(&self) -> Result<(), CheckError>;

    /// The heap's parts in the order of a walk; `None`: the heap keeps its structure to itself. The
    /// parts' own bytes ([`Part::own_bytes`]) add up to [`Footprint::committed_bytes`].
    fn walk(&self) -> Option<Vec<Part>> {
        None
    }

    /// The heap's current losses by its own rules, with reasons, each a sentence for a person.
    fn losses(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A broken invariant of a heap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}")]
pub struct CheckError {
    /// The structure: "free list of class 7", "chunk 3".
    pub place: String,
    /// The invariant of a sound heap.
    pub expected: String,
    /// The actual state.
    pub found: String,
}
