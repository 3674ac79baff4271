//! Where malloc puts the chunks of the major heap.
//!
//! The order of chunks by address is the order in which the collector sweeps them and in which
//! next-fit and first-fit search them, so a heap that is to decide as the runtime decides has to
//! place chunks as the runtime's malloc does. OCaml 4 takes its chunks from malloc (`memory.c`,
//! `caml_alloc_for_heap`); this is glibc's rule for blocks of that size (glibc 2.36,
//! `malloc/malloc.c`: `sysmalloc`, `munmap_chunk`, `systrim`; Linux's `mmap` for the rest):
//!
//! - a block of the mapping threshold (128 KiB at first) or more is mapped, and Linux maps from the
//!   top of a process's addresses downwards, into the highest gap that is large enough: **each new
//!   chunk lies below all others**, until some are unmapped;
//! - unmapping a block raises the threshold to its size (up to 32 MiB). Smaller blocks then come
//!   from the program break, which lies below all mappings and grows upwards; freed space there is
//!   used again, best fit first.
//!
//! Deviation: what else the runtime takes from malloc (mark stack, page table, remembered set) is
//! left out. Before the first compaction that gives chunks back that changes nothing. After it
//! those blocks share the program break with chunks, so that a hole may be too small in the runtime
//! and large enough here: chunks then lie in another order, and what follows differs. Smallest
//! workload known: `against_ocaml tides 200000 8000 3 next-fit,i=61440,O=30,s=4k,o=40`.

use crate::block::Address;
use crate::facts::PAGE_BYTES;
use std::ops::Range;

/// Threshold for mapping a block of its own (`DEFAULT_MMAP_THRESHOLD_MIN`).
const MAP_BYTES_MIN: usize = 128 << 10;
/// It is never raised above this (`DEFAULT_MMAP_THRESHOLD_MAX`).
const MAP_BYTES_MAX: usize = 32 << 20;
/// What the program break is moved by in addition (`DEFAULT_TOP_PAD`).
const BREAK_PAD_BYTES: usize = 128 << 10;
/// A freed block of this size or more has the end of the program break looked at
/// (`FASTBIN_CONSOLIDATION_THRESHOLD`).
const TRIM_LOOK_BYTES: usize = 64 << 10;
/// Bytes that a chunk needs beside its words: malloc's header, the runtime's header, alignment to a
/// page.
const CHUNK_EXTRA_BYTES: usize = 16 + 48 + PAGE_BYTES;

/// A process's addresses, as malloc and the kernel see them.
#[derive(Debug)]
pub(crate) struct Placement {
    /// Unmapped ranges above the program break, ascending.
    gaps: Vec<Range<Address>>,
    /// A block of so many bytes or more is mapped.
    map_bytes: usize,
    /// Free ranges below the end of the program break's blocks, ascending, none adjacent to another
    /// or to `top`.
    holes: Vec<Range<Address>>,
    /// From the end of the last block to the program break.
    top: Range<Address>,
}

/// A block of malloc's and the chunk in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// All of its addresses.
    block: Range<Address>,
    mapped: bool,
    /// The chunk's words, on whole pages.
    pub words: Range<Address>,
}

impl Placement {
    /// The addresses `range`, all free: the program break grows from its start, mappings from its
    /// end.
    pub(crate) fn new(range: Range<Address>) -> Placement {
        let middle = range.start + (range.len() / 4).next_multiple_of(PAGE_BYTES);
        let mut gaps = Vec::new();
        insert(&mut gaps, middle..range.end);
        Placement {
            top: range.start..range.start,
            gaps,
            holes: Vec::new(),
            map_bytes: MAP_BYTES_MIN,
        }
    }

