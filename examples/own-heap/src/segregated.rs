//! Segregated fit with powers of two, as in Knuth's exercise 2.5-33 and many first allocators
//! since: one free list a class, blocks never split and never merged. Simple and quick, and it
//! wastes a quarter of its memory by rounding: a good heap to try a replay on.
//!
//! Blocks above 64 KiB are mappings of their own. Every block has a header of 16 bytes directly
//! before it.

use heaplab_heap::{Block, CheckError, Footprint, Heap, Manual, Request};
use std::ptr::{NonNull, null_mut};

const HEADER_BYTES: usize = 16;
const SMALLEST_LOG2: u32 = 5;
const LARGEST_LOG2: u32 = 16;
const CLASSES: usize = (LARGEST_LOG2 - SMALLEST_LOG2 + 1) as usize;
/// The class number of mappings.
const MAPPED: u32 = u32::MAX;
const CHUNK_BYTES: usize = 1 << 20;

/// What stands before a block.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    /// Bytes of the cell or mapping, which begins `back` bytes before the block; its class follows
    /// from it.
    cell_bytes: usize,
    class: u32,
    back: u32,
}

/// What stands in a free cell.
#[repr(C)]
struct Free {
    next: *mut Free,
}

/// The heap.
pub struct Segregated {
    free: [*mut Free; CLASSES],
    free_bytes: usize,
    /// The rest of the newest chunk.
    fresh: *mut u8,
    fresh_bytes: usize,
    committed_bytes: usize,
    /// Bytes of cells and mappings that hold a live block.
    live_bytes: usize,
}

impl Default for Segregated {
    fn default() -> Self {
        let free = [null_mut(); CLASSES];
        Segregated {
            free,
            free_bytes: 0,
            fresh: null_mut(),
            fresh_bytes: 0,
            committed_bytes: 0,
            live_bytes: 0,
        }
    }
}

fn map(bytes: usize) -> Option<*mut u8> {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping; the result is checked.
    let start = unsafe { libc::mmap(null_mut(), bytes, access, flags, -1, 0) };
    (start != libc::MAP_FAILED).then_some(start.cast())
}

impl Segregated {
    /// A cell that holds `bytes`: where it begins, its bytes, its class.
    fn cell(&mut self, bytes: usize) -> Option<(*mut u8, usize, u32)> {
        if bytes > 1 << LARGEST_LOG2 {
            let bytes = bytes.checked_next_multiple_of(4096)?;
            let start = map(bytes)?;
            self.committed_bytes += bytes;
            return Some((start, bytes, MAPPED));
        }
        let log2 = bytes.next_power_of_two().trailing_zeros().max(SMALLEST_LOG2);
        let (class, bytes) = (log2 - SMALLEST_LOG2, 1 << log2);
        let head = self.free[class as usize];
        if !head.is_null() {
            // SAFETY: the list holds free cells of this class, each of which begins with its link.
            self.free[class as usize] = unsafe { (*head).next };
            self.free_bytes -= bytes;
            return Some((head.cast(), bytes, class));
        }
        if self.fresh_bytes < bytes {
            // The rest of the chunk, less than a cell of this class, is cut into smaller cells, so
            // that nothing is lost.
            self.cut_rest();
            self.fresh = map(CHUNK_BYTES)?;
            (self.fresh_bytes, self.committed_bytes) =
                (CHUNK_BYTES, self.committed_bytes + CHUNK_BYTES);
        }
        let start = self.fresh;
        // SAFETY: the chunk has this many bytes left.
        self.fresh = unsafe { start.add(bytes) };
        self.fresh_bytes -= bytes;
        Some((start, bytes, class))
    }

    fn cut_rest(&mut self) {
        while self.fresh_bytes >= 1 << SMALLEST_LOG2 {
            let log2 = self.fresh_bytes.ilog2().min(LARGEST_LOG2);
            let start = self.fresh;
            // SAFETY: the chunk has this many bytes left.
            self.fresh = unsafe { start.add(1 << log2) };
            self.fresh_bytes -= 1 << log2;
            self.give_back(start, 1 << log2, log2 - SMALLEST_LOG2);
        }
    }

    fn give_back(&mut self, start: *mut u8, bytes: usize, class: u32) {
        let cell = start.cast::<Free>();
        // SAFETY: the cell is free, larger than a link and aligned to 16 bytes.
        unsafe { cell.write(Free { next: self.free[class as usize] }) };
        self.free[class as usize] = cell;
        self.free_bytes += bytes;
    }

    /// # Safety
    /// `block` is live and from this heap.
    unsafe fn header(block: NonNull<u8>) -> Header {
        // SAFETY: `allocate` wrote it directly before the block, which is aligned to 16 bytes.
        unsafe { block.as_ptr().sub(HEADER_BYTES).cast::<Header>().read() }
    }
}

