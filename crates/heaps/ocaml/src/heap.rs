//! The heap: births, stores, and the start of the collector's work.
//!
//! Source: `minor_gc.c` (`caml_gc_dispatch`, `caml_alloc_small_dispatch`), `memory.c`
//! (`caml_alloc_shr`, `caml_modify`, `expand_heap`), `gc_ctrl.c` (requests of the program).
//!
//! Objects of at most 256 words are born in the minor heap, larger ones in the major heap. An
//! object has its bytes rounded up to words, one at least. OCaml aligns to words only, so the heap
//! ignores a birth's alignment. The workload's objects refer to nothing; only the array of slots
//! keeps them alive. So an object in its slot lives even if it is no root.

use crate::block::{
    Address, BLACK, NULL, WHITE, field, fields_header, header, is_block, load, store,
};
use crate::chunk::Chunks;
use crate::cycle::Cycle;
use crate::facts::{CHUNK_WORDS_MIN, IMMEDIATE, STRING_TAG, WORD_BYTES, YOUNG_WORDS_MAX};
use crate::fit::{Cut, FreeSet};
use crate::log::{Counters, Phase, Slice};
use crate::mark::Marker;
use crate::minor::Minor;
use crate::pacing::Pacing;
use crate::program::{Program, slot_fields};
use crate::spec::Spec;
use crate::strategy::Strategy;
use crate::sweep::Sweeper;
use heaplab_address_space::Error;
use heaplab_heap::{Ask, Birth, Collected, Collection, CollectorLog, OutOfMemory, World, prefetch};
use std::num::NonZero;
use std::ptr::NonNull;
use std::time::Instant;

/// The address of a block's first field.
type Block = NonZero<Address>;

/// OCaml's minor and major heap.
#[derive(Debug)]
pub struct OCaml {
    pub(crate) spec: Spec,
    pub(crate) strategy: &'static Strategy,
    pub(crate) chunks: Chunks,
    pub(crate) free: FreeSet,
    pub(crate) minor: Minor,
    pub(crate) program: Program,
    pub(crate) marker: Marker,
    pub(crate) sweeper: Sweeper,
    pub(crate) pacing: Pacing,
    pub(crate) phase: Phase,
    pub(crate) counts: Counters,
    pub(crate) cycle: Cycle,
    /// Free words when the last sweep began.
    pub(crate) free_words_at_sweep: usize,
    /// Blocks of the major heap are allocated black from this address on.
    pub(crate) black_from: Address,
    /// Words of the last chunk requested from the system.
    refused_words: usize,
    pub(crate) minor_requested: bool,
    pub(crate) slice_requested: bool,
    pub(crate) births: u64,
    pub(crate) born_bytes: u64,
    pub(crate) slices: Vec<Slice>,
    pub(crate) collections: Vec<Collection>,
    pub(crate) measures_pauses: bool,
    pub(crate) pause_ns: u64,
}

/// The system or the limit gives no more memory; holds the words of the request.
pub(crate) struct Full(usize);

impl OCaml {
    /// A heap without births. The program around the workload begins with the first birth, when the
    /// number of slots is known.
    ///
    /// # Errors
    /// The system gives no addresses, or the limit is below the minor heap and the first chunk.
    pub fn new(spec: Spec) -> Result<OCaml, Error> {
        let first_words = spec.initial_words.max(CHUNK_WORDS_MIN);
        let limit = spec.limit_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let strategy = spec.version.strategy();
        let chunks = Chunks::new(spec.minor_words, first_words, limit, strategy)?;
        let minor = Minor::new(chunks.minor.clone());
        let mut heap = OCaml {
            strategy,
            free: FreeSet::new(spec.policy, chunks.control),
            chunks,
            minor,
            program: Program::new(),
            marker: Marker::new(),
            sweeper: Sweeper::default(),
            pacing: Pacing::new(spec.window),
            phase: Phase::Idle,
            counts: Counters::default(),
            cycle: Cycle::default(),
            free_words_at_sweep: 0,
            black_from: Address::MAX,
            refused_words: 0,
            minor_requested: false,
            slice_requested: false,
            births: 0,
            born_bytes: 0,
            slices: Vec::new(),
            collections: Vec::new(),
            measures_pauses: false,
            pause_ns: 0,
            spec,
        };
        let words = heap.clip_chunk(heap.spec.initial_words);
        let Some(chunk) = heap.chunks.obtain(words) else {
            let bytes = words * WORD_BYTES;
            return Err(Error::Reserve { bytes, source: std::io::ErrorKind::OutOfMemory.into() });
        };
        let (start, words) = (chunk.start, chunk.words());
        heap.chunks.add(chunk);
        heap.chunks.placement.begin(heap.spec.signal_stack_bytes);
        heap.free.init_merge();
        heap.free.make_free(start, words);
        heap.begin_arguments();
        Ok(heap)
    }

