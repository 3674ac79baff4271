//! Compaction: all blocks move towards the first chunk of the chain, and empty chunks go back to
//! the system.
//!
//! Source: `compact.c`. Chunks stay or go as a whole. If the heap is still far larger than its live
//! blocks, a chunk of the right size goes before all others, and a second compaction moves
//! everything into this chunk.
//!
//! Deviation: the runtime finds the fields that refer to a block by inverting pointers through the
//! whole heap. Here at most one slot refers to a block of the workload. While blocks move, the slot
//! holds the block's header and the header the slot's number: one pass over the heap instead of
//! three.

use crate::block::{
    Address, BLUE, NULL, THREADED, WHITE, colour_of, copy, field, fields_header, fields_of,
    header_at, load,
};
use crate::block::{is_block, set_header, store, words_of};
use crate::chunk::Chunk;
use crate::facts::{
    COMPACTION_CYCLES_MIN, COMPACTION_NEVER, COMPACTION_SMALL_WORDS, MARK_STACK_ENTRIES,
    PAGE_WORDS, WORD_BYTES,
};
use crate::heap::{Full, OCaml};
use crate::strategy::{CompactionFit, CompactionRule};
use heaplab_heap::World;
use std::ptr::NonNull;

impl OCaml {
    /// Compacts if the overhead of the last cycle, `overhead` percent, reaches the limit.
    pub(crate) fn compact_maybe<W: World>(
        &mut self,
        world: &mut W,
        overhead: f64,
    ) -> Result<(), Full> {
        let most = self.spec.max_overhead;
        if most >= COMPACTION_NEVER
            || self.counts.major_collections < COMPACTION_CYCLES_MIN
            || self.chunks.words <= 2 * self.clip_chunk(0)
            || overhead < most as f64
        {
            return Ok(());
        }
        self.empty_minor_heap(world)?;
        self.finish_cycle("compaction");
        self.counts.forced_major_collections += 1;
        if self.free_overhead() >= most as f64 {
            self.compact_heap(world);
        }
        Ok(())
    }

    /// Free words as percent of all others.
    pub(crate) fn free_overhead(&self) -> f64 {
        let free = self.free.shared.free_words;
        100.0 * free as f64 / (self.chunks.words - free) as f64
    }

    /// The overhead of the last cycle, in percent.
    pub(crate) fn cycle_overhead(&self) -> f64 {
        let marked = self.marker.words;
        match self.strategy.compaction {
            CompactionRule::Marked if marked == 0 => 1_000_000.0,
            CompactionRule::Marked => {
                100.0 * self.cycle.heap_words.wrapping_sub(marked) as f64 / marked as f64
            }
            CompactionRule::FreeList => {
                let (heap, free) = (self.chunks.words as f64, self.free.shared.free_words as f64);
                let estimate = 3.0 * free - 2.0 * self.free_words_at_sweep as f64;
                let estimate = if estimate < 0.0 { free } else { estimate };
                if estimate >= heap {
                    1_000_000.0
                } else {
                    (100.0 * estimate / (heap - estimate)).min(1_000_000.0)
                }
            }
        }
    }

    /// Compacts, and once more if the heap stays far larger than wanted.
    pub(crate) fn compact_heap<W: World>(&mut self, world: &mut W) {
        self.compact(world);
        let live = self.chunks.words - self.free.shared.free_words;
        let target = self.clip_chunk(live + self.wanted(live) + PAGE_WORDS);
        if target < self.chunks.words / 2 {
            let Some(chunk) = self.chunks.obtain(target) else { return };
            store(chunk.start, fields_header(chunk.words() - 1, BLUE));
            self.chunks.add_first(chunk);
            self.compact(world);
        }
    }

    /// Free words wanted beside `live` ones.
    fn wanted(&self, live: usize) -> usize {
        self.spec.space_overhead * (live / 100 + 1)
    }

