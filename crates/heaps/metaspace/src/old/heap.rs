//! The old metaspace as a heap that any workload runs on: regions are arenas.
//!
//! HotSpot's callers know the size of what they give back and which loader it belongs to; a workload's free knows an
//! address. So this adapter keeps a table of live blocks beside the metaspace; its cost is the adapter's, and who measures the
//! design alone uses [`Metaspace11`] itself. Blocks are aligned to 8 bytes as HotSpot's are; a request that needs more gets
//! as many words more as that may take.

use super::facts::WORD;
use super::geometry::Space;
use super::metaspace::{ArenaId, Metaspace11, Options11};
use super::statistics::Statistics;
use crate::plan::Plan;
use heaplab_heap::{Allocating, CheckError, Footprint, Region, Request};
use std::collections::HashMap;
use std::ptr::NonNull;

/// A live block.
#[derive(Clone, Copy)]
struct Block {
    region: Region,
    requested: usize,
    /// Where the metaspace's block begins, at or before the address that the program has.
    start: NonNull<u8>,
    words: usize,
}

/// An arena that is alive.
struct Living {
    arena: ArenaId,
    /// Every address given out in it; some may be free again, or given out again.
    blocks: Vec<usize>,
}

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
/// assert_eq!(heap.footprint().requested_bytes, Some(0));
/// ```
pub struct Heap11 {
    metaspace: Metaspace11,
    plan: Plan,
    regions: HashMap<Region, Living>,
    blocks: HashMap<usize, Block>,
    requested_bytes: u64,
}

impl Heap11 {
    /// An empty heap; `plan` says what kind of arena each region is.
    pub fn new(options: Options11, plan: Plan) -> Heap11 {
        Heap11 { metaspace: Metaspace11::new(options), plan, regions: HashMap::new(), blocks: HashMap::new(), requested_bytes: 0 }
    }

    /// As `jcmd VM.metaspace` would show it.
    pub fn statistics(&self) -> Statistics {
        self.metaspace.statistics()
    }

    /// The metaspace itself.
    pub fn metaspace(&self) -> &Metaspace11 {
        &self.metaspace
    }

    fn living(&mut self, region: Region) -> &mut Living {
        let (metaspace, plan) = (&mut self.metaspace, &self.plan);
        self.regions.entry(region).or_insert_with(|| {
            let kind = plan.arena(region);
            let space = if kind.class { Space::Class } else { Space::NonClass };
            Living { arena: metaspace.birth(space, kind.loader), blocks: Vec::new() }
        })
    }
}

impl Allocating for Heap11 {
    const REGIONS: bool = true;

    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        let align = request.required_align().max(WORD);
        let slack = align - WORD;
        let words = request.size.checked_add(slack)?.checked_next_multiple_of(WORD)? / WORD;
        let arena = self.living(request.region).arena;
        let start = self.metaspace.allocate(arena, words)?;
        // SAFETY: the block has `slack` bytes more than requested, and the offset is at most that.
        let block = unsafe { start.add(start.as_ptr().align_offset(align)) };
        if request.zeroed {
            // SAFETY: the block holds `size` bytes from here and nobody else has it.
            unsafe { block.as_ptr().write_bytes(0, request.size) };
        }
        let address = block.as_ptr() as usize;
        self.blocks.insert(address, Block { region: request.region, requested: request.size, start, words });
        self.living(request.region).blocks.push(address);
        self.requested_bytes += request.size as u64;
        Some(block)
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let known = self.blocks.remove(&(block.as_ptr() as usize)).expect("a live block of this heap");
        self.requested_bytes -= known.requested as u64;
        let arena = self.living(known.region).arena;
        // SAFETY: the caller gives up a block of this arena; start and words are what the arena gave.
        unsafe { self.metaspace.deallocate(arena, known.start, known.words) };
    }

    unsafe fn reallocate(&mut self, block: NonNull<u8>, request: Request) -> Option<NonNull<u8>> {
        let address = block.as_ptr() as usize;
        let old = *self.blocks.get(&address).expect("a live block of this heap");
        // SAFETY: the caller's promise.
        let usable = unsafe { self.usable_size(block) }.unwrap_or(0);
        if request.size <= usable && address.is_multiple_of(request.required_align()) {
            self.blocks.insert(address, Block { requested: request.size, ..old });
            self.requested_bytes = self.requested_bytes - old.requested as u64 + request.size as u64;
            return Some(block);
        }
        // HotSpot never resizes metadata; whoever needs more allocates, copies and gives back.
        let moved = self.allocate(Request { region: old.region, zeroed: false, ..request })?;
        // SAFETY: both blocks are live, apart, and hold that many bytes; the old one is the caller's to give up.
        unsafe {
            std::ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), old.requested.min(request.size));
            self.deallocate(block);
        }
        Some(moved)
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        let address = block.as_ptr() as usize;
        let known = self.blocks.get(&address)?;
        Some(known.start.as_ptr() as usize + known.words * WORD - address)
    }

    fn begin_region(&mut self, region: Region) {
        self.living(region);
    }

    unsafe fn end_region(&mut self, region: Region) {
        let Some(living) = self.regions.remove(&region) else { return };
        for address in living.blocks {
            if let Some(block) = self.blocks.remove(&address) {
                self.requested_bytes -= block.requested as u64;
            }
        }
        self.metaspace.death(living.arena);
    }

    fn footprint(&self) -> Footprint {
        let statistics = self.metaspace.statistics();
        let [total, class] = statistics.spaces().map(|space| (space.total(), space.free_block_bytes, space.uncut_bytes));
        let sum = |part: fn(&(super::KindRow, u64, u64)) -> u64| part(&total) + part(&class);
        let handed_out = sum(|(row, blocks, _)| row.used_bytes - blocks);
        Footprint {
            requested_bytes: Some(self.requested_bytes),
            header_bytes: Some(sum(|(row, _, _)| row.overhead_bytes)),
            slop_bytes: Some(handed_out.saturating_sub(self.requested_bytes)),
            used_bytes: Some(sum(|(row, _, _)| row.used_bytes)),
            free_reusable_bytes: Some(sum(|(row, blocks, uncut)| row.free_bytes + row.free_chunk_bytes + blocks + uncut)),
            free_too_small_bytes: Some(sum(|(row, _, _)| row.waste_bytes)),
            committed_bytes: Some(statistics.committed_bytes()),
            ..Footprint::default()
        }
    }

    /// What HotSpot does after unloading classes. True: the heap has such an operation, whether or not it found anything.
    fn trim(&mut self) -> bool {
        self.metaspace.purge();
        true
    }

    fn check(&self) -> Result<(), CheckError> {
        self.metaspace.check()
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        self.metaspace.check_deep()?;
        let footprint = self.footprint();
        let parts = [
            footprint.requested_bytes,
            footprint.header_bytes,
            footprint.slop_bytes,
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
}