    /// The parameters.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// All slices so far, oldest first.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Counters so far.
    pub fn counters(&self) -> Counters {
        Counters {
            minor_words: self.counts.minor_words + self.minor.used_words() as u64,
            major_words: self.counts.major_words + self.pacing.allocated_words as u64,
            heap_words: self.chunks.words as u64,
            heap_chunks: self.chunks.chain.len() as u64,
            top_heap_words: self.chunks.words_max as u64,
            free_words: self.free.shared.free_words as u64,
            ..self.counts
        }
    }

    /// Free blocks that searches have looked at so far.
    pub fn search_steps(&self) -> u64 {
        self.free.shared.steps
    }

    /// Number of times that the mark stack could not grow and was emptied.
    pub fn mark_stack_overflows(&self) -> u64 {
        self.marker.overflows
    }

    /// The place of a body: `None` for the minor heap, or the index of its chunk of the major heap;
    /// and the distance from the start.
    pub fn locate(&self, body: NonNull<u8>) -> (Option<usize>, usize) {
        let at = body.as_ptr() as Address;
        match self.chunks.find(at) {
            Some(nth) => (Some(nth), at - self.chunks.chain[nth].start),
            None => (None, at - self.minor.range.start),
        }
    }

    /// All places of objects as one number (FNV-1a over chunk and distance, slot by slot): equal
    /// for two heaps with the same slots and every object at the same place. 0 before the first
    /// birth.
    pub fn placement(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for slot in 0..self.program.count {
            let object = load(field(self.program.slots, slot));
            let place = match NonNull::new(object as *mut u8)
                .filter(|_| is_block(object))
                .map(|body| self.locate(body))
            {
                None => 0,
                Some((None, at)) => at as u64 | 1,
                Some((Some(nth), at)) => ((nth as u64) << 40) + at as u64,
            };
            hash = (hash ^ place).wrapping_mul(0x100_0000_01b3);
        }
        hash
    }

    /// `Gc.compact`: two full cycles and a compaction, at any amount of free words.
    ///
    /// # Errors
    /// The major heap has no room for the minor heap's live blocks.
    pub fn compact_now<W: World>(&mut self, world: &mut W) -> Result<(), OutOfMemory> {
        self.full_major(world, true).map_err(|full| self.out_of_memory(full))
    }

    /// Allocates the program's arguments, the first blocks of the minor heap.
    fn begin_arguments(&mut self) {
        let array = self.cut(1, header(1, crate::facts::FIELDS_TAG, WHITE));
        let string = self.cut(1, header(1, STRING_TAG, WHITE));
        store(string, usize::from_le_bytes(*b"heaplab\0"));
        store(array, string);
        (self.program.arguments, self.program.argument) = (array, string);
    }

    /// A store into a slot outside of the array is legal only before the first birth, when an empty
    /// slot stays empty.
    #[cold]
    fn stored_outside(&self, slot: u32) {
        let (slots, count) = (self.program.slots, self.program.count);
        assert!(slots == NULL, "slot {slot} of {count} slots");
    }

    /// Allocates the program's slots.
    #[cold]
    pub(crate) fn begin<W: World>(&mut self, world: &mut W) -> Result<(), Full> {
        let count = slot_fields(world.slots());
        let slots = self.allocate_major(count, fields_header(count, WHITE));
        let slots = slots.ok_or_else(|| self.full())?.get();
        for nth in 0..count {
            store(field(slots, nth), IMMEDIATE);
        }
        (self.program.slots, self.program.count) = (slots, count);
        self.chunks.placement.begin_remembered(self.minor.words());
        self.process_pending(world)
    }

    /// Cuts a block off the minor heap, which must have room.
    #[inline(always)]
    fn cut(&mut self, fields: usize, header: usize) -> Address {
        self.minor.at -= (fields + 1) * WORD_BYTES;
        store(self.minor.at, header);
        self.minor.at + WORD_BYTES
    }

