//! The old metaspace as a heap for any workload: regions are arenas.
//!
//! HotSpot's callers know the size and the loader of each block that they give back, and so does
//! the driver. Blocks are aligned to 8 bytes as in HotSpot; a request for more is cut from a larger
//! block, and the ends become free blocks. The JVM purges after it unloaded classes; here the first
//! request after regions ended does.

use super::facts::{BLOCK_WORDS_MIN, WORD};
use super::metaspace::{ArenaId, Metaspace11, Options11};
use super::statistics::Statistics;
use super::strategy::Space;
use crate::plan::Plan;
use heaplab_heap::{Block, CheckError, Footprint, Heap, Manual, Part, Region, Request};
use std::collections::HashMap;
use std::ptr::NonNull;

/// [`Metaspace11`] behind the contract of heaps.
///
/// ```
/// use heaplab_heap::{Heap, Manual, Region, Request};
/// use heaplab_metaspace::{old::{Heap11, Options11}, plan::Plan};
/// let mut heap = Heap11::new(Options11::default(), Plan::default());
/// heap.begin_region(Region(1));
/// let block = heap.allocate(Request { align: 8, region: Region(1), ..Request::of(88) }).unwrap();
/// // SAFETY: the block is live and has 88 bytes.
/// unsafe { block.as_ptr().write_bytes(1, 88) };
/// // SAFETY: the block is not used any more.
/// unsafe { heap.end_region(Region(1)) };
/// assert_eq!(heap.footprint().used_bytes, Some(0));
/// ```
pub struct Heap11 {
    metaspace: Metaspace11,
    plan: Plan,
    regions: HashMap<Region, ArenaId>,
    /// Words of the live blocks of each region.
    live_words: HashMap<Region, usize>,
    /// A region ended since the last purge.
    unpurged: bool,
}

impl Heap11 {
    /// An empty heap; `plan` gives the kind of arena of each region.
    pub fn new(options: Options11, plan: Plan) -> Heap11 {
        Heap11 {
            metaspace: Metaspace11::new(options),
            plan,
            regions: HashMap::new(),
            live_words: HashMap::new(),
            unpurged: false,
        }
    }

    /// The numbers of `jcmd VM.metaspace`.
    pub fn statistics(&self) -> Statistics {
        self.metaspace.statistics()
    }

    /// The metaspace itself.
    pub fn metaspace(&self) -> &Metaspace11 {
        &self.metaspace
    }

    /// Live arenas, by region. All belong to regions, because a driver reaches no others.
    pub(super) fn living(&self) -> impl Iterator<Item = (Option<Region>, &super::arena::Arena)> {
        let mut regions: Vec<_> = self.regions.iter().collect();
        regions.sort_unstable_by_key(|(region, _)| region.0);
        regions
            .into_iter()
            .filter_map(|(region, id)| Some((Some(*region), self.metaspace.arena(*id)?)))
    }

    fn arena(&mut self, region: Region) -> ArenaId {
        let (metaspace, plan) = (&mut self.metaspace, &self.plan);
        *self.regions.entry(region).or_insert_with(|| {
            let kind = plan.arena(region);
            metaspace.birth(if kind.class { Space::Class } else { Space::NonClass }, kind.loader)
        })
    }

    fn purge(&mut self) {
        self.unpurged = false;
        self.metaspace.purge();
    }
}

/// Words of a block of this many bytes.
fn words_of(size: usize) -> usize {
    size.div_ceil(WORD).max(BLOCK_WORDS_MIN)
}

