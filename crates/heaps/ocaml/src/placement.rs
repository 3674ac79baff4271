//! The addresses of the major heap's chunks.
//!
//! The collector sweeps chunks in address order, and next-fit and first-fit search them in this
//! order. So a heap with the runtime's decisions must place chunks as the runtime does. OCaml 4
//! takes chunks from malloc ([`crate::malloc`]; `memory.c`, `caml_alloc_for_heap`). As long as
//! every chunk is mapped, each new one lies below all others. Once chunks were freed, they share
//! the program break with the runtime's other blocks, and these decide how large holes are:
//!
//! - the page table (`memory.c`, `caml_page_table_initialize`, `caml_page_table_modify`): two
//!   entries for each page of both first heaps, rounded up to a power of two; doubled when half of
//!   them are taken; a page that was ever the heap's keeps its entry;
//! - the mark stack, which grows and is cut to its first size at each compaction;
//! - the remembered set, from the first store on;
//! - the blocks that the program around the workload needs at its start.
//!
//! Deviation: blocks of less than 60 bytes that live for one overflow of the mark stack are left
//! out.

use crate::block::Address;
use crate::facts::{
    MARK_ENTRY_WORDS, MARK_STACK_ENTRIES, PAGE_BYTES, REMEMBERED_PART, REMEMBERED_RESERVE,
    WORD_BYTES,
};
use crate::malloc::{Block, HEADER_BYTES, Malloc};
use crate::strategy::Strategy;
use std::ops::Range;

/// Bytes from the start of a block to malloc's result.
const BLOCK_HEADER_BYTES: usize = 16;
/// Requests of the driver of `ocamlrt`, as observed (4.13.1): between the first chunk and the mark
/// stack, after it, and after the program's static data.
const STACK_OWNER_BYTES: usize = 24;
const ATOMS_BYTES: usize = 2 * PAGE_BYTES;
const START_BYTES: [usize; 6] = [40, 24, 24, 40, 24, 24];
const LAST_START_BYTES: [usize; 3] = [24, 256, 24];
/// Pages of the program's static data.
const STATIC_PAGES: usize = 3;

/// A process's addresses.
#[derive(Debug)]
pub(crate) struct Placement {
    malloc: Malloc,
    pages: PageTable,
    mark_stack: Option<Block>,
    strategy: &'static Strategy,
}

/// A chunk and its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    block: Block,
    /// The chunk's words, on whole pages.
    pub words: Range<Address>,
}

/// The runtime's table of pages.
#[derive(Debug)]
struct PageTable {
    block: Option<Block>,
    entries: usize,
    taken: usize,
    /// Pages with an entry, ascending.
    known: Vec<Range<usize>>,
}

impl Placement {
    /// The free addresses `range` for a runtime with these first heaps; the first chunk comes next.
    pub(crate) fn new(
        range: Range<Address>,
        minor_bytes: usize,
        first_bytes: usize,
        strategy: &'static Strategy,
    ) -> Placement {
        let mut malloc = Malloc::new(range);
        malloc.allocate(strategy.before_bytes - HEADER_BYTES);
        let pages = (minor_bytes + first_bytes) / PAGE_BYTES;
        let entries = (2 * pages).next_power_of_two();
        let block = malloc.allocate(entries * WORD_BYTES);
        malloc.allocate(minor_bytes + PAGE_BYTES);
        let taken = minor_bytes / PAGE_BYTES;
        let pages = PageTable { block, entries, taken, known: Vec::new() };
        Placement { malloc, pages, mark_stack: None, strategy }
    }

    /// Allocates the rest of the runtime's start, after the first chunk.
    pub(crate) fn begin(&mut self, signal_stack_bytes: usize) {
        self.malloc.allocate(STACK_OWNER_BYTES);
        self.mark_stack = self.malloc.allocate(MARK_STACK_ENTRIES * MARK_ENTRY_WORDS * WORD_BYTES);
        self.malloc.allocate(ATOMS_BYTES);
        // Static data lies outside of all chunks.
        self.pages.add(0..STATIC_PAGES, &mut self.malloc);
        let signals = self.strategy.allocates_signal_stack.then_some(signal_stack_bytes);
        for bytes in START_BYTES.into_iter().chain(signals).chain(LAST_START_BYTES) {
            self.malloc.allocate(bytes);
        }
    }

    /// Allocates the remembered set, at the first store of a young object.
    pub(crate) fn begin_remembered(&mut self, minor_words: usize) {
        let entries = minor_words / REMEMBERED_PART + REMEMBERED_RESERVE;
        self.malloc.allocate(entries * WORD_BYTES);
    }

