//! Old space: the main space that the program allocates in, and a compaction space for each task of
//! a collection.
//!
//! Source: `PagedSpace` and `CompactionSpace` in V8's spaces.cc. A space bumps through a linear
//! area; a refill returns the rest of the old area and takes a whole node. The order in which a
//! refill looks for memory (`OldGeneration::refill`) decides how far a heap grows.

use crate::counts::Counts;
use crate::facts::{ADOPTED_ENOUGH_BYTES, PAGE_BYTES, Version};
use crate::free_list::FreeList;
use crate::map_space::MapSpace;
use crate::page::{Owner, PageList, Pages};
use crate::refills::{Found, Log, Refill};
use crate::segregated::Segregated;
use crate::strategy::{Condition, PageOrder, Step, Strategy};
use crate::sweeper::Sweeper;
use heaplab_heap::Origin;

/// The main space's number.
pub const MAIN: usize = 0;

/// One space of pages with a linear area.
#[derive(Debug)]
pub struct Space {
    /// Its pages.
    pub list: PageList,
    /// Its free list.
    pub free: FreeList,
    /// Next byte of the linear area; 0: no area.
    pub top: usize,
    /// End of the linear area.
    pub limit: usize,
    /// Bytes in objects and in the linear area.
    pub size: usize,
}

impl Space {
    /// Without a page.
    pub fn new(categories: usize) -> Space {
        Space { list: PageList::EMPTY, free: FreeList::new(categories), top: 0, limit: 0, size: 0 }
    }

    /// Bytes in objects, the runtime's own included.
    pub fn used_bytes(&self) -> usize {
        self.size - (self.limit - self.top)
    }

    /// Makes a node of at least `bytes` bytes the linear area, which is empty; returns the node's
    /// size.
    pub fn take_node(
        &mut self,
        pages: &mut Pages,
        strategy: &Strategy,
        bytes: usize,
        steps: &[Step],
    ) -> Option<usize> {
        let (address, size) = self.free.allocate(pages, strategy, bytes, steps)?;
        self.size += size;
        self.top = address;
        self.limit = address + size;
        Some(size)
    }

    /// Returns the rest of the linear area to the free list, and says how many bytes these are.
    pub fn free_linear_area(&mut self, pages: &mut Pages, strategy: &Strategy) -> usize {
        let (top, bytes) = (self.top, self.limit - self.top);
        self.top = 0;
        self.limit = 0;
        if bytes > 0 {
            self.size -= bytes;
            self.free.free(pages, strategy, top, bytes);
        }
        bytes
    }

    /// Books a swept page of this space by the sweep's figures instead of marking's.
    pub fn refine(&mut self, pages: &mut Pages, page: u32) {
        let books = &mut pages[page];
        self.size -= (books.live_bytes - books.allocated_bytes) as usize;
        books.live_bytes = 0;
    }

    /// Adds a new page for `owner`; false: the system, or the reservation, has none.
    pub fn expand(&mut self, pages: &mut Pages, strategy: &Strategy, owner: Owner) -> bool {
        let Some(page) = pages.take(owner, strategy.categories()) else { return false };
        let (start, bytes) = (pages.area(page), pages.area_bytes());
        pages[page].allocated_bytes = bytes as u32;
        pages.push_back(&mut self.list, page);
        self.free.free(pages, strategy, start, bytes);
        true
    }

    /// After marking: releases all empty pages but one, and lets the others wait to be swept, each
    /// after a call of `queued`.
    pub fn queue_for_sweeping(
        &mut self,
        pages: &mut Pages,
        sweeper: &mut Sweeper,
        queued: impl Fn(&mut Pages, u32),
    ) {
        let mut size = 0;
        let mut kept_empty = false;
        for page in pages.of(&self.list) {
            if pages[page].candidate {
                continue;
            }
            let base = pages[page].base_bytes;
            pages[page].live_bytes += base;
            if pages[page].live_bytes == 0 {
                if kept_empty {
                    pages.unlink(&mut self.list, page);
                    self.free.unlink_page(pages, page);
                    pages.release(page);
                    continue;
                }
                kept_empty = true;
            }
            size += pages[page].live_bytes as usize;
            queued(pages, page);
            sweeper.add(pages, page);
        }
        self.size = size;
    }
}

