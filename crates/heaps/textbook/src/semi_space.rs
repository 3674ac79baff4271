//! Semi-space copying (Fenichel and Yochelson 1969; Cheney 1970): two halves, used by bumping a
//! pointer. A collection copies live objects to the other half, breadth first, and gives the old
//! half back.

use crate::check;
use crate::facts::{GROWTH_BYTES, HEADER_BYTES, Header, State, object_bytes};
use crate::heap::{Pace, footprint, grow, living, report_reclaimed};
use crate::strategy::Options;
use heaplab_address_space::{Error, Reservation, ReservationOptions};
use heaplab_heap::{
    Ask, Birth, CheckError, Collected, Collection, Footprint, Heap, OutOfMemory, Part, Role,
    SpaceState, Work, World,
};
use std::ptr::NonNull;

/// The heap. Objects lie end to end in the half in use, from its start to `top`.
pub struct SemiSpace {
    halves: [Reservation; 2],
    /// The half in use.
    half: usize,
    /// Offset behind the last object in the half.
    pub(crate) top: usize,
    /// Committed bytes of each half, from its start.
    committed: [usize; 2],
    pace: Pace,
}

impl SemiSpace {
    /// An empty heap.
    ///
    /// # Errors
    /// The addresses cannot be reserved.
    pub fn new(options: Options) -> Result<SemiSpace, Error> {
        let half = || {
            Reservation::new(
                (options.limit_bytes / 2).next_multiple_of(GROWTH_BYTES),
                &ReservationOptions::default(),
            )
        };
        Ok(SemiSpace {
            halves: [half()?, half()?],
            half: 0,
            top: 0,
            committed: [0, 0],
            pace: Pace::new(options),
        })
    }

    pub(crate) fn header(&self, offset: usize) -> Header {
        // SAFETY: an object begins at `offset`, below `top`.
        unsafe { self.halves[self.half].base().add(offset).cast::<Header>().read() }
    }

    /// Room for `bytes` at the end of half `half` with objects up to `top`.
    fn grow(&mut self, half: usize, top: usize, bytes: usize) -> Option<usize> {
        let end = top.checked_add(bytes)?;
        grow(&self.halves[half], &mut self.committed[half], end)?;
        Some(end)
    }

    pub(crate) fn state(&self) -> SpaceState {
        let committed = self.committed[0] + self.committed[1];
        let (used_bytes, committed_bytes) = (self.top as u64, committed as u64);
        SpaceState {
            used_bytes,
            available_bytes: (self.committed[self.half] - self.top) as u64,
            committed_bytes,
            waste_bytes: Some(0),
        }
    }

    fn out_of_memory(&self, size: Option<usize>) -> OutOfMemory {
        let limit_bytes = self.halves.iter().map(|half| half.reserved_bytes() as u64).sum();
        OutOfMemory {
            size,
            live_bytes: self.pace.live_bytes,
            committed_bytes: self.state().committed_bytes,
            limit_bytes,
        }
    }

    fn collect_for<W: World>(
        &mut self,
        cause: &'static str,
        world: &mut W,
    ) -> Result<(), OutOfMemory> {
        let before = self.state();
        let mut collection = self.pace.begin("copy", cause, before);
        let mut work = Work::default();
        let living = living(world);
        let (from, to) = (self.half, 1 - self.half);
        // Live objects are no more than used ones: with this much room in the other half no copy
        // can fail.
        self.grow(to, 0, self.top).ok_or_else(|| self.out_of_memory(None))?;
        let mut top = 0;
        for slot in &living {
            let Some(object) = world.object(*slot) else { continue };
            // SAFETY: the object's header lies before its body.
            let header = unsafe { object.address.sub(HEADER_BYTES).cast::<Header>().read() };
            // SAFETY: the other half has room for all objects of this one.
            let place = unsafe { self.halves[to].base().add(top) };
            // SAFETY: both are whole objects of these bytes, in different halves.
            unsafe {
                place.copy_from_nonoverlapping(
                    object.address.sub(HEADER_BYTES),
                    header.bytes as usize,
                )
            };
            // SAFETY: the body lies behind the header.
            world.moved(*slot, unsafe { place.add(HEADER_BYTES) });
            top += header.bytes as usize;
            work.marked_objects += 1;
            work.marked_bytes += header.bytes;
        }
        (work.moved_objects, work.moved_bytes) = (work.marked_objects, work.marked_bytes);
        work.swept_bytes = (self.top - top) as u64;
        world.fullest(|| self.state().committed_bytes);
        (self.half, self.top) = (to, top);
        self.give_back(from);
        report_reclaimed(world, &living);
        (collection.after, collection.work) = (self.state(), Some(work));
        self.pace.end(collection);
        Ok(())
    }

    /// Uncommits an empty half.
    fn give_back(&mut self, half: usize) {
        let committed = std::mem::replace(&mut self.committed[half], 0);
        // SAFETY: every object has been copied out of this half, and the world knows the new
        // places.
        if committed > 0 && unsafe { self.halves[half].uncommit(0..committed) }.is_err() {
            self.committed[half] = committed;
        }
    }
}

impl Heap for SemiSpace {
    fn version(&self) -> String {
        format!("textbook semi-space {}", env!("CARGO_PKG_VERSION"))
    }

    fn footprint(&self) -> Footprint {
        footprint(self.state())
    }

    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        check::end_to_end(self.top, |offset| self.header(offset)).map(drop)
    }

    fn walk(&self) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        for (half, committed) in
            self.committed.into_iter().enumerate().filter(|(_, committed)| *committed > 0)
        {
            let base = self.halves[half].base().as_ptr() as usize;
            let top = if half == self.half { self.top } else { 0 };
            parts.push(Part::new(0, Role::Chunk, "half", base..base + committed));
            parts.push(Part::new(1, Role::Blocks, "objects", base..base + top));
            parts.push(Part::new(1, Role::Vacant, "(not yet used)", base + top..base + committed));
        }
        Some(parts)
    }
}

impl Collected for SemiSpace {
    fn allocate<W: World>(
        &mut self,
        birth: Birth,
        world: &mut W,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        if self.pace.is_due() {
            self.collect_for("pacing", world)?;
        }
        let bytes = object_bytes(birth.size).ok_or_else(|| self.out_of_memory(Some(birth.size)))?;
        let end = match self.grow(self.half, self.top, bytes) {
            Some(end) => end,
            None => {
                self.collect_for("limit", world)?;
                self.grow(self.half, self.top, bytes)
                    .ok_or_else(|| self.out_of_memory(Some(birth.size)))?
            }
        };
        let offset = std::mem::replace(&mut self.top, end);
        // SAFETY: the half is committed from `offset` to `end`.
        let start = unsafe { self.halves[self.half].base().add(offset) };
        // SAFETY: as above; offsets are multiples of the header's alignment.
        unsafe {
            start.cast::<Header>().write(Header { bytes: bytes as u64, state: State::White })
        };
        self.pace.born(birth.size, bytes);
        // SAFETY: the object is larger than its header.
        Ok(unsafe { start.add(HEADER_BYTES) })
    }

    fn collect<W: World>(&mut self, ask: Ask, world: &mut W) -> Result<(), OutOfMemory> {
        if ask == Ask::Full { self.collect_for("forced", world) } else { Ok(()) }
    }

    fn collections(&self) -> &[Collection] {
        &self.pace.collections
    }

    fn measure_pauses(&mut self) {
        self.pace.measures_pauses = true;
    }
}
