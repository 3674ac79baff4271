//! Mark-sweep (McCarthy 1960) with one address-ordered free list and first fit.
//!
//! A collection marks live objects in their headers, then walks the heap upward: neighbouring free
//! and unmarked blocks become one free block. The walk builds the list in address order.

use crate::check;
use crate::facts::{HEADER_BYTES, Header, State, object_bytes};
use crate::heap::{Pace, footprint, grow, living, report_reclaimed};
use crate::strategy::Options;
use heaplab_address_space::{Error, Reservation, ReservationOptions};
use heaplab_heap::{
    Ask, Birth, CheckError, Collected, Collection, Footprint, Heap, OutOfMemory, Part, Role,
    SpaceState, Work, World,
};
use std::ptr::NonNull;

/// A free block holds its header and the link behind it.
const FREE_BYTES_MIN: usize = HEADER_BYTES + 16;

/// The heap. Blocks lie end to end from offset 0 to `top`.
pub struct MarkSweep {
    pub(crate) space: Reservation,
    /// Offset behind the last block.
    pub(crate) top: usize,
    pub(crate) committed: usize,
    /// Offset of the first free block.
    pub(crate) first_free: Option<usize>,
    pub(crate) free_bytes: u64,
    pub(crate) used_bytes: u64,
    pace: Pace,
}

impl MarkSweep {
    /// An empty heap.
    ///
    /// # Errors
    /// The addresses cannot be reserved.
    pub fn new(options: Options) -> Result<MarkSweep, Error> {
        let space = Reservation::new(options.limit_bytes, &ReservationOptions::default())?;
        Ok(MarkSweep {
            space,
            top: 0,
            committed: 0,
            first_free: None,
            free_bytes: 0,
            used_bytes: 0,
            pace: Pace::new(options),
        })
    }

    pub(crate) fn header(&self, offset: usize) -> Header {
        // SAFETY: a block begins at `offset`, below `top`; it is committed and begins with a
        // header.
        unsafe { self.space.base().add(offset).cast::<Header>().read() }
    }

    fn set_header(&mut self, offset: usize, header: Header) {
        // SAFETY: `offset` is below `committed`, a multiple of 16, and a block begins there.
        unsafe { self.space.base().add(offset).cast::<Header>().write(header) };
    }

    /// The link of a free block, plus one; 0: the last.
    pub(crate) fn next_free(&self, offset: usize) -> Option<usize> {
        // SAFETY: a free block is large enough for its header and the link behind it.
        let link = unsafe { self.space.base().add(offset + HEADER_BYTES).cast::<usize>().read() };
        link.checked_sub(1)
    }

    fn set_next_free(&mut self, offset: Option<usize>, next: Option<usize>) {
        match offset {
            None => self.first_free = next,
            // SAFETY: as for `next_free`.
            Some(offset) => unsafe {
                self.space
                    .base()
                    .add(offset + HEADER_BYTES)
                    .cast::<usize>()
                    .write(next.map_or(0, |next| next + 1));
            },
        }
    }

    /// Takes `bytes` from the first free block of at least this size. The rest stays on the list if
    /// it can be a free block.
    fn take_free(&mut self, bytes: usize) -> Option<(usize, usize)> {
        let (mut before, mut here) = (None, self.first_free);
        while let Some(offset) = here {
            let (free, next) = (self.header(offset).bytes as usize, self.next_free(offset));
            if free >= bytes {
                let taken = if free - bytes >= FREE_BYTES_MIN { bytes } else { free };
                let rest = (taken < free).then_some(offset + taken);
                if let Some(rest) = rest {
                    self.set_header(
                        rest,
                        Header { bytes: (free - taken) as u64, state: State::Free },
                    );
                    self.set_next_free(Some(rest), next);
                }
                self.set_next_free(before, rest.or(next));
                self.free_bytes -= taken as u64;
                return Some((offset, taken));
            }
            (before, here) = (here, next);
        }
        None
    }

    /// Takes `bytes` behind the last block.
    fn take_fresh(&mut self, bytes: usize) -> Option<(usize, usize)> {
        let end = self.top.checked_add(bytes)?;
        grow(&self.space, &mut self.committed, end)?;
        let offset = std::mem::replace(&mut self.top, end);
        Some((offset, bytes))
    }

    pub(crate) fn state(&self) -> SpaceState {
        let (used_bytes, committed_bytes) = (self.used_bytes, self.committed as u64);
        let available_bytes = self.free_bytes + (self.committed - self.top) as u64;
        SpaceState { used_bytes, available_bytes, committed_bytes, waste_bytes: Some(0) }
    }