    /// The place of a new chunk of `bytes`; `None`: the addresses are used up.
    pub(crate) fn place(&mut self, bytes: usize) -> Option<Place> {
        // The runtime's header ends at the start of a page.
        let header_bytes = self.strategy.chunk_header_bytes;
        let block = self.malloc.allocate(bytes + header_bytes + PAGE_BYTES)?;
        let given = block.range.start + BLOCK_HEADER_BYTES + header_bytes;
        let start = (given + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES;
        Some(Place { block, words: start..start + bytes })
    }

    /// Enters the pages of a chunk that joins the heap.
    pub(crate) fn chained(&mut self, place: &Place) {
        let pages = place.words.start / PAGE_BYTES..place.words.end / PAGE_BYTES;
        self.pages.add(pages, &mut self.malloc);
    }

    /// Frees the chunk's block.
    pub(crate) fn release(&mut self, place: &Place) {
        // The chunk's pages keep their entries; the runtime still looks into the table.
        self.chained(place);
        self.malloc.release(place.block.clone());
    }

    /// Resizes the mark stack to `entries` entries.
    pub(crate) fn resize_mark_stack(&mut self, entries: usize) {
        if let Some(block) = &mut self.mark_stack {
            self.malloc.resize(block, entries * MARK_ENTRY_WORDS * WORD_BYTES);
        }
    }
}

impl PageTable {
    /// Enters pages one by one; checks the table's size before each.
    fn add(&mut self, pages: Range<usize>, malloc: &mut Malloc) {
        let mut page = pages.start;
        while page < pages.end {
            if 2 * self.taken >= self.entries {
                self.entries *= 2;
                let larger = malloc.allocate(self.entries * WORD_BYTES);
                if let Some(old) = std::mem::replace(&mut self.block, larger) {
                    malloc.release(old);
                }
            }
            // Enters at once as many as have no entry and leave the table's size alone.
            let nth = self.known.partition_point(|range| range.end <= page);
            match self.known.get(nth) {
                Some(range) if range.start <= page => page = range.end.min(pages.end),
                after => {
                    let end = after.map_or(pages.end, |range| range.start.min(pages.end));
                    let room = self.entries.div_ceil(2) - self.taken;
                    let end = end.min(page + room);
                    self.taken += end - page;
                    self.known.insert(nth, page..end);
                    page = end;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::SIGNAL_STACK_BYTES;
    use crate::strategy::Version;

    const MIB: usize = 1 << 20;

    fn placement() -> Placement {
        placement_of(Version::V4_13)
    }

    fn placement_of(version: Version) -> Placement {
        Placement::new(1 << 30..2 << 30, 32 << 10, 248 * PAGE_BYTES, version.strategy())
    }

    #[test]
    fn each_new_chunk_lies_below_the_others_on_whole_pages() {
        let mut placement = placement();
        let places: Vec<_> =
            [1, 2, 3, 1].iter().map(|size| placement.place(size * MIB).unwrap()).collect();
        assert!(places.windows(2).all(|pair| pair[1].words.end < pair[0].words.start));
        assert!(places.iter().all(|place| place.words.start.is_multiple_of(PAGE_BYTES)
            && place.block.range.end >= place.words.end));
        assert!(places.iter().all(|place| place.words.start - place.block.range.start >= 64));
    }

    /// Expects the calls of malloc that the driver was seen to make with `s=4k,h=124k`.
    #[test]
    fn the_runtime_begins_as_it_was_seen_to() {
        for (version, mark_stack, pages, next) in [
            (Version::V4_12, 0xa730, 0x1_4750, 0x1_7f70),
            (Version::V4_13, 0xa830, 0x1_4850, 0x1_b540),
            (Version::V4_14, 0xaa30, 0x1_4a50, 0x1_b740),
            (Version::V4_14_2, 0xaa30, 0x1_4a50, 0x1_b740),
        ] {
            let mut placement = placement_of(version);
            let first = placement.place(248 * PAGE_BYTES).unwrap();
            placement.chained(&first);
            placement.begin(SIGNAL_STACK_BYTES);
            placement.begin_remembered(4096);
            let at = |block: &Option<Block>| block.as_ref().unwrap().range.start - (1 << 30);
            assert_eq!(at(&placement.mark_stack), mark_stack, "{version:?}");
            assert_eq!((placement.pages.entries, at(&placement.pages.block)), (1024, pages));
            let block = placement.malloc.allocate(16_384).unwrap();
            assert_eq!(block.range.start - (1 << 30), next, "{version:?}");
        }
    }

    #[test]
    fn the_page_table_counts_a_page_once() {
        let mut placement = placement();
        let place = placement.place(100 * PAGE_BYTES).unwrap();
        placement.chained(&place);
        placement.chained(&place);
        assert_eq!((placement.pages.entries, placement.pages.taken), (512, 108));
        let other = placement.place(1000 * PAGE_BYTES).unwrap();
        placement.chained(&other);
        assert_eq!((placement.pages.entries, placement.pages.taken), (4096, 1108));
    }
}