impl Manual for Segregated {
    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        let align = request.align.max(HEADER_BYTES);
        let padding = if align > HEADER_BYTES { align } else { 0 };
        let bytes = request.size.checked_add(HEADER_BYTES + padding)?;
        let (start, cell_bytes, class) = self.cell(bytes)?;
        let back = (start as usize + HEADER_BYTES).next_multiple_of(align) - start as usize;
        // SAFETY: the cell holds the padding, the header and the block, and the header's place is
        // aligned to 16 bytes.
        let block = unsafe {
            let block = start.add(back);
            block.sub(HEADER_BYTES).cast::<Header>().write(Header {
                cell_bytes,
                class,
                back: back as u32,
            });
            if request.zeroed && class != MAPPED {
                block.write_bytes(0, request.size);
            }
            NonNull::new_unchecked(block)
        };
        self.live_bytes += cell_bytes;
        Some(block)
    }

    unsafe fn deallocate(&mut self, block: Block) {
        // SAFETY: the caller's promise.
        let Header { cell_bytes, class, back } = unsafe { Self::header(block.address) };
        // SAFETY: the cell begins this many bytes before the block.
        let start = unsafe { block.address.as_ptr().sub(back as usize) };
        self.live_bytes -= cell_bytes;
        if class == MAPPED {
            // SAFETY: the mapping is this block's alone.
            unsafe { libc::munmap(start.cast(), cell_bytes) };
            self.committed_bytes -= cell_bytes;
        } else {
            self.give_back(start, cell_bytes, class);
        }
    }

    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        // SAFETY: the caller's promise.
        let Header { cell_bytes, back, .. } = unsafe { Self::header(block.address) };
        let usable = cell_bytes - back as usize;
        if block.is_aligned_for(new_size) && new_size <= usable && new_size >= usable / 4 {
            return Some(block.address);
        }
        let moved = self.allocate(block.request(new_size))?;
        // SAFETY: both blocks are live, different, and hold the smaller of both sizes.
        unsafe { moved.copy_from_nonoverlapping(block.address, block.size.min(new_size)) };
        // SAFETY: the caller's promise; the content has moved.
        unsafe { self.deallocate(block) };
        Some(moved)
    }

    unsafe fn usable_size(&self, block: Block) -> Option<usize> {
        // SAFETY: the caller's promise.
        let Header { cell_bytes, back, .. } = unsafe { Self::header(block.address) };
        Some(cell_bytes - back as usize)
    }
}

impl Heap for Segregated {
    fn version(&self) -> String {
        "segregated 1".into()
    }

    fn footprint(&self) -> Footprint {
        Footprint {
            used_bytes: Some(self.live_bytes as u64),
            free_reusable_bytes: Some((self.free_bytes + self.fresh_bytes) as u64),
            committed_bytes: Some(self.committed_bytes as u64),
            ..Footprint::default()
        }
    }

    /// Every committed byte is in a live cell, in a free one, or not yet cut.
    fn check(&self) -> Result<(), CheckError> {
        let known = self.live_bytes + self.free_bytes + self.fresh_bytes;
        if known == self.committed_bytes {
            return Ok(());
        }
        let (expected, found) =
            (format!("{} bytes", self.committed_bytes), format!("{known} bytes"));
        Err(CheckError { place: "live, free and fresh".into(), expected, found })
    }

    /// The free lists hold as many bytes as were counted.
    fn check_deep(&self) -> Result<(), CheckError> {
        self.check()?;
        let mut listed = 0;
        for (class, head) in self.free.iter().enumerate() {
            let mut cell = *head;
            while !cell.is_null() && listed <= self.free_bytes {
                listed += 1 << (class as u32 + SMALLEST_LOG2);
                // SAFETY: the list holds free cells, each of which begins with its link.
                cell = unsafe { (*cell).next };
            }
        }
        if listed == self.free_bytes {
            return Ok(());
        }
        let (expected, found) = (format!("{} bytes", self.free_bytes), format!("{listed} bytes"));
        Err(CheckError { place: "free lists".into(), expected, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_heap::conformance::{drive, operations, pseudo_random};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_conforms(list in operations(150)) {
            drive(Segregated::default(), &list).unwrap();
        }
    }

    #[test]
    fn a_long_list_is_served_and_its_memory_used_again() {
        let driven = drive(Segregated::default(), &pseudo_random(3, 4_000)).unwrap();
        assert_eq!(driven.refused, 0);
    }

    #[test]
    fn the_checks_see_damage() {
        let mut heap = Segregated::default();
        let request = Request::of(100);
        let block = heap.allocate(request).unwrap();
        // SAFETY: the block is live.
        unsafe { heap.deallocate(Block::new(block, request)) };
        heap.check_deep().unwrap();
        heap.free[2] = null_mut();
        assert_eq!(heap.check_deep().unwrap_err().place, "free lists");
        heap.live_bytes += 1;
        assert_eq!(heap.check().unwrap_err().place, "live, free and fresh");
    }
}
