//! What every heap says of itself, whoever frees its blocks.

use crate::{Footprint, Part};

/// A memory manager under test.
pub trait Heap {
    /// Name and version of the design or library: `jemalloc 5.3.0`, `the rules of V8 7.9`. Asked
    /// for after a measurement, because a text takes memory from the process's malloc.
    fn version(&self) -> String;

    /// Where the bytes are now.
    fn footprint(&self) -> Footprint;

    /// Gives back to the system what the heap can; false where the heap has no such operation.
    fn trim(&mut self) -> bool {
        false
    }

    /// Checks what can be checked in constant time. A foreign malloc cannot look into itself: `Ok`.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check(&self) -> Result<(), CheckError>;

    /// Checks every invariant, in time proportional to the heap.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check_deep(&self) -> Result<(), CheckError>;

    /// The heap's parts in the order of a walk; `None`: the heap keeps its structure to itself. The
    /// parts' own bytes ([`Part::own_bytes`]) add up to [`Footprint::committed_bytes`].
    fn walk(&self) -> Option<Vec<Part>> {
        None
    }
}

/// A broken invariant of a heap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}")]
pub struct CheckError {
    /// Which structure: "free list of class 7", "chunk 3".
    pub place: String,
    /// What holds in a sound heap.
    pub expected: String,
    /// What is there.
    pub found: String,
}