impl Manual for Heap11 {
    const REGIONS: bool = true;

    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        if self.unpurged {
            self.purge();
        }
        let align = request.required_align().max(WORD);
        let words = words_of(request.size);
        let whole_words = words.checked_add(align / WORD - 1)?;
        let arena = self.arena(request.region);
        let whole = self.metaspace.allocate(arena, whole_words)?;
        let front = whole.as_ptr().align_offset(align) / WORD;
        // SAFETY: the block has `whole_words`; the offset is below `align`, which leaves `words`
        // behind it.
        let (block, tail) = unsafe { (whole.add(front * WORD), whole.add((front + words) * WORD)) };
        for (rest, rest_words) in [(whole, front), (tail, whole_words - words - front)] {
            if rest_words >= BLOCK_WORDS_MIN {
                // SAFETY: an end of the new block, which nobody will use.
                unsafe { self.metaspace.deallocate(arena, rest, rest_words) };
            }
        }
        if request.zeroed {
            // SAFETY: the block holds `size` bytes from here and nobody else has it.
            unsafe { block.as_ptr().write_bytes(0, request.size) };
        }
        *self.live_words.entry(request.region).or_default() += words;
        Some(block)
    }

    unsafe fn deallocate(&mut self, block: Block) {
        let (arena, words) = (self.arena(block.region), words_of(block.size));
        *self.live_words.entry(block.region).or_default() -= words;
        // SAFETY: the caller gives up a block of this arena with these words.
        unsafe { self.metaspace.deallocate(arena, block.address, words) };
    }

    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        if words_of(new_size) == words_of(block.size) && block.is_aligned_for(new_size) {
            return Some(block.address);
        }
        // HotSpot never resizes metadata; a caller that needs more allocates, copies and gives
        // back.
        let moved = self.allocate(block.request(new_size))?;
        // SAFETY: both blocks are live, apart, and hold that many bytes; the caller gives up the
        // old one.
        unsafe {
            moved.copy_from_nonoverlapping(block.address, block.size.min(new_size));
            self.deallocate(block);
        }
        Some(moved)
    }

    unsafe fn usable_size(&self, block: Block) -> Option<usize> {
        Some(words_of(block.size) * WORD)
    }

    fn begin_region(&mut self, region: Region) {
        if self.unpurged {
            self.purge();
        }
        self.arena(region);
    }

    unsafe fn end_region(&mut self, region: Region) {
        let Some(arena) = self.regions.remove(&region) else { return };
        self.live_words.remove(&region);
        self.metaspace.death(arena);
        self.unpurged = true;
    }
}

impl Heap for Heap11 {
    fn version(&self) -> String {
        "the rules of HotSpot, jdk11".into()
    }

    /// Handed-out bytes that are neither live nor a free block are rests of reused blocks, too
    /// small to keep.
    fn footprint(&self) -> Footprint {
        let statistics = self.metaspace.statistics();
        let [non_class, class] = statistics
            .spaces()
            .map(|space| (space.total(), space.free_block_bytes, space.uncut_bytes));
        let sum = |part: fn(&(super::KindRow, u64, u64)) -> u64| part(&non_class) + part(&class);
        let live = (self.live_words.values().sum::<usize>() * WORD) as u64;
        let lost = sum(|(row, blocks, _)| row.used_bytes - blocks).saturating_sub(live);
        Footprint {
            header_bytes: Some(sum(|(row, _, _)| row.overhead_bytes)),
            used_bytes: Some(live),
            free_reusable_bytes: Some(sum(|(row, blocks, uncut)| {
                row.free_bytes + row.free_chunk_bytes + blocks + uncut
            })),
            free_too_small_bytes: Some(sum(|(row, _, _)| row.waste_bytes) + lost),
            committed_bytes: Some(statistics.committed_bytes()),
            ..Footprint::default()
        }
    }

    /// HotSpot's work after unloading classes. True: the heap has such an operation, whether or not
    /// it found anything.
    fn trim(&mut self) -> bool {
        self.purge();
        true
    }

    fn check(&self) -> Result<(), CheckError> {
        self.metaspace.check()
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        self.metaspace.check_deep()?;
        let footprint = self.footprint();
        let parts = [
            footprint.header_bytes,
            footprint.used_bytes,
            footprint.free_reusable_bytes,
            footprint.free_too_small_bytes,
        ];
        let sum: u64 = parts.into_iter().flatten().sum();
        match footprint.committed_bytes {
            Some(committed) if committed == sum => Ok(()),
            committed => Err(CheckError {
                place: "parts of the footprint".into(),
                expected: format!("{committed:?} committed bytes"),
                found: format!("{sum} bytes"),
            }),
        }
    }

    fn walk(&self) -> Option<Vec<Part>> {
        Some(self.parts())
    }
}
