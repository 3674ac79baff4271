//! The heap: both spaces, their arenas, and the contract for replaying a workload.
//!
//! [`ElasticMetaspace::allocate_words`] and its kin are HotSpot's own operations, in words, with no
//! more bookkeeping than HotSpot has. [`Manual`] builds on them: a region is an arena, and malloc's
//! region is the boot loader's non-class one. The driver knows the size and the region of each
//! block that it frees, as HotSpot's metadata know their own.
//!
//! Deviations (none changes the place of a metaspace workload's block): blocks aligned beyond a
//! word are cut from larger ones, and the ends go to the free blocks (HotSpot has no such blocks).
//! If the system refuses memory, the request fails; HotSpot ends the VM. There is no collector, so
//! `MaxMetaspaceSize` alone is the limit. A JVM purges at the end of the collection in which
//! loaders died; the contract knows no collections, so the first request after arenas died purges.
//! (In every recording the deaths of a collection and its purge stand together.)

use super::arena::{Arena, raw_words};
use super::counters::Counters;
use super::facts::{SMALLEST_BLOCK_WORDS, WORD_BYTES};
use super::node::Source;
use super::space::Space;
use super::strategy::Settings;
use crate::plan::{ArenaPlan, Plan};
use crate::spec::Spec;
use heaplab_address_space::{CommitLimit, Error, Faults};
use heaplab_buddy::ChunkId;
use heaplab_heap::{Block, CheckError, Footprint, Heap, Manual, Part, Region, Request};
use std::ptr::NonNull;
use std::sync::Arc;

/// An arena of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArenaId(u32);

/// The non-class space, the class space if there is one, and the arenas in them.
#[derive(Debug)]
pub struct ElasticMetaspace {
    pub(super) spec: Spec,
    pub(super) spaces: Vec<Space>,
    pub(super) arenas: Vec<Option<Arena>>,
    dead: Vec<u32>,
    pub(super) counters: Counters,
    limit: Arc<CommitLimit>,
    /// Used words of each space.
    pub(super) used_words: [usize; 2],
    /// The chunk at the beginning of class space: no class gets the narrow pointer 0.
    pub(super) guard: Option<ChunkId>,
    plan: Plan,
    regions: Vec<Option<ArenaId>>,
    /// Words of the live blocks of each region.
    live_words: Vec<usize>,
    /// A region ended since the last purge.
    unpurged: bool,
}

/// Index of the non-class space.
pub const NON_CLASS: usize = 0;
/// Index of the class space.
pub const CLASS: usize = 1;

impl ElasticMetaspace {
    /// The metaspace of a JVM: both spaces, with the first chunk of class space taken; `plan`
    /// describes each region.
    pub fn new(spec: Spec, plan: Plan) -> Result<ElasticMetaspace, Error> {
        ElasticMetaspace::with_faults(spec, plan, None)
    }

    /// The same on memory with calls that can fail on request.
    pub fn with_faults(
        spec: Spec,
        plan: Plan,
        faults: Option<Arc<Faults>>,
    ) -> Result<ElasticMetaspace, Error> {
        let limit = spec
            .limit_bytes
            .map_or_else(CommitLimit::none, |bytes| CommitLimit::new(bytes as usize));
        let mut heap = ElasticMetaspace::empty(spec, plan, limit);
        let settings = Settings::of(&spec);
        let source = Source { limit: Some(heap.limit.clone()), faults };
        heap.spaces.push(Space::expandable(settings, source.clone()));
        let mut class = Space::fixed(settings, source, spec.class_space_bytes as usize)?;
        let smallest = settings.geometry.smallest();
        heap.guard = class.take(smallest, smallest, 0);
        heap.spaces.push(class);
        Ok(heap)
    }

    /// A separate non-class space with its own limits in words, as HotSpot's tests and WhiteBox
    /// make them (`MetaspaceTestContext`). With a reserve limit, made of whole root chunks, it does
    /// not expand.
    pub fn test_context(
        spec: Spec,
        commit_limit_words: Option<usize>,
        reserve_limit_words: Option<usize>,
    ) -> Result<ElasticMetaspace, Error> {
        ElasticMetaspace::test_context_with_faults(
            spec,
            commit_limit_words,
            reserve_limit_words,
            None,
        )
    }

