//! Sweeping: lazily, page by page, when an allocation asks for it.
//!
//! Source: V8's sweeper.cc. Pages wait in a list sorted by live bytes, most first, and are taken
//! from its end: the emptiest is swept first. Pages that a collection promoted as a whole join at
//! the end and come before all others.

use crate::free_list::free_unlinked;
use crate::object;
use crate::page::{Owner, Pages};
use crate::sort;
use crate::strategy::Strategy;

/// Pages that wait to be swept, and swept pages that nobody has adopted yet.
#[derive(Debug, Default)]
pub struct Sweeper {
    /// A full collection has begun sweeping, and the sweeping is not complete.
    pub in_progress: bool,
    /// A scavenge is running.
    pub scavenging: bool,
    /// Waiting; the next one is the last.
    pub waiting: Vec<u32>,
    /// Swept; the next one to be adopted is the last.
    pub swept: Vec<u32>,
    /// Bytes of blocks too small for any list, found by this sweeping.
    pub wasted: usize,
    /// Pages swept so far, for studies.
    pub swept_pages: u64,
}

impl Sweeper {
    /// Adds a page after marking.
    pub fn add(&mut self, pages: &mut Pages, page: u32) {
        pages[page].unswept = true;
        self.waiting.push(page);
    }

    /// Begins sweeping the waiting pages, the emptiest first.
    pub fn start(&mut self, pages: &Pages) {
        self.start_unsorted();
        sort::sort(&mut self.waiting, |a, b| pages[*a].live_bytes > pages[*b].live_bytes);
    }

    /// Begins sweeping the waiting pages, the last one first.
    pub fn start_unsorted(&mut self) {
        self.in_progress = true;
        self.wasted = 0;
    }

    /// Takes out pages with a remembered set for the time of a scavenge
    /// (`FilterOldSpaceSweepingPages`). Returns the old list for [`Sweeper::end_scavenge`].
    pub fn begin_scavenge(&mut self, pages: &Pages) -> Vec<u32> {
        self.scavenging = true;
        let before = self.waiting.clone();
        self.waiting.retain(|&page| !pages[page].has_remembered_set());
        before
    }

    /// Adds a remembered page again that the scavenger has visited, if the page waits to be swept
    /// (`AddPageToSweeperIfNecessary`). Until then no allocation of the scavenge sweeps it.
    pub fn visited(&mut self, pages: &Pages, page: u32) {
        if pages[page].unswept && pages[page].owner == Owner::Old {
            self.waiting.push(page);
        }
    }

    /// Restores the list after a scavenge. Pages swept during the scavenge are still on it, and
    /// count when a sweep meets them.
    pub fn end_scavenge(&mut self, before: Vec<u32>) {
        self.scavenging = false;
        self.waiting = before;
    }

    /// Sweeps until a page guarantees a block for `required` bytes (0: never), or `pages_max` pages
    /// were swept. Returns the most that any page guarantees.
    pub fn sweep_some(
        &mut self,
        pages: &mut Pages,
        strategy: &Strategy,
        required: usize,
        pages_max: usize,
    ) -> usize {
        let mut most = 0;
        for _ in 0..pages_max {
            let Some(page) = self.waiting.pop() else { break };
            if pages[page].unswept {
                let freed = sweep_page(pages, strategy, page);
                self.swept_pages += 1;
                self.wasted += pages[page].wasted_bytes as usize;
                self.swept.push(page);
                most = most.max(freed);
            }
            if required > 0 && most >= required {
                break;
            }
        }
        most
    }
}

/// Puts the free bytes between marked objects into the page's categories, upwards; returns the
/// bytes that a request is sure to find.
#[inline(never)] // Profiles tell it apart.
fn sweep_page(pages: &mut Pages, strategy: &Strategy, page: u32) -> usize {
    pages[page].unswept = false;
    if pages[page].base_bytes > 0 {
        return 0;
    }
    let (start, end) = (pages.start(page), pages.area_end(page));
    pages[page].allocated_bytes = (end - pages.area(page)) as u32;
    pages[page].wasted_bytes = 0;
    let mut free_start = pages.area(page);
    let mut most = 0;
    while let Some(offset) = pages[page].next_mark(free_start - start) {
        let at = start + offset;
        most = most.max(free_block(pages, strategy, free_start, at - free_start));
        // SAFETY: marked objects have headers.
        free_start = at + unsafe { object::bytes(at) };
        if free_start == end {
            break;
        }
    }
    most = most.max(free_block(pages, strategy, free_start, end - free_start));
    pages[page].clear_marks();
    strategy.guaranteed(most)
}

/// Frees a block; returns its bytes, or 0 for waste.
fn free_block(pages: &mut Pages, strategy: &Strategy, start: usize, bytes: usize) -> usize {
    free_unlinked(pages, strategy, start, bytes).map_or(0, |_| bytes)
}
