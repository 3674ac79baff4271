//! The addresses that glibc's malloc gives to large blocks.
//!
//! Source: glibc 2.36, `malloc/malloc.c` (`_int_malloc`, `sysmalloc`, `_int_free`, `_int_realloc`,
//! `munmap_chunk`, `systrim`); for mappings Linux's rule. A block comes from the smallest large
//! enough free range, else from the top of the program break, else from the system:
//!
//! - a block of the mapping threshold (128 KiB at first) or more is mapped; Linux maps from the top
//!   of a process's addresses downwards, into the highest large enough gap;
//! - unmapping a block raises the threshold to its size (up to 32 MiB), and the threshold for
//!   trimming to twice that;
//! - a smaller block makes the break grow by 128 KiB more than needed; the break lies below all
//!   mappings, and freeing trims it again.
//!
//! Deviation: malloc's reserves for small blocks (fast bins, caches) are left out.

use crate::block::Address;
use crate::facts::PAGE_BYTES;
use std::ops::Range;

/// Smallest block with a mapping of its own, at first (`DEFAULT_MMAP_THRESHOLD_MIN`).
const MAP_BYTES_MIN: usize = 128 << 10;
/// Largest value of this threshold (`DEFAULT_MMAP_THRESHOLD_MAX`).
const MAP_BYTES_MAX: usize = 32 << 20;
/// Bytes at the top from which freeing trims (`DEFAULT_TRIM_THRESHOLD`).
const TRIM_BYTES: usize = 128 << 10;
/// Bytes by which the program break grows in addition, and which a trim keeps (`DEFAULT_TOP_PAD`).
const BREAK_PAD_BYTES: usize = 128 << 10;
/// Freeing a range of this size or more checks the top for a trim
/// (`FASTBIN_CONSOLIDATION_THRESHOLD`).
const TRIM_LOOK_BYTES: usize = 64 << 10;
/// Smallest block (`MINSIZE`).
const BLOCK_BYTES_MIN: usize = 32;
/// Bytes of a block beside the requested ones.
pub(crate) const HEADER_BYTES: usize = 8;

/// A process's addresses, as malloc and the kernel see them.
#[derive(Debug)]
pub(crate) struct Malloc {
    /// Unmapped ranges above the program break, ascending.
    gaps: Vec<Range<Address>>,
    /// Blocks of this many bytes or more are mapped.
    map_bytes: usize,
    trim_bytes: usize,
    /// Free ranges below the top, ascending, none adjacent to another or to the top.
    holes: Vec<Range<Address>>,
    /// From the end of the last block to the program break.
    top: Range<Address>,
}

/// A block: all of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub range: Range<Address>,
    pub mapped: bool,
}

impl Malloc {
    /// A process with the free addresses `range`: the program break grows from its start, mappings
    /// from its end.
    pub(crate) fn new(range: Range<Address>) -> Malloc {
        let middle = range.start + (range.len() / 4).next_multiple_of(PAGE_BYTES);
        Malloc {
            top: range.start..range.start,
            gaps: std::iter::once(middle..range.end).collect(),
            holes: Vec::new(),
            map_bytes: MAP_BYTES_MIN,
            trim_bytes: TRIM_BYTES,
        }
    }