/// Old space with all its parts.
#[derive(Debug)]
pub struct OldGeneration {
    /// The heap's pages.
    pub pages: Pages,
    /// The strategy of all free lists.
    pub strategy: Strategy,
    /// The version whose rules apply.
    pub version: Version,
    /// The main space, then the compaction spaces of a running collection.
    pub spaces: Vec<Space>,
    /// Pages that wait to be swept.
    pub sweeper: Sweeper,
    /// Hidden classes.
    pub maps: MapSpace,
    /// Spans instead of the spaces' pages, for a strategy of size classes.
    pub segregated: Option<Segregated>,
    /// Most bytes of old space and old large objects together.
    pub limit_bytes: usize,
    /// Bytes of one semi-space.
    semi_space_bytes: usize,
    /// Committed for large objects, old and young.
    pub large_bytes: usize,
    /// Bytes of old large objects themselves, without their pages' rests.
    pub old_large_bytes: usize,
    /// Whether the strategy's other search is on.
    pub switched: bool,
    /// Bytes that linear areas took in this cycle and did not return, and live bytes of whole pages
    /// that became old. No linear area is open when a cycle ends.
    pub taken_bytes: u64,
    /// Number of pages with the runtime's own objects, and the bytes of these objects.
    pub(crate) base: (usize, usize),
    /// Pages added before this cycle.
    pages_before: u64,
    /// The log of refills, if asked for.
    pub refills: Option<Log>,
    /// Work so far; free lists count their searches and the sweeper its pages.
    pub work: Counts,
}

impl OldGeneration {
    /// Without a page.
    pub fn new(
        pages: Pages,
        mut strategy: Strategy,
        version: Version,
        [limit_bytes, semi_space_bytes]: [usize; 2],
    ) -> OldGeneration {
        strategy.prepare();
        let spaces = vec![Space::new(strategy.categories())];
        let segregated = strategy.segregated.clone().map(Segregated::new);
        OldGeneration {
            pages,
            strategy,
            version,
            spaces,
            sweeper: Sweeper::default(),
            maps: MapSpace::new(version.map_bytes, PageOrder::FullestFirst, false),
            segregated,
            limit_bytes,
            semi_space_bytes,
            large_bytes: 0,
            old_large_bytes: 0,
            switched: false,
            taken_bytes: 0,
            base: (0, 0),
            pages_before: 0,
            refills: None,
            work: Counts::default(),
        }
    }

    /// Adds a page of the runtime's own objects that waits to be swept.
    pub fn add_base_page(&mut self, live_bytes: u32, remembered: bool) {
        if let Some(page) = self.pages.take_base(live_bytes, self.strategy.categories()) {
            self.pages.push_back(&mut self.spaces[MAIN].list, page);
            self.spaces[MAIN].size += live_bytes as usize;
            self.base = (self.base.0 + 1, self.base.1 + live_bytes as usize);
            self.pages[page].remembered = remembered;
            self.sweeper.add(&mut self.pages, page);
        }
    }

    /// The workload's pages of the main space, in list order.
    pub fn own_pages(&self) -> Vec<u32> {
        let mut pages = self.pages.of(&self.spaces[MAIN].list);
        pages.retain(|&page| self.pages[page].base_bytes == 0);
        pages
    }

    /// Bytes in the workload's objects in the main space.
    pub fn used_bytes(&self) -> usize {
        let cells = self.segregated.as_ref().map_or(0, Segregated::used_bytes);
        self.spaces[MAIN].used_bytes().saturating_sub(self.base.1) + cells
    }

    /// Pages added since the last full collection.
    pub fn new_pages(&self) -> u64 {
        self.work.new_pages - self.pages_before
    }

    /// Committed bytes of the main space beyond those at the start; 0 if a compaction left fewer
    /// pages than the runtime's own objects had.
    pub fn main_committed_bytes(&self) -> usize {
        self.spaces[MAIN].list.length.saturating_sub(self.base.0) * PAGE_BYTES + self.span_bytes()
    }

    fn span_bytes(&self) -> usize {
        self.segregated.as_ref().map_or(0, Segregated::committed_bytes)
    }

    /// Allocates; `None`: the space's rules find no memory.
    #[inline]
    pub fn allocate(&mut self, space: usize, bytes: usize, origin: Origin) -> Option<usize> {
        let area = &mut self.spaces[space];
        if area.limit - area.top < bytes {
            return self.allocate_slowly(space, bytes, origin);
        }
        let address = area.top;
        area.top += bytes;
        Some(address)
    }

    #[cold]
    fn allocate_slowly(&mut self, space: usize, bytes: usize, origin: Origin) -> Option<usize> {
        if self.segregated.is_some() {
            return self.allocate_cell(bytes);
        }
        self.refill(space, bytes, origin).then(|| {
            let area = &mut self.spaces[space];
            let address = area.top;
            area.top += bytes;
            address
        })
    }

    /// The program and all tasks of a collection share the spans.
    fn allocate_cell(&mut self, bytes: usize) -> Option<usize> {
        let room = self.limit_bytes.saturating_sub(self.committed_bytes());
        let cells = self.segregated.as_mut()?;
        self.taken_bytes += bytes as u64;
        cells.allocate(&mut self.pages, bytes, |wanted| wanted <= room)
    }