    /// Allocates a block of at most 256 fields.
    #[inline(always)]
    fn allocate_small<W: World>(&mut self, fields: usize, world: &mut W) -> Result<Address, Full> {
        let bytes = (fields + 1) * WORD_BYTES;
        if self.minor_requested
            || self.slice_requested
            || self.minor.at - bytes < self.minor.trigger
        {
            self.make_room(bytes, world)?;
        }
        Ok(self.cut(fields, fields_header(fields, WHITE)))
    }

    #[cold]
    fn make_room<W: World>(&mut self, bytes: usize, world: &mut W) -> Result<(), Full> {
        loop {
            self.process_pending(world)?;
            if self.minor.at - bytes >= self.minor.trigger {
                return Ok(());
            }
            self.dispatch(world)?;
        }
    }

    /// Allocates a block of the major heap, which grows if no free block is large enough. A
    /// function of its own, as in the runtime, so that a profiler can tell it apart.
    #[inline(never)]
    pub(crate) fn allocate_major(&mut self, fields: usize, header: usize) -> Option<Block> {
        let at = match self.free.allocate(fields) {
            Some(at) => at.get(),
            None => self.expand(fields)?.get(),
        };
        store(at, if at >= self.black_from { header | BLACK } else { header });
        self.pacing.allocated_words += fields + 1;
        if self.pacing.allocated_words > self.minor.words() {
            self.slice_requested = true;
        }
        Block::new(at + WORD_BYTES)
    }

    /// Takes a chunk from the system and allocates in it.
    #[cold]
    fn expand(&mut self, fields: usize) -> Option<Cut> {
        let words = self.clip_chunk(fields.saturating_add(fields / 100 * self.spec.space_overhead));
        self.refused_words = words;
        let chunk = self.chunks.obtain(words)?;
        let (start, words) = (chunk.start, chunk.words());
        store(start, fields_header(words - 1, crate::block::BLUE));
        let nth = self.chunks.add(chunk);
        if self.phase == Phase::Sweep && nth <= self.sweeper.chunk {
            self.sweeper.chunk += 1;
        }
        self.free.add_block(start + WORD_BYTES);
        self.free.allocate(fields)
    }

    /// The error for the last block: the major heap had no room and may not grow.
    #[cold]
    pub(crate) fn full(&self) -> Full {
        Full(self.refused_words)
    }

    /// Runs the requested work that has not run.
    #[inline(always)]
    pub(crate) fn process_pending<W: World>(&mut self, world: &mut W) -> Result<(), Full> {
        if self.minor_requested || self.slice_requested { self.dispatch(world) } else { Ok(()) }
    }

    /// A minor collection, a slice, or both.
    fn dispatch<W: World>(&mut self, world: &mut W) -> Result<(), Full> {
        let began = self.measures_pauses.then(Instant::now);
        if self.minor.trigger == self.minor.range.start {
            self.minor_requested = true;
        } else {
            self.slice_requested = true;
        }
        if self.phase == Phase::Idle {
            // A cycle begins with an empty minor heap.
            (self.minor_requested, self.slice_requested) = (true, true);
        }
        if self.minor_requested {
            self.minor.trigger = self.minor.middle();
            self.empty_minor_heap(world)?;
            self.minor_requested = false;
        }
        if self.slice_requested {
            self.slice_requested = false;
            self.minor.trigger = self.minor.range.start;
            self.slice(world)?;
        }
        if let Some(began) = began {
            self.pause_ns += began.elapsed().as_nanos() as u64;
        }
        Ok(())
    }

    #[cold]
    fn out_of_memory(&self, Full(words): Full) -> OutOfMemory {
        OutOfMemory {
            size: Some(words * WORD_BYTES),
            live_bytes: self
                .collections
                .last()
                .and_then(|collection| collection.work)
                .map_or(0, |work| work.marked_bytes),
            committed_bytes: self.chunks.committed_bytes() as u64,
            limit_bytes: self.chunks.limit.limit_bytes() as u64,
        }
    }

    #[inline(always)]
    fn allocate_words<W: World>(&mut self, fields: usize, world: &mut W) -> Result<Address, Full> {
        if self.program.slots == NULL {
            self.begin(world)?;
        }
        if fields <= YOUNG_WORDS_MAX {
            self.allocate_small(fields, world)
        } else {
            self.allocate_newborn(fields, world)
        }
    }

