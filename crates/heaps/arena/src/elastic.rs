//! heaplab's own elastic arenas as a heap: one space, a region of the workload an arena in it.
//!
//! How an arena grows follows the workload's growth policy ([`growth`]). A block that dies before its arena is given back to
//! it, for which the adapter keeps sizes in a table beside. A program that frees knows them, so the table is not to be the library's
//! cost: [`Elastic::knowing`] keeps only the blocks that will need it (26 of jruby's 213,023), and a workload without such deaths
//! none. A table of all of them adds a tenth to what is resident.

use crate::sizes::Sizes;
use heaplab_elastic::{Arena, Error, Growth, Options, Space};
use heaplab_heap::{Allocating, CheckError, Footprint, Region, Request};
use std::alloc::Layout;
use std::ptr::NonNull;

const WORD_BYTES: usize = 8;

/// A space and its arenas.
pub struct Elastic {
    space: Space,
    growth: Vec<Growth>,
    regions: Vec<Option<Arena>>,
    sizes: Option<Sizes>,
    /// By region, the blocks in `sizes`: they leave it with their arena, because what comes to lie there next may not be known.
    known: Vec<Known>,
    alone: Option<Alone>,
}

/// Addresses of an arena's blocks that `sizes` knows; some are gone since.
#[derive(Clone, Debug, Default)]
struct Known {
    addresses: Vec<usize>,
    /// At so many, those that are gone are dropped.
    full: usize,
}

impl Known {
    const LEAST: usize = 64;

    fn push(&mut self, address: usize, sizes: &Sizes) {
        if self.addresses.len() >= self.full.max(Known::LEAST) {
            self.addresses.sort_unstable();
            self.addresses.dedup();
            self.addresses.retain(|address| sizes.get(*address).is_some());
            self.full = self.addresses.len() * 2;
        }
        self.addresses.push(address);
    }
}

/// Which births of a workload have to be known later: one bit each, in order; the workload may run again and again.
#[derive(Clone, Debug, Default)]
pub struct Alone {
    bits: Vec<u64>,
    births: usize,
    next: usize,
}

impl Alone {
    /// One more birth; returns its number.
    pub fn birth(&mut self) -> usize {
        self.births += 1;
        self.bits.resize(self.births.div_ceil(64), 0);
        self.births - 1
    }

    /// How many births there are.
    pub fn births(&self) -> usize {
        self.births
    }

    /// The birth of this number is to be known: its block dies alone, is reallocated, or asked for its size.
    pub fn know(&mut self, birth: usize) {
        self.bits[birth / 64] |= 1 << (birth % 64);
    }

    fn is_empty(&self) -> bool {
        self.bits.iter().all(|bits| *bits == 0)
    }

    /// Whether the birth that happens now is to be known.
    #[inline]
    fn now(&mut self) -> bool {
        let now = if self.next == self.births { 0 } else { self.next };
        self.next = now + 1;
        self.bits.get(now / 64).is_some_and(|bits| bits >> (now % 64) & 1 == 1)
    }
}

/// How an arena grows that the workload's arenas table gives this policy. HotSpot's words for its loaders are known.
pub fn growth(policy: &str) -> Growth {
    match policy {
        "hidden" | "reflection" | "micro" => Growth::MICRO,
        "boot" => Growth::LARGE,
        _ => Growth::STANDARD,
    }
}

impl Elastic {
    /// An empty space. `growth[n]` is how region `n` grows, malloc's first; what is beyond grows as [`Growth::STANDARD`], malloc's as [`Growth::LARGE`].
    pub fn new(options: Options, growth: Vec<Growth>) -> Result<Elastic, Error> {
        Ok(Elastic {
            space: Space::new(options)?,
            growth,
            regions: Vec::new(),
            sizes: Some(Sizes::default()),
            known: Vec::new(),
            alone: None,
        })
    }

    /// The same for a workload of which is known which blocks die before their arenas. Blocks of no region are always known.
    pub fn knowing(options: Options, growth: Vec<Growth>, alone: Alone) -> Result<Elastic, Error> {
        if alone.is_empty() {
            return Elastic::whole_arenas(options, growth);
        }
        Ok(Elastic { alone: Some(alone), ..Elastic::new(options, growth)? })
    }

    /// The same for a workload whose blocks die with their arenas only: no table is kept, frees do nothing, and
    /// reallocations are refused.
    pub fn whole_arenas(options: Options, growth: Vec<Growth>) -> Result<Elastic, Error> {
        Ok(Elastic { sizes: None, ..Elastic::new(options, growth)? })
    }

