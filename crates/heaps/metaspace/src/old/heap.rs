//! The old metaspace as a heap that any workload runs on: regions are arenas.
//!
//! HotSpot's callers know the size of what they give back and which loader it belongs to; a workload's free knows an
//! address. So this adapter keeps [`LiveBlocks`] beside the metaspace, as the elastic heap does: its cost is the adapter's,
//! and who measures the design alone uses [`Metaspace11`] itself. Blocks are aligned to 8 bytes as HotSpot's are; a request
//! that needs more is cut from a larger block whose ends become free blocks. The JVM purges after it unloaded classes; here
//! that is the first request after regions ended.

use super::facts::{BLOCK_WORDS_MIN, WORD};
use super::geometry::Space;
use super::metaspace::{ArenaId, Metaspace11, NodeNumber, Options11};
use super::statistics::Statistics;
use crate::elastic::live_blocks::LiveBlocks;
use crate::plan::Plan;
use heaplab_heap::{Allocating, CheckError, Footprint, Region, Request};
use std::collections::HashMap;
use std::ptr::NonNull;

/// [`Metaspace11`] behind the contract of heaps.
///
/// ```
/// use heaplab_heap::{Allocating, Region, Request};
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
    /// Of each node that has had any.
    live: HashMap<NodeNumber, LiveBlocks>,
    /// A region ended since the last purge.
    unpurged: bool,
}

impl Heap11 {
    /// An empty heap; `plan` says what kind of arena each region is.
    pub fn new(options: Options11, plan: Plan) -> Heap11 {
        Heap11 { metaspace: Metaspace11::new(options), plan, regions: HashMap::new(), live: HashMap::new(), unpurged: false }
    }

    /// As `jcmd VM.metaspace` would show it.
    pub fn statistics(&self) -> Statistics {
        self.metaspace.statistics()
    }

    /// The metaspace itself.
    pub fn metaspace(&self) -> &Metaspace11 {
        &self.metaspace
    }

    /// Arenas that live, by region. All are of regions, since who drives the heap gets at no others.
    pub(super) fn living(&self) -> impl Iterator<Item = (Option<Region>, &super::arena::Arena)> {
        let mut regions: Vec<_> = self.regions.iter().collect();
        regions.sort_unstable_by_key(|(region, _)| region.0);
        regions.into_iter().filter_map(|(region, id)| Some((Some(*region), self.metaspace.arena(*id)?)))
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
        if self.metaspace.purge() > 0 {
            let metaspace = &self.metaspace;
            self.live.retain(|node, _| metaspace.is_mapped(*node));
        }
    }

    /// The words and the region of a live block, and where its table has it.
    fn find(&self, block: NonNull<u8>) -> Option<(NodeNumber, usize, usize, Region)> {
        let place = self.metaspace.node_around(block.as_ptr() as usize)?;
        let (words, region) = self.live.get(&place.node)?.get(place.offset_bytes)?;
        Some((place.node, place.offset_bytes, words, Region(region)))
    }

    fn live_words(&self) -> usize {
        self.live.values().map(LiveBlocks::words).sum()
    }
}

impl Allocating for Heap11 {
    const REGIONS: bool = true;

    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        if self.unpurged {
            self.purge();
        }
        let align = request.required_align().max(WORD);
        let words = request.size.div_ceil(WORD).max(BLOCK_WORDS_MIN);
        let whole_words = words.checked_add(align / WORD - 1)?;
        let arena = self.arena(request.region);
        let whole = self.metaspace.allocate(arena, whole_words)?;
        let front = whole.as_ptr().align_offset(align) / WORD;
        // SAFETY: the block has `whole_words`; the offset is below `align`, which leaves `words` behind it.
        let (block, tail) = unsafe { (whole.add(front * WORD), whole.add((front + words) * WORD)) };
        for (rest, rest_words) in [(whole, front), (tail, whole_words - words - front)] {
            if rest_words >= BLOCK_WORDS_MIN {
                // SAFETY: an end of the block that was just allocated, which nobody will use.
                unsafe { self.metaspace.deallocate(arena, rest, rest_words) };
            }
        }
        if request.zeroed {
            // SAFETY: the block holds `size` bytes from here and nobody else has it.
            unsafe { block.as_ptr().write_bytes(0, request.size) };
        }
        let place = self.metaspace.node_around(block.as_ptr() as usize)?;
        let table = self.live.entry(place.node).or_insert_with(|| LiveBlocks::new(place.node_bytes));
        table.insert(place.offset_bytes, words, request.region.0);
        Some(block)
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let Some((node, offset_bytes, words, region)) = self.find(block) else {
            debug_assert!(false, "{block:p} is no live block");
            return;
        };
        if let Some(table) = self.live.get_mut(&node) {
            table.remove(offset_bytes);
        }
        let arena = self.arena(region);
        // SAFETY: the caller gives up a block of this arena; the table knows its words.
        unsafe { self.metaspace.deallocate(arena, block, words) };
    }

    unsafe fn reallocate(&mut self, block: NonNull<u8>, request: Request) -> Option<NonNull<u8>> {
        let (_, _, words, region) = self.find(block)?;
        if request.size <= words * WORD && (block.as_ptr() as usize).is_multiple_of(request.required_align()) {
            return Some(block);
        }
        // HotSpot never resizes metadata; whoever needs more allocates, copies and gives back.
        let moved = self.allocate(Request { region, zeroed: false, ..request })?;
        // SAFETY: both blocks are live, apart, and hold that many bytes; the old one is the caller's to give up.
        unsafe {
            std::ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), (words * WORD).min(request.size));
            self.deallocate(block);
        }
        Some(moved)
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        self.find(block).map(|(_, _, words, _)| words * WORD)
    }

    fn begin_region(&mut self, region: Region) {
        if self.unpurged {
            self.purge();
        }
        self.arena(region);
    }

    unsafe fn end_region(&mut self, region: Region) {
        let Some(arena) = self.regions.remove(&region) else { return };
        for (node, offset_bytes, bytes) in self.metaspace.handed_out(arena) {
            if let Some(table) = self.live.get_mut(&node) {
                table.clear(offset_bytes, bytes);
            }
        }
        self.metaspace.death(arena);
        self.unpurged = true;
    }

    /// What is handed out and neither lives nor is a free block is the rest of a reused one, too small to be kept.
    fn footprint(&self) -> Footprint {
        let statistics = self.metaspace.statistics();
        let [non_class, class] = statistics.spaces().map(|space| (space.total(), space.free_block_bytes, space.uncut_bytes));
        let sum = |part: fn(&(super::KindRow, u64, u64)) -> u64| part(&non_class) + part(&class);
        let live = (self.live_words() * WORD) as u64;
        let lost = sum(|(row, blocks, _)| row.used_bytes - blocks).saturating_sub(live);
        Footprint {
            header_bytes: Some(sum(|(row, _, _)| row.overhead_bytes)),
            used_bytes: Some(live),
            free_reusable_bytes: Some(sum(|(row, blocks, uncut)| row.free_bytes + row.free_chunk_bytes + blocks + uncut)),
            free_too_small_bytes: Some(sum(|(row, _, _)| row.waste_bytes) + lost),
            committed_bytes: Some(statistics.committed_bytes()),
            ..Footprint::default()
        }
    }

    /// What HotSpot does after unloading classes. True: the heap has such an operation, whether or not it found anything.
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
        let parts = [footprint.header_bytes, footprint.used_bytes, footprint.free_reusable_bytes, footprint.free_too_small_bytes];
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
}
