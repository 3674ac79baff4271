//! heaplab's own elastic arenas as a heap: one space, and an arena in it for each region of the
//! workload.
//!
//! An arena grows by the workload's growth policy ([`growth`]). A block that dies before its arena
//! is given back to the arena with its size, as a program of this library does; nothing is kept
//! beside the library.

use heaplab_elastic::{Arena, Error, Growth, Options, Space};
use heaplab_heap::{Block, CheckError, Footprint, Heap, Manual, Part, Region, Request};
use std::alloc::Layout;
use std::ptr::NonNull;

const WORD_BYTES: usize = 8;

/// A space and its arenas.
pub struct Elastic {
    space: Space,
    growth: Vec<Growth>,
    regions: Vec<Option<Arena>>,
}

/// The growth of an arena with this policy in the workload's arenas table. Knows HotSpot's words
/// for its loaders.
pub fn growth(policy: &str) -> Growth {
    match policy {
        "hidden" | "reflection" | "micro" => Growth::MICRO,
        "boot" => Growth::LARGE,
        "standard" => Growth::STANDARD,
        _ => Growth::LEARNED,
    }
}

impl Elastic {
    /// An empty space. `growth[n]` is the growth of region `n`, malloc's first; other regions grow
    /// as [`Growth::LEARNED`], and malloc as [`Growth::LARGE`].
    pub fn new(options: Options, growth: Vec<Growth>) -> Result<Elastic, Error> {
        Ok(Elastic { space: Space::new(options)?, growth, regions: Vec::new() })
    }

    /// The space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The existing arenas, by region.
    pub(crate) fn arenas(&self) -> impl Iterator<Item = (Region, &Arena)> {
        (0..)
            .map(Region)
            .zip(&self.regions)
            .filter_map(|(region, arena)| Some((region, arena.as_ref()?)))
    }

    fn growth_of(&self, number: usize) -> Growth {
        let unsaid = if number == 0 { Growth::LARGE } else { Growth::LEARNED };
        self.growth.get(number).copied().unwrap_or(unsaid)
    }

    /// The region's arena, begun at its first use; `None`: no memory for it.
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

/// Words of a block of this many bytes: whole words, at least one.
fn words(size: usize) -> Option<usize> {
    size.max(1).checked_next_multiple_of(WORD_BYTES)
}

/// The layout of a request; its death names the same layout.
fn layout(request: &Request) -> Option<Layout> {
    Layout::from_size_align(words(request.size)?, request.required_align()).ok()
}

impl Manual for Elastic {
    const REGIONS: bool = true;

    #[inline]
    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>> {
        let layout = layout(&request)?;
        let arena = match self.regions.get(request.region.0 as usize) {
            Some(Some(arena)) => arena,
            _ => self.arena(request.region)?,
        };
        let block = arena.allocate(layout).ok()?;
        if request.zeroed {
            // SAFETY: the block has this many bytes.
            unsafe { block.as_ptr().write_bytes(0, request.size) };
        }
        Some(block)
    }

    #[inline]
    unsafe fn deallocate(&mut self, block: Block) {
        let Some(Some(arena)) = self.regions.get(block.region.0 as usize) else { return };
        if let Some(layout) = layout(&block.request(block.size)) {
            // SAFETY: the block is live, by the caller's promise, and was allocated with this
            // layout.
            unsafe { arena.deallocate(block.address, layout) };
        }
    }

    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>> {
        if words(new_size) == words(block.size) && block.is_aligned_for(new_size) {
            return Some(block.address);
        }
        let moved = self.allocate(block.request(new_size))?;
        // SAFETY: both blocks are live, different, and hold that many bytes.
        unsafe { moved.copy_from_nonoverlapping(block.address, block.size.min(new_size)) };
        // SAFETY: the caller's promise.
        unsafe { self.deallocate(block) };
        Some(moved)
    }

    unsafe fn usable_size(&self, block: Block) -> Option<usize> {
        words(block.size)
    }

    fn begin_region(&mut self, region: Region) {
        // If there is no memory now, the first allocation tries again and reports it.
        let _ = self.arena(region);
    }

    unsafe fn end_region(&mut self, region: Region) {
        if let Some(arena) = self.regions.get_mut(region.0 as usize) {
            *arena = None;
        }
    }
}

impl Heap for Elastic {
    fn version(&self) -> String {
        format!("elastic {}", env!("CARGO_PKG_VERSION"))
    }

    fn footprint(&self) -> Footprint {
        let (committed, idle) =
            (self.space.committed_bytes() as u64, self.space.idle_bytes() as u64);
        Footprint {
            committed_bytes: Some(committed),
            active_bytes: Some(committed - idle.min(committed)),
            ..Footprint::default()
        }
    }

    fn trim(&mut self) -> bool {
        self.space.trim().is_ok()
    }

    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    fn check_deep(&self) -> Result<(), CheckError> {
        self.space.check_deep().map_err(|found| CheckError {
            place: "elastic space".into(),
            expected: "a sound pool".into(),
            found,
        })
    }

    fn walk(&self) -> Option<Vec<Part>> {
        Some(self.parts())
    }
}