    fn collect_for<W: World>(&mut self, cause: &'static str, world: &mut W) {
        let before = self.state();
        let mut collection = self.pace.begin("mark-sweep", cause, before);
        let mut work = Work::default();
        let living = living(world);
        for object in living.iter().filter_map(|slot| world.object(*slot)) {
            let offset = object.address.as_ptr() as usize
                - HEADER_BYTES
                - self.space.base().as_ptr() as usize;
            let header = self.header(offset);
            self.set_header(offset, Header { state: State::Marked, ..header });
            work.marked_objects += 1;
            work.marked_bytes += header.bytes;
        }
        self.sweep(&mut work);
        report_reclaimed(world, &living);
        (collection.after, collection.work) = (self.state(), Some(work));
        self.pace.end(collection);
    }

    fn sweep(&mut self, work: &mut Work) {
        (self.first_free, self.free_bytes, self.used_bytes) = (None, 0, 0);
        let (mut offset, mut last) = (0, None);
        while offset < self.top {
            let header = self.header(offset);
            if header.state == State::Marked {
                self.set_header(offset, Header { state: State::White, ..header });
                self.used_bytes += header.bytes;
                offset += header.bytes as usize;
                continue;
            }
            let mut end = offset;
            while end < self.top {
                let header = self.header(end);
                if header.state == State::Marked {
                    break;
                }
                work.swept_objects += u64::from(header.state == State::White);
                work.swept_bytes += if header.state == State::White { header.bytes } else { 0 };
                end += header.bytes as usize;
            }
            self.set_header(offset, Header { bytes: (end - offset) as u64, state: State::Free });
            self.set_next_free(Some(offset), None);
            self.set_next_free(last, Some(offset));
            self.free_bytes += (end - offset) as u64;
            (last, offset) = (Some(offset), end);
        }
    }
}

impl Heap for MarkSweep {
    fn version(&self) -> String {
        format!("textbook mark-sweep {}", env!("CARGO_PKG_VERSION"))
    }

    fn footprint(&self) -> Footprint {
        footprint(self.state())
    }

    fn check(&self) -> Result<(), CheckError> {
        check::counts(self)
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        check::blocks(self)
    }

    fn walk(&self) -> Option<Vec<Part>> {
        let base = self.space.base().as_ptr() as usize;
        let mut parts = vec![Part::new(0, Role::Chunk, "heap", base..base + self.committed)];
        let mut offset = 0;
        while offset < self.top {
            let from = offset;
            let state = self.header(from).state;
            while offset < self.top && self.header(offset).state == state {
                offset += self.header(offset).bytes as usize;
            }
            let (role, name) = if state == State::Free {
                (Role::Vacant, "(free)")
            } else {
                (Role::Blocks, "objects")
            };
            parts.push(Part::new(1, role, name, base + from..base + offset));
        }
        if self.top < self.committed {
            parts.push(Part::new(
                1,
                Role::Vacant,
                "(not yet used)",
                base + self.top..base + self.committed,
            ));
        }
        Some(parts)
    }
}

impl Collected for MarkSweep {
    fn allocate<W: World>(
        &mut self,
        birth: Birth,
        world: &mut W,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        if self.pace.is_due() {
            self.collect_for("pacing", world);
        }
        let bytes = object_bytes(birth.size).map(|bytes| bytes.max(FREE_BYTES_MIN));
        let found =
            bytes.and_then(|bytes| self.take_free(bytes).or_else(|| self.take_fresh(bytes)));
        let found = found.or_else(|| {
            self.collect_for("limit", world);
            bytes.and_then(|bytes| self.take_free(bytes).or_else(|| self.take_fresh(bytes)))
        });
        let Some((offset, bytes)) = found else {
            let (live_bytes, committed_bytes) = (self.pace.live_bytes, self.committed as u64);
            return Err(OutOfMemory {
                size: Some(birth.size),
                live_bytes,
                committed_bytes,
                limit_bytes: self.space.reserved_bytes() as u64,
            });
        };
        self.set_header(offset, Header { bytes: bytes as u64, state: State::White });
        self.used_bytes += bytes as u64;
        self.pace.born(birth.size, bytes);
        // SAFETY: the block is committed and larger than its header.
        Ok(unsafe { self.space.base().add(offset + HEADER_BYTES) })
    }

    fn collect<W: World>(&mut self, ask: Ask, world: &mut W) -> Result<(), OutOfMemory> {
        if ask == Ask::Full {
            self.collect_for("forced", world);
        }
        Ok(())
    }

    fn collections(&self) -> &[Collection] {
        &self.pace.collections
    }

    fn measure_pauses(&mut self) {
        self.pace.measures_pauses = true;
    }
}
