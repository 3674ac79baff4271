//! bumpalo as a heap: one `Bump` an arena, dropped whole; a block that is freed alone stays until
//! then.
//!
//! Chunks come from the process's malloc, as always in bumpalo. A growing block moves, a shrinking
//! one stays.

use bumpalo::Bump;
use heaplab_heap::{Block, CheckError, Footprint, Heap, Manual, Region, Request};
use std::alloc::Layout;
use std::ptr::NonNull;

/// An arena for each region.
#[derive(Debug, Default)]
pub struct Bumps {
    regions: Vec<Option<Bump>>,
}

impl Bumps {
    fn arena(&mut self, region: Region) -> &mut Bump {
        let number = region.0 as usize;
        if self.regions.len() <= number {
            self.regions.resize_with(number + 1, || None);
        }
        self.regions[number].get_or_insert_default()
    }

    /// The arena of a region, if it exists.
    pub(crate) fn existing(&self, region: Region) -> Option<&Bump> {
        self.regions.get(region.0 as usize)?.as_ref()
    }

    /// All arenas with their regions.
    pub(crate) fn arenas(&self) -> impl Iterator<Item = (Region, &Bump)> {
        (0..).zip(&self.regions).filter_map(|(region, bump)| Some((Region(region), bump.as_ref()?)))
    }
}

impl Manual for Bumps {
    const REGIONS: bool = true;

    #[inline]
    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        // A distinct block even for zero bytes.
        let layout = Layout::from_size_align(request.size.max(1), request.required_align()).ok()?;
        let block = self.arena(request.region).try_alloc_layout(layout).ok()?;
        if request.zeroed {
            // SAFETY: the block has this many bytes.
            unsafe { block.as_ptr().write_bytes(0, request.size) };
        }
        Some(block)
    }

    /// The block stays until its arena ends.
    #[inline]
    unsafe fn deallocate(&mut self, _block: Block) {}

    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        if new_size <= block.size && block.is_aligned_for(new_size) {
            return Some(block.address);
        }
        let moved = self.allocate(block.request(new_size))?;
        // SAFETY: both blocks are live, different, and hold that many bytes.
        unsafe { moved.copy_from_nonoverlapping(block.address, block.size.min(new_size)) };
        Some(moved)
    }

    unsafe fn usable_size(&self, _block: Block) -> Option<usize> {
        None
    }

    fn begin_region(&mut self, region: Region) {
        self.arena(region);
    }

    unsafe fn end_region(&mut self, region: Region) {
        if let Some(arena) = self.regions.get_mut(region.0 as usize) {
            *arena = None;
        }
    }
}

impl Heap for Bumps {
    fn version(&self) -> String {
        "bumpalo 3".into()
    }

    fn footprint(&self) -> Footprint {
        let committed = self
            .regions
            .iter()
            .flatten()
            .map(|bump| bump.allocated_bytes_including_metadata() as u64)
            .sum();
        Footprint { committed_bytes: Some(committed), ..Footprint::default() }
    }

    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        Ok(())
    }
}