    /// The space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The arenas that there are, by region.
    pub(crate) fn arenas(&self) -> impl Iterator<Item = (Region, &Arena)> {
        (0..).map(Region).zip(&self.regions).filter_map(|(region, arena)| Some((region, arena.as_ref()?)))
    }

    fn growth_of(&self, number: usize) -> Growth {
        let unsaid = if number == 0 { Growth::LARGE } else { Growth::STANDARD };
        self.growth.get(number).copied().unwrap_or(unsaid)
    }

    /// The region's arena, begun at its first use; `None`: there is no memory for it.
    fn arena(&mut self, region: Region) -> Option<&Arena> {
        let number = region.0 as usize;
        if self.regions.len() <= number {
            self.regions.resize_with(number + 1, || None);
        }
        if self.regions[number].is_none() {
            self.regions[number] = self.space.arena(self.growth_of(number)).ok();
        }
        self.regions[number].as_ref()
    }
}

/// What a request takes: whole words, at least one, so that an early free names the same.
fn layout(request: &Request) -> Option<Layout> {
    let size = request.size.max(1).checked_next_multiple_of(WORD_BYTES)?;
    Layout::from_size_align(size, request.required_align()).ok()
}

impl Allocating for Elastic {
    const REGIONS: bool = true;

    #[inline]
    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        let layout = layout(&request)?;
        let number = request.region.0 as usize;
        let arena = match self.regions.get(number) {
            Some(Some(arena)) => arena,
            _ => self.arena(request.region)?,
        };
        let block = arena.allocate(layout).ok()?;
        // Every birth counts, a known one or not.
        let known = self.alone.as_mut().is_none_or(Alone::now) || request.region == Region::MALLOC;
        if known && let Some(sizes) = &mut self.sizes {
            let address = block.as_ptr() as usize;
            sizes.insert(address, layout.size(), request.region.0);
            if request.region != Region::MALLOC {
                if self.known.len() <= number {
                    self.known.resize_with(number + 1, Known::default);
                }
                self.known[number].push(address, sizes);
            }
        }
        if request.zeroed {
            // SAFETY: the block has this many bytes.
            unsafe { block.as_ptr().write_bytes(0, request.size) };
        }
        Some(block)
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let known = self.sizes.as_mut().and_then(|sizes| sizes.remove(block.as_ptr() as usize));
        let Some((bytes, region)) = known else { return };
        let Some(Some(arena)) = self.regions.get(region as usize) else { return };
        if let Ok(layout) = Layout::from_size_align(bytes, WORD_BYTES) {
            // SAFETY: the block lives, by the caller's promise; it has these bytes, and an arena asks for no alignment when it takes a block back.
            unsafe { arena.deallocate(block, layout) };
        }
    }

    unsafe fn reallocate(&mut self, block: NonNull<u8>, request: Request) -> Option<NonNull<u8>> {
        let (bytes, _) = self.sizes.as_ref()?.get(block.as_ptr() as usize)?;
        // No birth of the workload: a block that is reallocated was known and stays so.
        let alone = self.alone.take();
        let moved = self.allocate(Request { zeroed: false, ..request });
        self.alone = alone;
        let moved = moved?;
        // SAFETY: both blocks live, are different ones and have as many bytes.
        unsafe { moved.copy_from_nonoverlapping(block, bytes.min(request.size)) };
        // SAFETY: the caller's promise.
        unsafe { self.deallocate(block) };
        Some(moved)
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        self.sizes.as_ref()?.get(block.as_ptr() as usize).map(|(bytes, _)| bytes)
    }

    fn begin_region(&mut self, region: Region) {
        // Where there is no memory now, the first allocation tries again and says so.
        let _ = self.arena(region);
    }

    unsafe fn end_region(&mut self, region: Region) {
        let number = region.0 as usize;
        if let (Some(known), Some(sizes)) = (self.known.get_mut(number), &mut self.sizes) {
            for address in std::mem::take(known).addresses {
                sizes.remove(address);
            }
        }
        if let Some(arena) = self.regions.get_mut(number) {
            *arena = None;
        }
    }

    fn footprint(&self) -> Footprint {
        let (committed, idle) = (self.space.committed_bytes() as u64, self.space.idle_bytes() as u64);
        Footprint { committed_bytes: Some(committed), active_bytes: Some(committed - idle.min(committed)), ..Footprint::default() }
    }

    fn trim(&mut self) -> bool {
        self.space.trim().is_ok()
    }

    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        self.space.check_deep().map_err(|found| CheckError { place: "elastic space".into(), expected: "a sound pool".into(), found })
    }
}