    fn compact<W: World>(&mut self, world: &mut W) {
        self.free.reset();
        self.thread_slots();
        for chunk in &mut self.chunks.chain {
            chunk.compacted = 0;
        }
        let mut from = [0; 2];
        for nth in 0..self.chunks.chain.len() {
            let (mut at, end) = (self.chunks.chain[nth].start, self.chunks.chain[nth].end);
            while at < end {
                let mut header = load(at);
                let mut slot = None;
                if colour_of(header) == THREADED {
                    slot = Some(fields_of(header));
                    header = load(field(self.program.slots, fields_of(header)));
                }
                let words = words_of(header);
                if colour_of(header) == WHITE && (header != 0 || self.strategy.moves_fragments) {
                    store(at, header);
                    let to = self.compact_allocate(words, &mut from);
                    copy(at, to, words);
                    self.relocated(world, at + WORD_BYTES, to + WORD_BYTES, slot);
                }
                at += words * WORD_BYTES;
            }
        }
        world.fullest(|| self.chunks.committed_bytes() as u64);
        self.return_chunks();
        self.free.init_merge();
        for chunk in &self.chunks.chain {
            let used = chunk.start + chunk.compacted * WORD_BYTES;
            if used < chunk.end {
                self.free.make_free(used, (chunk.end - used) / WORD_BYTES);
            }
        }
        self.counts.compactions += 1;
        self.marker.shrink();
        self.chunks.placement.resize_mark_stack(MARK_STACK_ENTRIES);
    }

    /// Exchanges each block's header for the number of the slot that refers to it.
    fn thread_slots(&mut self) {
        for slot in 0..self.program.count {
            let at = field(self.program.slots, slot);
            let block = load(at);
            if is_block(block) {
                store(at, header_at(block));
                set_header(block, slot << 10 | THREADED);
            }
        }
    }

    /// Updates all references to a block that has moved.
    fn relocated<W: World>(
        &mut self,
        world: &mut W,
        from: Address,
        to: Address,
        slot: Option<usize>,
    ) {
        if let Some(slot) = slot {
            store(field(self.program.slots, slot), to);
            if let (true, Some(address)) = (from != to, NonNull::new(to as *mut u8)) {
                world.moved(slot as u32, address);
                self.cycle.moved += 1;
                self.cycle.moved_words += words_of(header_at(to)) as u64;
            }
        } else if from == self.program.slots {
            self.program.slots = to;
        } else if from == self.program.newborn {
            self.program.newborn = to;
        } else if from == self.program.arguments {
            self.program.arguments = to;
        } else if self.program.arguments != NULL && from == self.program.argument {
            self.program.argument = to;
        }
        if self.program.argument != NULL {
            // Only this block is referred to by another block than the array of slots.
            store(self.program.arguments, self.program.argument);
        }
    }

    /// Finds room for `words` words, from chunk `from` of the chain on (the second number is for
    /// large blocks); returns the header's address.
    fn compact_allocate(&mut self, words: usize, from: &mut [usize; 2]) -> Address {
        let chain = &mut self.chunks.chain;
        let room = |chain: &[Chunk], nth: usize| chain[nth].words() - chain[nth].compacted;
        let fit = self.strategy.compaction_fit;
        let by_kind = fit == CompactionFit::LastOfKind;
        let from = &mut from[usize::from(by_kind && words > COMPACTION_SMALL_WORDS)];
        match fit {
            CompactionFit::LastOfKind => {}
            CompactionFit::FourWords => {
                while *from + 1 < chain.len()
                    && room(chain, *from) <= 4
                    && room(chain, *from + 1) <= 4
                {
                    *from += 1;
                }
            }
            CompactionFit::TwoWords => {
                while room(chain, *from) < 2 {
                    *from += 1;
                }
            }
        }
        let mut nth = *from;
        while room(chain, nth) < words {
            nth += 1;
        }
        if by_kind {
            *from = nth;
        }
        let chunk = &mut chain[nth];
        let at = chunk.start + chunk.compacted * WORD_BYTES;
        chunk.compacted += words;
        at
    }

    /// Returns empty chunks to the system, except as many as are wanted.
    fn return_chunks(&mut self) {
        let used = self.chunks.chain.iter().filter(|chunk| chunk.compacted != 0);
        let (live, mut free) = used.fold((0, 0), |(live, free), chunk| {
            (live + chunk.compacted, free + chunk.words() - chunk.compacted)
        });
        let wanted = self.wanted(live);
        let mut nth = 0;
        while nth < self.chunks.chain.len() {
            let chunk = &self.chunks.chain[nth];
            if chunk.compacted == 0 && free >= wanted && nth > 0 {
                self.chunks.remove(nth);
                continue;
            }
            if chunk.compacted == 0 && free < wanted {
                free += chunk.words();
            }
            nth += 1;
        }
    }

    /// The words of a new chunk that must hold at least `words`.
    pub(crate) fn clip_chunk(&self, words: usize) -> usize {
        let increment = match self.spec.increment {
            percent @ 0..=crate::facts::INCREMENT_PERCENT_MAX => self.chunks.words / 100 * percent,
            words => words,
        };
        words.max(increment).max(crate::facts::CHUNK_WORDS_MIN)
    }
}
