//! The contract of heaps that decide themselves when to collect.
//!
//! The driver allocates and stores; the heap collects at its own pace (pacing is part of a design)
//! and asks the [`World`] which objects are alive. The driver never frees: a death only empties a
//! slot, and the heap finds the dead object at its next collection.
//!
//! One birth is `allocate` and then [`Collected::stored`]; one death is `stored` with nothing.
//! Between the two calls of a birth no collection runs, as in a runtime with a compiler that emits
//! both. A [`Collected::safepoint`] follows each.

use crate::{Collection, CollectorLog, Heap, World};
use std::ptr::NonNull;

/// An object to be born.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The slot that will hold the object; empty, or about to be overwritten.
    pub slot: u32,
    /// Requested bytes of the body; a heap rounds up to its words and adds its headers.
    pub size: usize,
    /// A power of two; 1: the heap's own alignment.
    pub align: usize,
    /// The allocating code, for designs that treat kinds apart.
    pub origin: Origin,
    /// The place that the program chose.
    pub place: Place,
}

/// The place of a birth, as the program chose it. A heap without such a place ignores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Place {
    /// The heap's usual one.
    #[default]
    Any,
    /// The old generation.
    Old,
    /// Among hidden classes (V8: maps), which describe the layout of other objects. A heap with a
    /// space of their own gives each one the same size, whatever the birth says.
    HiddenClass,
}

/// The code that asks for an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Compiled code of the program.
    #[default]
    Generated,
    /// The runtime on the program's behalf.
    Runtime,
    /// The collector, when it copies.
    Collector,
}

/// The heap cannot serve a birth, even after collecting all it can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "out of memory: {}, {}, {committed_bytes} committed of a limit of {limit_bytes} (limit=)",
    wanted(*size),
    live(*live_bytes)
)]
pub struct OutOfMemory {
    /// Bytes requested; `None`: a collection had no room for a survivor.
    pub size: Option<usize>,
    /// Bytes that the last full collection found alive.
    pub live_bytes: u64,
    /// Committed bytes.
    pub committed_bytes: u64,
    /// The limit, the heap's own or the system's.
    pub limit_bytes: u64,
}

/// The request without room, in words.
fn wanted(size: Option<usize>) -> String {
    match size {
        None => String::from("a collection had no room for a survivor"),
        Some(size) => format!("{size} bytes asked for"),
    }
}

/// The bytes that the last full collection found alive, in words.
fn live(bytes: u64) -> String {
    match bytes {
        0 => String::from("before any full collection"),
        bytes => format!("{bytes} bytes live"),
    }
}

/// The kind of collection that the program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Only the young generation; a heap without one does nothing.
    Minor,
    /// Everything.
    Full,
}

/// A heap that reclaims by itself.
pub trait Collected: Heap {
    /// Returns the body of a new object, aligned and at least `birth.size` bytes; its content is
    /// undefined. May collect first, and then moves objects by [`World::moved`].
    ///
    /// # Errors
    /// Collecting did not help. The object was not born, and the heap is sound unless it
    /// [has ended](Collected::has_ended).
    fn allocate<W: World>(
        &mut self,
        birth: Birth,
        world: &mut W,
    ) -> Result<NonNull<u8>, OutOfMemory>;

    /// Bytes of the body of the object of this birth. Less than its size if this includes a header,
    /// as in a recording of the same heap, or if the heap's hidden classes are smaller.
    fn body_bytes(&self, birth: &Birth) -> usize {
        birth.size
    }

    /// The write barrier of the program's table: `slot` held `before` and now holds `now`.
    fn stored(&mut self, slot: u32, before: Option<NonNull<u8>>, now: Option<NonNull<u8>>) {
        let _ = (slot, before, now);
    }

    /// Transient objects of these `sizes` are born in the empty slot `slot`, one after the other.
    /// Each dies before the next one is born. One transient equals
    /// [`allocate`](Collected::allocate), two [`stored`](Collected::stored) and two safepoints,
    /// none of which collects. `write` gets each body with its size: the program's only chance to
    /// write it. Returns how many objects were born; the driver takes single steps for the next
    /// one.
    ///
    /// This method only saves time: a replay without it gives the same result.
    fn transients(
        &mut self,
        slot: u32,
        sizes: impl Iterator<Item = usize>,
        write: impl FnMut(NonNull<u8>, usize),
    ) -> usize {
        let _ = (slot, sizes, write);
        0
    }

    /// A prefetch hint: the driver will write `slot` some steps from now. `slot` may lie outside of
    /// the program's table. A heap with its own copy of the table may prefetch the entry.
    fn ahead(&self, slot: usize) {
        let _ = slot;
    }

    /// The write barrier of a field: the object in slot `from` now refers to the object in slot
    /// `to`.
    fn linked(&mut self, from: u32, to: u32) {
        let _ = (from, to);
    }

    /// The program is between two steps, where a runtime checks whether the collector wants to run:
    /// the last birth or death is complete.
    ///
    /// # Errors
    /// The heap had no room to move live objects.
    fn safepoint<W: World>(&mut self, world: &mut W) -> Result<(), OutOfMemory> {
        let _ = world;
        Ok(())
    }

    /// Collects on the program's request.
    ///
    /// # Errors
    /// The heap had no room to move live objects.
    fn collect<W: World>(&mut self, ask: Ask, world: &mut W) -> Result<(), OutOfMemory>;

    /// Whether [`collect`](Collected::collect) collects. A heap may collect by itself only.
    fn collects_on_request(&self) -> bool {
        true
    }

    /// Whether a collection had no room to move the live objects. The real runtime ends its process
    /// then. This heap has lost objects, and refuses every later birth and collection.
    fn has_ended(&self) -> bool {
        false
    }

    /// Free bytes, at the start, on pages of the runtime's own objects. The states of
    /// [`collections`](Collected::collections) leave these pages and objects out, but the free
    /// bytes may serve the workload or be waste.
    fn base_free_bytes(&self) -> u64 {
        0
    }

    /// All collections so far, oldest first.
    fn collections(&self) -> &[Collection];

    /// Grows with every action of the collector: a slice, a minor collection, a cycle. A verifier
    /// checks the whole heap each time this number has grown.
    fn activity(&self) -> u64 {
        self.collections().len() as u64
    }

    /// Slices and counters so far, of a collector that has them.
    fn log(&self) -> CollectorLog {
        CollectorLog::default()
    }

    /// Measures the pause of each collection from now on ([`Collection::pause_ns`]).
    fn measure_pauses(&mut self) {}
}