    /// A block for `bytes`; `None`: the addresses are used up.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Option<Block> {
        let size = size_of(bytes);
        if let Some(range) = self.take_free(size) {
            return Some(Block { range, mapped: false });
        }
        if size >= self.map_bytes {
            let range = self.map((size + HEADER_BYTES).next_multiple_of(PAGE_BYTES))?;
            return Some(Block { range, mapped: true });
        }
        self.grow_break(size)?;
        let range = self.take_free(size)?;
        Some(Block { range, mapped: false })
    }

    /// The block is free again.
    pub(crate) fn release(&mut self, block: Block) {
        if block.mapped {
            if block.range.len() > self.map_bytes && block.range.len() <= MAP_BYTES_MAX {
                (self.map_bytes, self.trim_bytes) = (block.range.len(), 2 * block.range.len());
            }
            insert(&mut self.gaps, block.range);
            return;
        }
        let mut freed = insert(&mut self.holes, block.range);
        if self.holes.last().is_some_and(|last| last.end == self.top.start)
            && let Some(last) = self.holes.pop()
        {
            self.top.start = last.start;
            freed = self.top.len();
        }
        if freed >= TRIM_LOOK_BYTES && self.top.len() >= self.trim_bytes {
            let spare = self.top.len().saturating_sub(BLOCK_BYTES_MIN + 1 + BREAK_PAD_BYTES);
            self.top.end -= spare / PAGE_BYTES * PAGE_BYTES;
        }
    }

    /// `realloc`: gives the block room for `bytes`, if necessary elsewhere. If the addresses are
    /// used up, the block stays as it is.
    pub(crate) fn resize(&mut self, block: &mut Block, bytes: usize) {
        let size = size_of(bytes);
        let range = block.range.clone();
        if block.mapped {
            self.resize_mapped(block, (size + HEADER_BYTES).next_multiple_of(PAGE_BYTES));
        } else if range.len() >= size {
            if range.len() - size >= BLOCK_BYTES_MIN {
                block.range.end = range.start + size;
                self.release(Block { range: block.range.end..range.end, mapped: false });
            }
        } else if range.end == self.top.start
            && range.len() + self.top.len() >= size + BLOCK_BYTES_MIN
        {
            block.range.end = range.start + size;
            self.top.start = block.range.end;
        } else if let Some(nth) = self
            .holes
            .iter()
            .position(|hole| hole.start == range.end && range.len() + hole.len() >= size)
        {
            let hole = self.holes.remove(nth);
            block.range.end = hole.end;
            self.resize(block, bytes);
        } else if let Some(other) = self.allocate(bytes) {
            let old = std::mem::replace(block, other);
            self.release(old);
        }
    }

    /// The kernel shortens a mapping at its end, lengthens it if the addresses behind it are free,
    /// and else moves it.
    fn resize_mapped(&mut self, block: &mut Block, size: usize) {
        let range = block.range.clone();
        if size <= range.len() {
            block.range.end = range.start + size;
            if block.range.end < range.end {
                insert(&mut self.gaps, block.range.end..range.end);
            }
            return;
        }
        let behind = self.gaps.iter_mut().find(|gap| gap.start == range.end);
        if let Some(gap) = behind.filter(|gap| range.len() + gap.len() >= size) {
            gap.start = range.start + size;
            block.range.end = gap.start;
        } else if let Some(elsewhere) = self.map(size) {
            insert(&mut self.gaps, range);
            block.range = elsewhere;
        }
        self.gaps.retain(|gap| !gap.is_empty());
    }

    /// Takes from the smallest large enough hole, or from the top.
    fn take_free(&mut self, size: usize) -> Option<Range<Address>> {
        let best = (0..self.holes.len())
            .filter(|nth| self.holes[*nth].len() >= size)
            .min_by_key(|nth| self.holes[*nth].len());
        let Some(nth) = best else {
            let top = Some(&mut self.top).filter(|top| top.len() >= size + BLOCK_BYTES_MIN)?;
            let start = top.start;
            top.start += size;
            return Some(start..top.start);
        };
        let hole = &mut self.holes[nth];
        let start = hole.start;
        if hole.len() - size < BLOCK_BYTES_MIN {
            return Some(self.holes.remove(nth));
        }
        hole.start += size;
        Some(start..start + size)
    }

    fn grow_break(&mut self, size: usize) -> Option<()> {
        let more = (size + BREAK_PAD_BYTES + BLOCK_BYTES_MIN).saturating_sub(self.top.len());
        let end = self.top.end + more.next_multiple_of(PAGE_BYTES);
        if self.gaps.first().is_some_and(|gap| end > gap.start) {
            return None;
        }
        self.top.end = end;
        Some(())
    }

    fn map(&mut self, bytes: usize) -> Option<Range<Address>> {
        let nth = self.gaps.iter().rposition(|gap| gap.len() >= bytes)?;
        let gap = &mut self.gaps[nth];
        gap.end -= bytes;
        let range = gap.end..gap.end + bytes;
        self.gaps.retain(|gap| !gap.is_empty());
        Some(range)
    }
}

/// Bytes of a block for `bytes`.
fn size_of(bytes: usize) -> usize {
    (bytes + HEADER_BYTES).next_multiple_of(16).max(BLOCK_BYTES_MIN)
}

/// Inserts a range into ascending ranges, joined with its neighbours; returns the length of the
/// joined range.
fn insert(ranges: &mut Vec<Range<Address>>, mut range: Range<Address>) -> usize {
    let mut nth = ranges.partition_point(|other| other.start < range.start);
    if nth < ranges.len() && ranges[nth].start == range.end {
        range.end = ranges.remove(nth).end;
    }
    if nth > 0 && ranges[nth - 1].end == range.start {
        nth -= 1;
        range.start = ranges.remove(nth).start;
    }
    let length = range.len();
    ranges.insert(nth, range);
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn malloc() -> Malloc {
        Malloc::new(1 << 30..2 << 30)
    }

    #[test]
    fn mapped_blocks_go_downwards() {
        let mut malloc = malloc();
        let blocks: Vec<_> =
            [1, 2, 3, 1].iter().map(|size| malloc.allocate(size * MIB).unwrap().range).collect();
        assert!(blocks.windows(2).all(|pair| pair[1].end == pair[0].start));
    }

    #[test]
    fn after_a_release_smaller_blocks_come_from_the_break_and_grow_upwards() {
        let mut malloc = malloc();
        let (first, second) =
            (malloc.allocate(4 * MIB).unwrap(), malloc.allocate(8 * MIB).unwrap());
        malloc.release(second);
        let (third, fourth) = (malloc.allocate(MIB).unwrap(), malloc.allocate(2 * MIB).unwrap());
        assert!(third.range.end == fourth.range.start && fourth.range.end < first.range.start);
        assert!(malloc.allocate(9 * MIB).unwrap().mapped, "larger than any that was released");
        malloc.release(third.clone());
        assert_eq!(malloc.allocate(MIB).unwrap(), third, "a hole of the break is used again");
    }

    #[test]
    fn a_block_grows_into_the_top_or_into_a_hole_and_else_moves() {
        let mut malloc = malloc();
        let mut growing = malloc.allocate(32 << 10).unwrap();
        let start = growing.range.start;
        malloc.resize(&mut growing, 64 << 10);
        assert_eq!(growing.range.start, start, "the top is behind it");
        let (behind, last) = (malloc.allocate(100 << 10).unwrap(), malloc.allocate(64).unwrap());
        malloc.release(behind);
        malloc.resize(&mut growing, 100 << 10);
        assert_eq!(growing.range, start..start + (100 << 10) + 16, "a hole is behind it");
        let moved = malloc.allocate(60 << 10).unwrap();
        assert!(moved.range.start == growing.range.end, "the rest of the hole");
        malloc.resize(&mut growing, 120 << 10);
        assert!(growing.range.start >= last.range.end);
        assert_eq!(malloc.allocate(100 << 10).unwrap().range.start, start, "it left a hole");
    }

    #[test]
    fn used_up_addresses_are_no_place() {
        assert_eq!(malloc().allocate(1 << 30), None);
    }
}
