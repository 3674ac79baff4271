//! The workload's side of a collected heap: it answers which objects are alive and refer to which,
//! and learns that an object has moved.
//!
//! The workload keeps its objects in **slots**, as a program keeps them in a table: a slot holds
//! one object from its birth to its death. The workload's death rule decides which objects live.
//! With known deaths (freed by the program, or noticed at a recorded collection) every object in a
//! slot is a root. With references, an object that the program let go of stays in its slot and is
//! no root: it lives while a root reaches it, and the heap finds out.

use std::ptr::NonNull;

/// An object as the workload knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// First byte of the body, as the heap last returned or moved it.
    pub address: NonNull<u8>,
    /// Requested bytes of the body.
    pub size: usize,
    /// The program holds it. `false`: it lives only while a root reaches it by fields.
    pub root: bool,
}

/// The workload's side of a collection.
pub trait World {
    /// Number of slots; slots are `0..slots()`.
    fn slots(&self) -> u32;

    /// The object in `slot`; `None`: no object was born there, or it has died.
    fn object(&self, slot: u32) -> Option<Object>;

    /// Calls `visit` with the slot of each object that the object in `slot` refers to, in field
    /// order.
    fn fields(&self, slot: u32, visit: &mut dyn FnMut(u32));

    /// The object in `slot` now lies at `to`, with its whole content. The heap calls this before it
    /// reuses the old place.
    fn moved(&mut self, slot: u32, to: NonNull<u8>);

    /// No root reaches the object in `slot`; the heap has reclaimed it. Only objects that are no
    /// roots may be reported.
    fn reclaimed(&mut self, slot: u32);

    /// A collection holds the most memory now: it has filled new places and has not yet given the
    /// old ones back. The heap has `committed_bytes`.
    fn fullest(&mut self, committed_bytes: impl FnOnce() -> u64) {
        let _ = committed_bytes;
    }
}