    /// Where a chunk of `bytes` goes; nothing where the addresses are used up.
    pub(crate) fn place(&mut self, bytes: usize) -> Option<Place> {
        let block = (bytes + CHUNK_EXTRA_BYTES).next_multiple_of(16);
        let place = if let Some(at) = self.take_hole(block) {
            Place { block: at..at + block, mapped: false, words: 0..0 }
        } else if block >= self.map_bytes {
            let range = self.map(block.next_multiple_of(PAGE_BYTES))?;
            Place { block: range, mapped: true, words: 0..0 }
        } else {
            let at = self.grow_break(block)?;
            Place { block: at..at + block, mapped: false, words: 0..0 }
        };
        // The runtime's header of 48 bytes ends where a page begins.
        let start = (place.block.start + 16 + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES;
        Some(Place { words: start..start + bytes, ..place })
    }

    /// The chunk's block is free again.
    pub(crate) fn release(&mut self, place: &Place) {
        let range = place.block.clone();
        if place.mapped {
            if range.len() > self.map_bytes && range.len() <= MAP_BYTES_MAX {
                self.map_bytes = range.len();
            }
            insert(&mut self.gaps, range);
            return;
        }
        let freed = range.len();
        insert(&mut self.holes, range);
        if self.holes.last().is_some_and(|last| last.end == self.top.start)
            && let Some(last) = self.holes.pop()
        {
            self.top.start = last.start;
        }
        if freed >= TRIM_LOOK_BYTES && self.top.len() >= 2 * self.map_bytes {
            let kept = BREAK_PAD_BYTES + PAGE_BYTES;
            self.top.end = (self.top.start + kept).next_multiple_of(PAGE_BYTES).min(self.top.end);
        }
    }

    /// From a hole, the smallest that is large enough, or from the top.
    fn take_hole(&mut self, bytes: usize) -> Option<Address> {
        let best = (0..self.holes.len())
            .filter(|nth| self.holes[*nth].len() >= bytes)
            .min_by_key(|nth| self.holes[*nth].len());
        let range = match best {
            Some(nth) => &mut self.holes[nth],
            None => Some(&mut self.top).filter(|top| top.len() > bytes)?,
        };
        let at = range.start;
        range.start += bytes;
        self.holes.retain(|hole| !hole.is_empty());
        Some(at)
    }

    fn grow_break(&mut self, bytes: usize) -> Option<Address> {
        let end = (self.top.start + bytes + BREAK_PAD_BYTES).next_multiple_of(PAGE_BYTES);
        if self.gaps.first().is_some_and(|gap| end > gap.start) {
            return None;
        }
        self.top.end = self.top.end.max(end);
        let at = self.top.start;
        self.top.start += bytes;
        Some(at)
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

/// Inserts a range into ascending ranges, joined with its neighbours.
fn insert(ranges: &mut Vec<Range<Address>>, mut range: Range<Address>) {
    let mut nth = ranges.partition_point(|other| other.start < range.start);
    if nth < ranges.len() && ranges[nth].start == range.end {
        range.end = ranges.remove(nth).end;
    }
    if nth > 0 && ranges[nth - 1].end == range.start {
        nth -= 1;
        range.start = ranges.remove(nth).start;
    }
    ranges.insert(nth, range);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn placement() -> Placement {
        Placement::new(1 << 30..2 << 30)
    }

    #[test]
    fn each_new_chunk_lies_below_the_others_on_whole_pages() {
        let mut placement = placement();
        let places: Vec<_> =
            [1, 2, 3, 1].iter().map(|size| placement.place(size * MIB).unwrap()).collect();
        assert!(places.windows(2).all(|pair| pair[1].words.end < pair[0].words.start));
        assert!(places.iter().all(|place| place.words.start.is_multiple_of(PAGE_BYTES)
            && place.block.end >= place.words.end));
        assert!(places.iter().all(|place| place.words.start - place.block.start >= 64));
    }

    #[test]
    fn after_a_release_smaller_chunks_come_from_the_break_and_grow_upwards() {
        let mut placement = placement();
        let (first, second) =
            (placement.place(4 * MIB).unwrap(), placement.place(8 * MIB).unwrap());
        placement.release(&second);
        let (third, fourth) = (placement.place(MIB).unwrap(), placement.place(2 * MIB).unwrap());
        assert!(third.words.end < fourth.words.start && fourth.words.end < first.words.start);
        assert!(placement.place(9 * MIB).unwrap().mapped, "larger than any that was released");
        placement.release(&third);
        assert_eq!(placement.place(MIB).unwrap(), third, "a hole of the break is used again");
    }

    #[test]
    fn used_up_addresses_are_no_place() {
        assert_eq!(placement().place(1 << 30), None);
    }
}