    /// Opens a compaction space; returns its number.
    pub fn open_compaction_space(&mut self) -> usize {
        self.spaces.push(Space::new(self.strategy.categories()));
        self.spaces.len() - 1
    }

    /// Merges all compaction spaces into the main space, in order.
    pub fn merge_compaction_spaces(&mut self) {
        for local in 1..self.spaces.len() {
            self.free_linear_area(local);
            for page in self.pages.of(&self.spaces[local].list) {
                self.pages[page].merge_sets();
                self.remove_page(local, page);
                self.add_page(MAIN, page);
            }
            self.work += self.spaces[local].free.work;
        }
        self.spaces.truncate(1);
    }

    /// Looks for a new linear area of at least `bytes` bytes, and says whether there is one.
    fn refill(&mut self, space: usize, bytes: usize, origin: Origin) -> bool {
        self.work.refills += 1;
        if self.refills.is_some() {
            return self.logged_refill(space, bytes, origin) != Found::Nowhere;
        }
        self.find_area(space, bytes, origin) != Found::Nowhere
    }

    #[cold]
    fn logged_refill(&mut self, space: usize, bytes: usize, origin: Origin) -> Found {
        let (taken_bytes, nodes) = (self.taken_bytes, self.spaces[space].free.work.nodes);
        let began = std::time::Instant::now();
        let found = self.find_area(space, bytes, origin);
        let ns = u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX);
        let area = &self.spaces[space];
        let (area_bytes, nodes) =
            ((area.limit - area.top) as u32, (area.free.work.nodes - nodes) as u32);
        if let Some(log) = &mut self.refills {
            log.push(Refill { taken_bytes, area_bytes, nodes, ns, found });
        }
        found
    }

    /// Looks in the free list, on pages swept meanwhile, by sweeping, on a page of the main space,
    /// on a new page, and last by sweeping everything.
    fn find_area(&mut self, space: usize, bytes: usize, origin: Origin) -> Found {
        if self.take_node(space, bytes, origin) {
            return Found::Step(self.spaces[space].free.step);
        }
        if self.sweeper.in_progress {
            self.adopt(space);
            if self.take_node(space, bytes, origin) {
                return Found::Swept;
            }
            let most = self.sweeper.sweep_some(
                &mut self.pages,
                &self.strategy,
                bytes,
                self.version.sweep_pages_max,
            );
            self.adopt(space);
            if most >= bytes && self.take_node(space, bytes, origin) {
                return Found::Swept;
            }
        }
        if space != MAIN
            && let Some(page) = self.spaces[MAIN].free.page_for(&self.strategy, bytes)
        {
            self.work.stolen_pages += 1;
            self.remove_page(MAIN, page);
            self.add_page(space, page);
            if self.take_node(space, bytes, origin) {
                return Found::Stolen;
            }
        }
        let how = if self.expand(space) {
            Found::New
        } else if space == MAIN && self.sweeper.in_progress {
            self.complete_sweeping();
            Found::Swept
        } else {
            return Found::Nowhere;
        };
        if self.take_node(space, bytes, origin) { how } else { Found::Nowhere }
    }

    /// Makes a node the linear area.
    #[inline(never)] // Profiles tell it apart.
    fn take_node(&mut self, space: usize, bytes: usize, origin: Origin) -> bool {
        self.free_linear_area(space);
        let steps = self.strategy.steps(origin, self.switched);
        let taken = self.spaces[space].take_node(&mut self.pages, &self.strategy, bytes, steps);
        self.taken_bytes += taken.unwrap_or(0) as u64;
        taken.is_some()
    }

    /// Returns the rest of the linear area to the free list.
    pub fn free_linear_area(&mut self, space: usize) {
        let area = &mut self.spaces[space];
        self.taken_bytes -= area.free_linear_area(&mut self.pages, &self.strategy) as u64;
    }

    /// Adopts swept pages.
    pub(crate) fn adopt(&mut self, space: usize) {
        let mut added = 0;
        while let Some(page) = self.sweeper.swept.pop() {
            self.spaces[MAIN].refine(&mut self.pages, page);
            if !self.sweeper.scavenging {
                self.pages[page].merge_sets();
            }
            if space == MAIN {
                added += self.spaces[MAIN].free.link_page(&mut self.pages, page);
            } else {
                self.remove_page(MAIN, page);
                added += self.add_page(space, page);
            }
            added += self.pages[page].wasted_bytes as usize;
            if space != MAIN && added > ADOPTED_ENOUGH_BYTES {
                break;
            }
        }
    }

    /// Queues a page for sweeping after marking.
    pub fn await_sweep(&mut self, page: u32) {
        self.pages[page].put_set_aside(&self.version);
        self.sweeper.add(&mut self.pages, page);
    }

    /// Adds a page to a space; returns the bytes in the page's nodes.
    pub fn add_page(&mut self, space: usize, page: u32) -> usize {
        self.pages[page].owner = if space == MAIN { Owner::Old } else { Owner::Compaction };
        self.pages.push_back(&mut self.spaces[space].list, page);
        self.spaces[space].size += self.pages[page].allocated_bytes as usize;
        self.spaces[space].free.link_page(&mut self.pages, page)
    }

    fn remove_page(&mut self, space: usize, page: u32) {
        self.pages.unlink(&mut self.spaces[space].list, page);
        self.spaces[space].free.unlink_page(&mut self.pages, page);
        self.spaces[space].size -= self.pages[page].allocated_bytes as usize;
    }

    /// All work so far.
    pub fn counts(&self) -> Counts {
        let swept = Counts { swept_pages: self.sweeper.swept_pages, ..Counts::default() };
        let spans = self.segregated.as_ref().map(|cells| cells.work).unwrap_or_default();
        let spans = Counts {
            refills: spans.turned + spans.made,
            swept_pages: spans.swept,
            new_pages: spans.made,
            ..Counts::default()
        };
        self.spaces.iter().fold(self.work + swept + spans, |all, space| all + space.free.work)
    }

    /// Committed bytes of old space, map space and large objects.
    pub fn committed_bytes(&self) -> usize {
        let pages: usize = self.spaces.iter().map(|space| space.list.length).sum();
        let pages = pages.saturating_sub(self.base.0) + self.maps.page_count();
        pages * PAGE_BYTES + self.large_bytes + self.span_bytes()
    }

    /// Whether the limit leaves room for `bytes` more bytes (`Heap::CanExpandOldGeneration`). Two
    /// sums count: the areas of main-space and map pages with old large objects; and the whole
    /// heap's committed bytes, pages of compaction spaces and semi-spaces included. The second
    /// limit is three semi-spaces higher.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let area = self.pages.area_bytes();
        let pages = self.spaces[MAIN].list.length + self.maps.page_count();
        let capacity = pages * area + self.old_large_bytes;
        // The limit leaves the runtime's pages out; they may be in a compaction space.
        capacity + self.span_bytes() + bytes <= self.limit_bytes + self.base.0 * area
            && self.committed_bytes() + bytes <= self.limit_bytes + self.semi_space_bytes
    }

    /// Adds a new page, if the limit allows.
    pub fn expand(&mut self, space: usize) -> bool {
        if !self.has_room_for(self.pages.area_bytes()) {
            return false;
        }
        let owner = if space == MAIN { Owner::Old } else { Owner::Compaction };
        let added = self.spaces[space].expand(&mut self.pages, &self.strategy, owner);
        self.work.new_pages += u64::from(added);
        added
    }

    /// Sweeps all waiting pages and adopts them.
    pub fn complete_sweeping(&mut self) {
        if let Some(cells) = &mut self.segregated {
            cells.complete_sweeping(&mut self.pages);
        }
        if self.sweeper.in_progress {
            self.sweeper.sweep_some(&mut self.pages, &self.strategy, 0, usize::MAX);
            self.adopt(MAIN);
            self.sweeper.in_progress = false;
        }
        self.maps.complete_sweeping(&mut self.pages);
    }

    /// After a full collection, for a strategy with a page order: sweeps everything and links the
    /// pages anew. The page linked last comes first.
    pub fn order_pages(&mut self) {
        if self.strategy.order == PageOrder::LinkedLast {
            return;
        }
        self.complete_sweeping();
        let mut pages = self.pages.of(&self.spaces[MAIN].list);
        pages.sort_by_key(|&page| self.pages[page].allocated_bytes);
        if self.strategy.order == PageOrder::EmptiestFirst {
            pages.reverse();
        }
        for page in pages {
            self.spaces[MAIN].free.unlink_page(&mut self.pages, page);
            self.spaces[MAIN].free.link_page(&mut self.pages, page);
        }
    }

    /// After a full collection: chooses the search of the next cycle.
    pub fn end_cycle(&mut self) {
        self.pages_before = self.work.new_pages;
        if let Some(log) = &mut self.refills {
            log.begin_cycle();
        }
        let taken_bytes = std::mem::take(&mut self.taken_bytes);
        let Some(switch) = &self.strategy.switch else { return };
        self.switched = match switch.when {
            Condition::Pressure(percent) => {
                self.committed_bytes() as u128 * 100 > self.limit_bytes as u128 * percent as u128
            }
            Condition::FewAllocations(percent) => {
                u128::from(taken_bytes) * 100 < self.used_bytes() as u128 * percent as u128
            }
        };
    }

    /// Releases a page without objects.
    pub fn release_page(&mut self, page: u32) {
        self.spaces[MAIN].free.unlink_page(&mut self.pages, page);
        self.pages.release(page);
    }
}