    /// A block of more than 256 fields.
    #[inline(never)]
    fn allocate_newborn<W: World>(
        &mut self,
        fields: usize,
        world: &mut W,
    ) -> Result<Address, Full> {
        let block = self.allocate_major(fields, fields_header(fields, WHITE));
        self.program.newborn = block.ok_or_else(|| self.full())?.get();
        let collected = self.process_pending(world);
        let block = std::mem::replace(&mut self.program.newborn, NULL);
        collected.map(|()| block)
    }
}

impl Collected for OCaml {
    #[inline(always)]
    fn allocate<W: World>(
        &mut self,
        birth: Birth,
        world: &mut W,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        let fields = birth.size.div_ceil(WORD_BYTES).max(1);
        let block = match self.allocate_words(fields, world) {
            Ok(block) => block,
            Err(full) => return Err(self.out_of_memory(full)),
        };
        self.births += 1;
        self.born_bytes += birth.size as u64;
        // SAFETY: a block's address is never 0: no word lies there.
        Ok(unsafe { NonNull::new_unchecked(block as *mut u8) })
    }

    #[inline(always)]
    fn ahead(&self, slot: usize) {
        prefetch((self.program.slots as *const usize).wrapping_add(slot));
    }

    /// Does not write the slot, which ends as it began. Counts the writes in the remembered set:
    /// its order decides the order of a minor collection and its length requests one.
    #[inline(always)]
    fn transients(
        &mut self,
        slot: u32,
        sizes: impl Iterator<Item = usize>,
        mut write: impl FnMut(NonNull<u8>, usize),
    ) -> usize {
        if self.minor_requested || self.slice_requested || slot as usize >= self.program.count {
            return 0;
        }
        let entries_left = self.minor.entries_max.saturating_sub(self.minor.entries);
        let (mut at, mut born, mut born_bytes) = (self.minor.at, 0, 0);
        for size in sizes {
            let fields = size.div_ceil(WORD_BYTES).max(1);
            let bytes = fields.saturating_add(1).saturating_mul(WORD_BYTES);
            if fields > YOUNG_WORDS_MAX || at - bytes < self.minor.trigger || born == entries_left {
                break;
            }
            at -= bytes;
            store(at, fields_header(fields, WHITE));
            // SAFETY: a block's address is never 0: no word lies there.
            write(unsafe { NonNull::new_unchecked((at + WORD_BYTES) as *mut u8) }, size);
            born += 1;
            born_bytes += size;
        }
        if born > 0 {
            self.minor.at = at;
            self.minor.remember(slot, born);
            self.births += born as u64;
            self.born_bytes += born_bytes as u64;
        }
        born
    }

    #[inline(always)]
    fn stored(&mut self, slot: u32, _: Option<NonNull<u8>>, now: Option<NonNull<u8>>) {
        let now = now.map_or(IMMEDIATE, |now| now.as_ptr() as Address);
        if slot as usize >= self.program.count {
            return self.stored_outside(slot);
        }
        let at = field(self.program.slots, slot as usize);
        let before = load(at);
        store(at, now);
        if is_block(before) {
            if self.minor.has(before) {
                return;
            }
            if self.phase == Phase::Mark {
                self.darken(before);
            }
        }
        if is_block(now) && self.minor.has(now) {
            if self.minor.entries == self.minor.entries_max {
                self.minor_requested = true;
            }
            self.minor.remember(slot, 1);
        }
    }

    #[inline(always)]
    fn safepoint<W: World>(&mut self, world: &mut W) -> Result<(), OutOfMemory> {
        if (self.minor_requested || self.slice_requested) && self.strategy.polls {
            return self.dispatch(world).map_err(|full| self.out_of_memory(full));
        }
        Ok(())
    }

    fn collect<W: World>(&mut self, ask: Ask, world: &mut W) -> Result<(), OutOfMemory> {
        let done = match ask {
            Ask::Full => self.full_major(world, false),
            Ask::Minor => {
                self.minor_requested = true;
                let begun = if self.program.slots == NULL { self.begin(world) } else { Ok(()) };
                begun.and_then(|()| self.process_pending(world))
            }
        };
        done.map_err(|full| self.out_of_memory(full))
    }

    fn collections(&self) -> &[Collection] {
        &self.collections
    }

    fn activity(&self) -> u64 {
        self.slices.len() as u64 + self.counts.minor_collections + self.collections.len() as u64
    }

    fn log(&self) -> CollectorLog {
        self.counters().log(self.slices.iter().map(Into::into).collect())
    }

    fn measure_pauses(&mut self) {
        self.measures_pauses = true;
    }
}
