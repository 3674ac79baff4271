//! Marking in 4.12 and 4.13: a stack of blocks that are coloured and not yet scanned.
//!
//! Source: `major_gc.c` (`caml_darken`, `mark_stack_push`, `mark_slice`, `mark_stack_prune`,
//! `redarken_chunk`). A slice pays a word for each field and each header. Before marking pushes a
//! block, it looks at the first eight fields, so small blocks without references never get on the
//! stack. A stack that may not grow (it may take a 64th of the heap) is emptied: each chunk keeps
//! the range of its blocks that were on the stack, to be scanned again when the stack is empty.
//!
//! Deviation: the workload's blocks hold immediate values only. Marking counts their fields and
//! does not read them, because the driver may write anything there. It reads the array of slots and
//! the program's arguments.

use crate::block::{
    Address, BLACK, NULL, WHITE, colour_of, field, fields_at, fields_of, header_at, is_block,
    is_scanned, load,
};
use crate::block::{set_header, words_of};
use crate::facts::{
    MARK_AHEAD_FIELDS, MARK_ENTRY_WORDS, MARK_STACK_ENTRIES, MARK_STACK_HEAP_PART, WORD_BYTES,
};
use crate::heap::OCaml;
use crate::strategy::Marking;
use heaplab_heap::prefetch;

/// Distance in fields at which marking prefetches the headers of blocks in the array of slots. The
/// runtime waits for each.
const MARK_PREFETCH_FIELDS: usize = 16;

/// A block, and its first field not yet scanned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub block: Address,
    pub from: usize,
}

/// The mark stack and a cycle's counts.
#[derive(Debug)]
pub(crate) struct Marker {
    pub stack: Vec<Entry>,
    /// Entries that fit before the stack must grow or is pruned.
    pub capacity: usize,
    /// The first chunk with blocks to scan again; null: none.
    pub redarken: Address,
    /// Words marked in this cycle, in the runtime's wrapping arithmetic.
    pub words: usize,
    /// Number of times that the stack was pruned.
    pub overflows: u64,
}

impl Marker {
    pub(crate) fn new() -> Marker {
        Marker {
            stack: Vec::new(),
            capacity: MARK_STACK_ENTRIES,
            redarken: NULL,
            words: 0,
            overflows: 0,
        }
    }

    /// Gives the stack its first size again after a compaction.
    pub(crate) fn shrink(&mut self) {
        debug_assert!(self.stack.is_empty());
        self.capacity = MARK_STACK_ENTRIES;
        self.stack = Vec::new();
    }

    /// Whether nothing is left to scan.
    pub(crate) fn is_idle(&self) -> bool {
        self.stack.is_empty() && self.redarken == NULL
    }
}

impl OCaml {
    /// Marks a block outside of a slice: a root, or a block whose slot is overwritten.
    #[inline]
    pub(crate) fn darken(&mut self, block: Address) {
        let header = header_at(block);
        if colour_of(header) == WHITE {
            set_header(block, header | BLACK);
            self.marker.words = self.marker.words.wrapping_add(words_of(header));
            if is_scanned(header) {
                let mut free = 0;
                self.push(block, 0, &mut free);
            }
        }
    }

    /// Marks the block that a field refers to, and pays for the part that needs no scan.
    #[inline(always)]
    fn darken_field(&mut self, block: Address, work: &mut i64) {
        let header = header_at(block);
        if colour_of(header) != WHITE {
            return;
        }
        set_header(block, header | BLACK);
        if is_scanned(header) {
            self.push(block, 0, work);
        } else {
            *work -= if self.strategy.charges_unscanned { words_of(header) as i64 } else { 1 };
        }
    }

    /// Whether a block's fields are read: only the program's own are.
    #[inline(always)]
    pub(crate) fn is_program(&self, block: Address) -> bool {
        block == self.program.slots || block == self.program.arguments
    }

    /// Whether a word refers to a block of the major heap.
    #[inline(always)]
    pub(crate) fn is_major(&self, word: usize) -> bool {
        is_block(word) && !self.minor.has(word)
    }

    /// The first field from `from` on that may need marking. Stops at the block's end or at the
    /// eighth field.
    #[inline(always)]
    fn skip(&self, block: Address, from: usize, fields: usize) -> usize {
        let end = fields.min(MARK_AHEAD_FIELDS);
        if !self.is_program(block) {
            return from.max(end);
        }
        let mut nth = from;
        while nth < end {
            let word = load(field(block, nth));
            if is_block(word) && !self.minor.has(word) {
                break;
            }
            nth += 1;
        }
        nth
    }

