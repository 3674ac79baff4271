//! bumpalo as a heap: one `Bump` an arena, dropped whole; a block that is freed alone stays until then.
//!
//! Chunks come from the process's malloc, as bumpalo takes them. A reallocation always moves: bumpalo could grow its last
//! block in place, but only with the old size, which the contract does not give it.

use bumpalo::Bump;
use heaplab_heap::{Allocating, CheckError, Footprint, Region, Request};
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

    /// The arena of a region, where there is one.
    pub(crate) fn existing(&self, region: Region) -> Option<&Bump> {
        self.regions.get(region.0 as usize)?.as_ref()
    }

    /// All arenas with their regions.
    pub(crate) fn arenas(&self) -> impl Iterator<Item = (Region, &Bump)> {
        (0..).zip(&self.regions).filter_map(|(region, bump)| Some((Region(region), bump.as_ref()?)))
    }

    /// The end of the chunk that `block` lies in. Blocks above it in the chunk are older ones.
    fn chunk_end(bump: &Bump, block: NonNull<u8>) -> Option<usize> {
        // SAFETY: nothing is allocated in the arena while its chunks are looked at.
        let chunks = unsafe { bump.iter_allocated_chunks_raw() };
        let address = block.as_ptr() as usize;
        let mut ranges = chunks.map(|(start, bytes)| start as usize..start as usize + bytes);
        ranges.find(|range| range.contains(&address)).map(|range| range.end)
    }
}

impl Allocating for Bumps {
    const REGIONS: bool = true;

    #[inline]
    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        // A block of its own even where nothing is asked for.
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
    unsafe fn deallocate(&mut self, _block: NonNull<u8>) {}

    unsafe fn reallocate(&mut self, block: NonNull<u8>, request: Request) -> Option<NonNull<u8>> {
        let end = Self::chunk_end(self.arena(request.region), block)?;
        let moved = self.allocate(Request { zeroed: false, ..request })?;
        // What follows the old block within its chunk is copied along; nobody looks at it.
        let bytes = request.size.min(end - block.as_ptr() as usize);
        // SAFETY: the bytes lie in one allocated chunk and in the new block, which is another one.
        unsafe { moved.as_ptr().cast::<std::mem::MaybeUninit<u8>>().copy_from_nonoverlapping(block.as_ptr().cast(), bytes) };
        Some(moved)
    }

    unsafe fn usable_size(&self, _block: NonNull<u8>) -> Option<usize> {
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

    fn footprint(&self) -> Footprint {
        let committed = self.regions.iter().flatten().map(|bump| bump.allocated_bytes_including_metadata() as u64).sum();
        Footprint { committed_bytes: Some(committed), ..Footprint::default() }
    }

    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        Ok(())
    }
}
