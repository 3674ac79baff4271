//! bumpalo, part by part.
//!
//! bumpalo shows the used part of each chunk and hides the chunks' sizes. So a heap for walks
//! remembers sizes as it goes: a chunk is the difference between an arena's memory before and after
//! an allocation. It is a heap of its own, which adds nothing to the timed one.

use crate::bump::Bumps;
use bumpalo::Bump;
use heaplab_heap::structure::{Part, Role, sized};
use heaplab_heap::{Block, CheckError, Footprint, Heap, Manual, Region, Request};
use std::ptr::NonNull;

/// [`Bumps`] that can be walked.
#[derive(Debug, Default)]
pub struct WalkedBumps {
    heap: Bumps,
    /// Bytes of each chunk of each region's arena, the oldest first, without bumpalo's footer.
    chunks: Vec<Vec<usize>>,
}

impl WalkedBumps {
    /// Remembers the chunk that an allocation took, if it took one.
    fn remember(&mut self, region: Region) {
        let number = region.0 as usize;
        if self.chunks.len() <= number {
            self.chunks.resize_with(number + 1, Vec::new);
        }
        let chunks = &mut self.chunks[number];
        let before: usize = chunks.iter().sum();
        let more = self.heap.existing(region).map_or(0, Bump::allocated_bytes) - before;
        if more > 0 {
            chunks.push(more);
        }
    }

    fn push_arena(&self, parts: &mut Vec<Part>, region: Region, bump: &Bump) {
        parts.push(Part::group(0, Role::Arena(Some(region)), "arena"));
        let sizes = self.chunks.get(region.0 as usize).map_or(&[][..], Vec::as_slice);
        let behind = bump.allocated_bytes_including_metadata() - bump.allocated_bytes();
        // SAFETY: nothing is allocated in the arena while this code looks at its chunks, and it
        // reads none of their content.
        let chunks = unsafe { bump.iter_allocated_chunks_raw() };
        // bumpalo lists the youngest first.
        for (nth, ((used, bytes), size)) in chunks.zip(sizes.iter().rev()).enumerate() {
            let (used, end) = (used as usize, used as usize + bytes);
            let (start, last) = (end - size, end + behind / sizes.len());
            parts.push(Part::new(1, Role::Chunk, sized("chunk", last - start), start..last));
            // It hands out memory from the end of a chunk to its beginning.
            let rest = if nth == 0 { "(free)" } else { "(left over)" };
            let inner = [
                (Role::Vacant, rest, start..used),
                (Role::Blocks, "blocks", used..end),
                (Role::Vacant, "(footer)", end..last),
            ];
            parts.extend(
                inner
                    .into_iter()
                    .filter(|(.., range)| !range.is_empty())
                    .map(|(role, name, range)| Part::new(2, role, name, range)),
            );
        }
    }
}

impl Manual for WalkedBumps {
    const REGIONS: bool = Bumps::REGIONS;

    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        let block = self.heap.allocate(request);
        self.remember(request.region);
        block
    }

    unsafe fn deallocate(&mut self, block: Block) {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.heap.deallocate(block) };
    }

    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        // SAFETY: the caller's promise, passed on.
        let moved = unsafe { self.heap.reallocate(block, new_size) };
        self.remember(block.region);
        moved
    }

    unsafe fn usable_size(&self, block: Block) -> Option<usize> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.heap.usable_size(block) }
    }

    fn begin_region(&mut self, region: Region) {
        self.heap.begin_region(region);
    }

    unsafe fn end_region(&mut self, region: Region) {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.heap.end_region(region) };
        if let Some(chunks) = self.chunks.get_mut(region.0 as usize) {
            chunks.clear();
        }
    }
}

impl Heap for WalkedBumps {
    fn version(&self) -> String {
        self.heap.version()
    }

    fn footprint(&self) -> Footprint {
        self.heap.footprint()
    }

    fn check(&self) -> Result<(), CheckError> {
        self.heap.check()
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        self.heap.check_deep()
    }

    fn walk(&self) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        self.heap.arenas().for_each(|(region, bump)| self.push_arena(&mut parts, region, bump));
        Some(parts)
    }
}