    /// The same on memory with calls that can fail on request.
    pub fn test_context_with_faults(
        spec: Spec,
        commit_limit_words: Option<usize>,
        reserve_limit_words: Option<usize>,
        faults: Option<Arc<Faults>>,
    ) -> Result<ElasticMetaspace, Error> {
        let limit = commit_limit_words.map_or_else(CommitLimit::none, |words| {
            CommitLimit::new(words.saturating_mul(WORD_BYTES))
        });
        let mut heap = ElasticMetaspace::empty(spec, Plan::default(), limit);
        let settings = Settings::of(&spec);
        let source = Source { limit: Some(heap.limit.clone()), faults };
        heap.spaces.push(match reserve_limit_words {
            Some(words) => Space::fixed(settings, source, words.saturating_mul(WORD_BYTES))?,
            None => Space::expandable(settings, source),
        });
        Ok(heap)
    }

    fn empty(spec: Spec, plan: Plan, limit: CommitLimit) -> ElasticMetaspace {
        ElasticMetaspace {
            spec,
            spaces: Vec::new(),
            arenas: Vec::new(),
            dead: Vec::new(),
            counters: Counters::default(),
            limit: Arc::new(limit),
            used_words: [0; 2],
            guard: None,
            plan,
            regions: Vec::new(),
            live_words: Vec::new(),
            unpurged: false,
        }
    }

    /// The generation and its parameters.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The spaces: [`NON_CLASS`], and [`CLASS`] if there is one.
    pub fn spaces(&self) -> &[Space] {
        &self.spaces
    }

    /// The spaces, mutable, for watching their decisions.
    pub fn spaces_mut(&mut self) -> &mut [Space] {
        &mut self.spaces
    }

    /// The commit limit and the committed bytes.
    pub fn limit(&self) -> &CommitLimit {
        &self.limit
    }

    /// Used words of both spaces: handed out by live arenas, their free blocks included.
    pub fn used_words(&self) -> usize {
        self.used_words.iter().sum()
    }

    /// Committed words of both spaces.
    pub fn committed_words(&self) -> usize {
        self.spaces.iter().map(Space::committed_bytes).sum::<usize>() / WORD_BYTES
    }

    /// Counts so far, both spaces together.
    pub fn counters(&self) -> Counters {
        let mut all = self.counters;
        for space in &self.spaces {
            let one = space.counters();
            all.num_vsnodes_births += one.num_vsnodes_births;
            all.num_space_committed += one.num_space_committed;
            all.num_space_uncommitted += one.num_space_uncommitted;
            all.num_chunks_returned_to_freelist += one.num_chunks_returned_to_freelist;
            all.num_chunks_taken_from_freelist += one.num_chunks_taken_from_freelist;
            all.num_chunk_merges += one.num_chunk_merges;
            all.num_chunk_splits += one.num_chunk_splits;
            all.num_chunks_enlarged += one.num_chunks_enlarged;
        }
        all
    }

    fn space_of(&self, plan: ArenaPlan) -> usize {
        if plan.class && self.spaces.len() > CLASS { CLASS } else { NON_CLASS }
    }

    /// An arena is born.
    pub fn birth(&mut self, plan: ArenaPlan) -> ArenaId {
        self.counters.num_arena_births += 1;
        let arena = Some(Arena::new(plan));
        match self.dead.pop() {
            Some(number) => {
                self.arenas[number as usize] = arena;
                ArenaId(number)
            }
            None => {
                self.arenas.push(arena);
                ArenaId(self.arenas.len() as u32 - 1)
            }
        }
    }

    /// The arena, if alive.
    pub fn arena(&self, id: ArenaId) -> Option<&Arena> {
        self.arenas.get(id.0 as usize)?.as_ref()
    }

    /// Allocates from a live arena. `None`: refused.
    pub fn allocate_words(&mut self, id: ArenaId, words: usize) -> Option<NonNull<u64>> {
        let plan = self.arenas.get(id.0 as usize)?.as_ref()?.plan();
        let at = self.space_of(plan);
        let arena = self.arenas[id.0 as usize].as_mut()?;
        match arena.allocate(&mut self.spaces[at], words) {
            Some(allocated) => {
                self.used_words[at] += allocated.grown_words;
                Some(allocated.block)
            }
            None => {
                self.counters.num_allocs_failed_limit += 1;
                None
            }
        }
    }

    /// Gives a block back to its arena, which must be alive.
    ///
    /// # Safety
    /// The block was allocated there with the same words and not given back since, and nobody uses
    /// it any more.
    pub unsafe fn deallocate_words(&mut self, id: ArenaId, block: NonNull<u64>, words: usize) {
        if let Some(arena) = self.arenas.get_mut(id.0 as usize).and_then(Option::as_mut) {
            // SAFETY: the caller's promise.
            unsafe { arena.deallocate(block, words) };
        }
    }

