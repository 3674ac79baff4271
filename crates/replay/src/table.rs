//! The live blocks of a replay, by slot, and the live regions: the driver's knowledge, which no
//! heap needs.
//!
//! Columns lie apart: a heap that reads only addresses ([`Manual::SIZED`]) costs one store a birth.
//! Entries are atomic, so threads may share a table; on one thread this costs nothing.
//!
//! A slot holds everything that the heap needs at its block's death. So no program, even a damaged
//! one, makes the heap free a block twice, with another size, or in another region, and none keeps
//! a block of an ended region.

use crate::driver::ReplayError;
use crate::pages::Pages;
use heaplab_heap::{Block, Manual, Region, Request, prefetch};
use heaplab_trace::program::{Program, Step};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// Bits of a size in a shape; a program's sizes are at most 2^47.
const SIZE_BITS: u32 = 48;

/// The live blocks and regions of one replay.
pub struct Table {
    addresses: Pages<AtomicPtr<u8>>,
    /// Size and log2 of the alignment. Empty if the heap is not [`Manual::SIZED`].
    shapes: Pages<AtomicU64>,
    /// Empty if the heap has no regions.
    regions: Pages<AtomicU32>,
    /// By region: its live blocks plus one; 0: not alive. Empty if the heap has no regions.
    alive: Pages<AtomicU32>,
}

impl Table {
    /// An empty table for `program` on a heap of type `H`, written here, before any measurement.
    ///
    /// # Errors
    /// The system has no memory for the table.
    pub fn new<H: Manual>(program: &Program) -> std::io::Result<Table> {
        let slots = program.facts().slots as usize;
        let column = |is_kept: bool| if is_kept { slots } else { 0 };
        Ok(Table {
            addresses: Pages::zeroed(slots)?,
            shapes: Pages::zeroed(column(H::SIZED))?,
            regions: Pages::zeroed(column(H::REGIONS))?,
            alive: Pages::zeroed(if H::REGIONS { regions(program) } else { 0 })?,
        })
    }

    /// Address of a slot's block; `None`: the slot is empty, or out of range.
    pub fn address(&self, slot: u32) -> Option<NonNull<u8>> {
        NonNull::new(self.addresses.get(slot as usize)?.load(Relaxed))
    }

    /// Prefetches `slot`'s entry of the address column, and of the shape column if present.
    #[inline(always)]
    pub(crate) fn prefetch<H: Manual>(&self, slot: usize) {
        prefetch(self.addresses.as_ptr().wrapping_add(slot));
        if H::SIZED {
            prefetch(self.shapes.as_ptr().wrapping_add(slot));
        }
    }

    #[inline(always)]
    fn entry(&self, slot: u32, word: usize) -> Result<&AtomicPtr<u8>, ReplayError> {
        self.addresses.get(slot as usize).ok_or(ReplayError::Slot {
            word,
            slot,
            found: "outside of the table",
        })
    }

    /// Fails unless a block may be born in `slot` and `region`.
    #[inline(always)]
    pub(crate) fn check_birth<H: Manual>(
        &self,
        slot: u32,
        region: Region,
        word: usize,
    ) -> Result<(), ReplayError> {
        if !self.entry(slot, word)?.load(Relaxed).is_null() {
            return Err(ReplayError::Slot { word, slot, found: "taken already" });
        }
        if H::REGIONS && region != Region::MALLOC {
            self.living(region, word)?;
        }
        Ok(())
    }

    /// Puts a new block into its slot; [`Table::check_birth`] must have succeeded.
    #[inline(always)]
    pub(crate) fn put<H: Manual>(
        &self,
        slot: u32,
        address: NonNull<u8>,
        request: Request,
        word: usize,
    ) -> Result<(), ReplayError> {
        self.entry(slot, word)?.store(address.as_ptr(), Relaxed);
        if H::SIZED {
            self.put_shape(slot, request.size, request.align);
        }
        if H::REGIONS {
            if let Some(entry) = self.regions.get(slot as usize) {
                entry.store(request.region.0, Relaxed);
            }
            self.count(request.region, 1);
        }
        Ok(())
    }

    /// Gives the block in `slot` another address and size.
    #[inline(always)]
    pub(crate) fn moved<H: Manual>(
        &self,
        slot: u32,
        block: Block,
        word: usize,
    ) -> Result<(), ReplayError> {
        self.entry(slot, word)?.store(block.address.as_ptr(), Relaxed);
        if H::SIZED {
            self.put_shape(slot, block.size, block.align);
        }
        Ok(())
    }

    #[inline(always)]
    fn put_shape(&self, slot: u32, size: usize, align: usize) {
        if let Some(entry) = self.shapes.get(slot as usize) {
            entry.store(size as u64 | u64::from(align.trailing_zeros()) << SIZE_BITS, Relaxed);
        }
    }