    /// Pushes a block, unless it has only first fields that need no marking; pays for the skipped
    /// fields.
    #[inline(always)]
    fn push(&mut self, block: Address, from: usize, work: &mut i64) {
        let fields = fields_at(block);
        let to = self.skip(block, from, fields);
        if to == fields {
            *work -= (fields - from + 1) as i64;
            return;
        }
        *work -= (to - from) as i64;
        if self.marker.stack.len() == self.marker.capacity {
            self.grow_mark_stack();
        }
        self.marker.stack.push(Entry { block, from: to });
    }

    /// Doubles the stack, or empties it if it would take too much.
    #[cold]
    pub(crate) fn grow_mark_stack(&mut self) {
        if self.marker.capacity * MARK_ENTRY_WORDS < self.chunks.words / MARK_STACK_HEAP_PART {
            self.marker.capacity *= 2;
            self.chunks.placement.resize_mark_stack(self.marker.capacity);
            return;
        }
        self.marker.overflows += 1;
        for entry in std::mem::take(&mut self.marker.stack) {
            if let Some(nth) = self.chunks.find(entry.block) {
                let chunk = &mut self.chunks.chain[nth];
                let first = (chunk.redarken.0, chunk.redarken_from).min((entry.block, entry.from));
                chunk.redarken = (first.0, chunk.redarken.1.max(entry.block));
                chunk.redarken_from = first.1;
                if self.marker.redarken == NULL || self.marker.redarken > chunk.start {
                    self.marker.redarken = chunk.start;
                }
            }
        }
    }

    /// Pushes the forgotten blocks of the first chunk that has any, while the stack is less than a
    /// quarter full.
    fn redarken(&mut self) {
        let Some(nth) =
            self.chunks.chain.iter().position(|chunk| chunk.start == self.marker.redarken)
        else {
            self.marker.redarken = NULL;
            return;
        };
        let (mut block, last) = self.chunks.chain[nth].redarken;
        while block <= last {
            let header = header_at(block);
            if colour_of(header) == BLACK && is_scanned(header) {
                if self.marker.stack.len() >= self.marker.capacity / 4 {
                    self.chunks.chain[nth].redarken.0 = block;
                    return;
                }
                let mut free = 0;
                self.push(block, 0, &mut free);
            }
            block += words_of(header) * WORD_BYTES;
        }
        self.chunks.chain[nth].redarken = (self.chunks.chain[nth].end, NULL);
        self.marker.redarken = self.chunks.chain.get(nth + 1).map_or(NULL, |chunk| chunk.start);
    }

    /// Marks `work` words. Returns whether everything alive is marked.
    #[inline(never)]
    pub(crate) fn mark_slice(&mut self, mut work: i64) -> bool {
        if self.strategy.marking == Marking::Prefetch {
            return self.mark_slice_prefetching(work);
        }
        self.marker.words = self.marker.words.wrapping_add(work as usize);
        let ended = loop {
            if work <= 0 {
                // The runtime takes the next block before it sees that the work is done, and puts
                // the block back, past first fields that need no marking any more.
                if let Some(Entry { block, from }) = self.marker.stack.pop() {
                    self.push(block, from, &mut 0);
                }
                break false;
            }
            if let Some(entry) = self.marker.stack.pop() {
                work = self.mark_block(entry, work);
            } else if self.marker.redarken != NULL {
                self.redarken();
            } else {
                self.marker.words = self.marker.words.wrapping_sub(work as usize);
                work = 0;
                break true;
            }
        };
        self.marker.words = self.marker.words.wrapping_sub(work as usize);
        ended
    }

    /// Scans a block as far as `work` goes; returns the rest of the work.
    #[inline(always)]
    fn mark_block(&mut self, Entry { block, from }: Entry, work: i64) -> i64 {
        let fields = fields_of(header_at(block));
        if self.is_program(block) {
            return self.mark_program(block, from, fields, work);
        }
        let rest = (fields - from) as i64;
        if work >= rest {
            return work - rest - 1;
        }
        self.push(block, from + work as usize, &mut 0);
        0
    }

    /// Scans a block whose fields are read.
    fn mark_program(
        &mut self,
        block: Address,
        mut from: usize,
        fields: usize,
        mut work: i64,
    ) -> i64 {
        while work > 0 {
            if from + MARK_PREFETCH_FIELDS < fields {
                prefetch(load(field(block, from + MARK_PREFETCH_FIELDS)) as *const usize);
            }
            let word = load(field(block, from));
            if self.is_major(word) {
                self.darken_field(word, &mut work);
            }
            from += 1;
            work -= 1;
            if from == fields {
                return work - 1;
            }
        }
        self.push(block, from, &mut 0);
        work
    }
}