    /// An arena dies with all its blocks.
    ///
    /// # Safety
    /// Nobody uses any of its blocks any more.
    pub unsafe fn death(&mut self, id: ArenaId) {
        let Some(arena) = self.arenas.get_mut(id.0 as usize).and_then(Option::take) else { return };
        let at = self.space_of(arena.plan());
        self.used_words[at] -= arena.die(&mut self.spaces[at]);
        self.dead.push(id.0);
        self.counters.num_arena_deaths += 1;
    }

    /// Gives the memory of free chunks back, as the generation does.
    pub fn purge(&mut self) {
        self.unpurged = false;
        for space in &mut self.spaces {
            space.purge();
        }
    }

    /// Regions with an arena, and the arena's index in `arenas`.
    pub(super) fn regions(&self) -> impl Iterator<Item = (Region, usize)> {
        (0..)
            .map(Region)
            .zip(&self.regions)
            .filter_map(|(region, id)| Some((region, id.as_ref()?.0 as usize)))
    }

    /// The arena of a region, born at its first use.
    fn arena_of(&mut self, region: Region) -> ArenaId {
        let number = region.0 as usize;
        if self.regions.len() <= number {
            self.regions.resize(number + 1, None);
            self.live_words.resize(number + 1, 0);
        }
        match self.regions[number] {
            Some(id) => id,
            None => {
                let id = self.birth(self.plan.arena(region));
                self.regions[number] = Some(id);
                id
            }
        }
    }

    /// A block for a request of the contract.
    fn serve(&mut self, request: Request) -> Option<NonNull<u8>> {
        let id = self.arena_of(request.region);
        let align_words = request.required_align().div_ceil(WORD_BYTES);
        let words = words_of(request.size);
        let more = if align_words > 1 { words.checked_add(align_words - 1)? } else { words };
        let whole = self.allocate_words(id, more)?;
        let front = whole.as_ptr().align_offset(align_words * WORD_BYTES).min(more - words);
        // SAFETY: the block has `more` words, at least `front` and `words` together.
        let (block, tail) = unsafe { (whole.add(front), whole.add(front + words)) };
        for (rest, rest_words) in [(whole, front), (tail, more - words - front)] {
            if rest_words >= SMALLEST_BLOCK_WORDS {
                // SAFETY: an end of the new block, which nobody will use.
                unsafe { self.deallocate_words(id, rest, rest_words) };
            }
        }
        self.live_words[request.region.0 as usize] += words;
        if request.zeroed {
            // SAFETY: the block has at least this many bytes.
            unsafe { block.as_ptr().cast::<u8>().write_bytes(0, request.size) };
        }
        Some(block.cast())
    }
}

/// Words of a request of this many bytes.
fn words_of(size: usize) -> usize {
    raw_words(size.div_ceil(WORD_BYTES))
}

impl Manual for ElasticMetaspace {
    const REGIONS: bool = true;

    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        if self.unpurged {
            self.purge();
        }
        self.serve(request)
    }

    unsafe fn deallocate(&mut self, block: Block) {
        let (id, words) = (self.arena_of(block.region), words_of(block.size));
        self.live_words[block.region.0 as usize] -= words;
        // SAFETY: the caller's promise.
        unsafe { self.deallocate_words(id, block.address.cast(), words) };
    }

    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        if words_of(new_size) == words_of(block.size) && block.is_aligned_for(new_size) {
            return Some(block.address);
        }
        let moved = self.serve(block.request(new_size))?;
        // SAFETY: both blocks are live, different, and hold that many bytes.
        unsafe { moved.copy_from_nonoverlapping(block.address, block.size.min(new_size)) };
        // SAFETY: the caller's promise.
        unsafe { self.deallocate(block) };
        Some(moved)
    }

    unsafe fn usable_size(&self, block: Block) -> Option<usize> {
        Some(words_of(block.size) * WORD_BYTES)
    }

    fn begin_region(&mut self, region: Region) {
        self.arena_of(region);
    }

    unsafe fn end_region(&mut self, region: Region) {
        if let Some(id) = self.regions.get_mut(region.0 as usize).and_then(Option::take) {
            // SAFETY: the caller's promise.
            unsafe { self.death(id) };
            self.live_words[region.0 as usize] = 0;
            self.unpurged = true;
        }
    }
}

impl Heap for ElasticMetaspace {
    fn version(&self) -> String {
        format!("the rules of HotSpot, {}", self.spec.generation.name())
    }

    fn footprint(&self) -> Footprint {
        self.report().footprint((self.live_words.iter().sum::<usize>() * WORD_BYTES) as u64)
    }

    fn trim(&mut self) -> bool {
        self.purge();
        true
    }

    fn check(&self) -> Result<(), CheckError> {
        self.check_counts()
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        self.check_everything()
    }

    fn walk(&self) -> Option<Vec<Part>> {
        Some(self.parts())
    }
}