    /// The block in `slot`.
    #[inline(always)]
    pub(crate) fn block<H: Manual>(&self, slot: u32, word: usize) -> Result<Block, ReplayError> {
        let entry = self.entry(slot, word)?;
        let address = NonNull::new(entry.load(Relaxed)).ok_or(ReplayError::Slot {
            word,
            slot,
            found: "empty",
        })?;
        Ok(self.described::<H>(slot as usize, address))
    }

    /// Takes the block out of `slot`.
    #[inline(always)]
    pub(crate) fn take<H: Manual>(&self, slot: u32, word: usize) -> Result<Block, ReplayError> {
        let block = self.block::<H>(slot, word)?;
        self.entry(slot, word)?.store(null_mut(), Relaxed);
        if H::REGIONS {
            self.count(block.region, -1);
        }
        Ok(block)
    }

    /// The block at `address` in `slot`, from the columns.
    #[inline(always)]
    fn described<H: Manual>(&self, slot: usize, address: NonNull<u8>) -> Block {
        let mut block = Block::at(address);
        if let Some(shape) = self.shapes.get(slot).filter(|_| H::SIZED) {
            let shape = shape.load(Relaxed);
            (block.size, block.align) =
                ((shape & ((1 << SIZE_BITS) - 1)) as usize, 1 << (shape >> SIZE_BITS));
        }
        if let Some(region) = self.regions.get(slot).filter(|_| H::REGIONS) {
            block.region = Region(region.load(Relaxed));
        }
        block
    }

    /// The count of a live region.
    fn living(&self, region: Region, word: usize) -> Result<&AtomicU32, ReplayError> {
        let alive = self.alive.get(region.0 as usize).filter(|count| count.load(Relaxed) != 0);
        alive.ok_or(ReplayError::Region { word, region: region.0, found: "is not alive".into() })
    }

    /// Adds `change` to the live blocks of `region`.
    #[inline(always)]
    fn count(&self, region: Region, change: i32) {
        if region != Region::MALLOC
            && let Some(count) = self.alive.get(region.0 as usize)
        {
            count.store(count.load(Relaxed).wrapping_add_signed(change), Relaxed);
        }
    }

    /// Begins `region`.
    pub(crate) fn begin<H: Manual>(
        &self,
        heap: &mut H,
        region: Region,
        word: usize,
    ) -> Result<(), ReplayError> {
        if H::REGIONS {
            let entry = self
                .alive
                .get(region.0 as usize)
                .filter(|count| region != Region::MALLOC && count.load(Relaxed) == 0);
            let Some(entry) = entry else {
                return Err(ReplayError::Region {
                    word,
                    region: region.0,
                    found: "begins and is alive already".into(),
                });
            };
            entry.store(1, Relaxed);
        }
        heap.begin_region(region);
        Ok(())
    }

    /// Ends `region`, which must hold exactly the blocks in `members`.
    #[cold]
    pub(crate) fn end<H: Manual>(
        &self,
        heap: &mut H,
        region: Region,
        members: &[u32],
        word: usize,
    ) -> Result<(), ReplayError> {
        let wrong = |found: String| ReplayError::Region { word, region: region.0, found };
        if !H::REGIONS {
            for slot in members {
                let block = self.take::<H>(*slot, word)?;
                // SAFETY: the table holds only live blocks of this heap, and this one has just left
                // it.
                unsafe { heap.deallocate(block) };
            }
            return Ok(());
        }
        let count = self.living(region, word)?;
        for slot in members {
            let block = self.block::<H>(*slot, word)?;
            if block.region != region {
                return Err(wrong(format!(
                    "ends with the block in slot {slot}, which lives in region {}",
                    block.region.0
                )));
            }
            self.take::<H>(*slot, word)?;
        }
        let left = count.load(Relaxed) - 1;
        if left > 0 {
            return Err(wrong(format!(
                "ends and {left} of its live blocks are not among those that die with it"
            )));
        }
        count.store(0, Relaxed);
        // SAFETY: the region is alive, and all of its blocks have left the table.
        unsafe { heap.end_region(region) };
        Ok(())
    }

    /// Frees every block and ends every region. Surviving regions would grow with the next pass.
    pub(crate) fn release<H: Manual>(&self, heap: &mut H) {
        for (slot, entry) in self.addresses.iter().enumerate() {
            if let Some(address) = NonNull::new(entry.swap(null_mut(), Relaxed)) {
                // SAFETY: the table holds only live blocks of this heap, and this one has just left
                // it.
                unsafe { heap.deallocate(self.described::<H>(slot, address)) };
            }
        }
        for (region, count) in (0..).zip(self.alive.iter()) {
            if count.swap(0, Relaxed) != 0 {
                // SAFETY: its blocks have left the table.
                unsafe { heap.end_region(Region(region)) };
            }
        }
    }
}

/// One more than the largest number of a beginning region. A damaged program's number cannot exceed
/// the program's length.
fn regions(program: &Program) -> usize {
    let numbers = program.steps().flatten().filter_map(|(_, step)| match step {
        Step::RegionBirth { region } => Some(region as usize + 1),
        _ => None,
    });
    numbers.max().unwrap_or(0).min(program.words().len())
}
