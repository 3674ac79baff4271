//! The runtime's own objects in old space.
//!
//! They take part in a collection: their pages are swept among the workload's, and a compaction
//! moves them between what it moves of the workload's. So the places of the workload's objects
//! depend on their sizes. Where these are known (`heaplab_node::own` reads them from a real V8),
//! they lie here as they lie there. Where only the live bytes of a page are known, the page has no
//! memory and is never emptied.

use crate::object::{self, Header, Kind};
use crate::page::Owner;
use crate::space::{MAIN, OldGeneration};

/// A page of the runtime's own objects, when the workload begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnPage {
    /// Bytes of its objects.
    pub live_bytes: u32,
    /// It has a remembered set.
    pub remembered: bool,
    /// Offset in the area and bytes of each object, upwards; none: they are not known.
    pub objects: Vec<(u32, u32)>,
    /// Bytes of the area that the page does not have, at its end.
    pub cut_bytes: u32,
    /// No compaction empties it.
    pub stays: bool,
}

impl OwnPage {
    /// A page of which no more is known.
    pub fn of_bytes(live_bytes: u32, remembered: bool) -> OwnPage {
        OwnPage { live_bytes, remembered, ..OwnPage::default() }
    }
}

impl OldGeneration {
    /// Begins as after the collection that ended the runtime's start: its pages wait to be swept. A
    /// compaction has swept them already, when it looked for room.
    pub fn begin(&mut self, compacted: bool) {
        self.sweeper.start(&self.pages);
        if compacted {
            self.sweeper.sweep_some(&mut self.pages, &self.strategy, 0, usize::MAX);
            self.adopt(MAIN);
            // Pages that the compaction filled were not swept, and their waste stayed behind.
            let waste = |&page: &u32| self.pages[page].stays.then(|| self.pages[page].wasted_bytes);
            self.sweeper.wasted =
                self.own_pages().iter().filter_map(waste).map(|bytes| bytes as usize).sum();
        }
    }

    /// Adds a page of the runtime's own objects; gives the addresses of those that are known, whose
    /// numbers begin with `first`.
    pub fn add_own_page(&mut self, own: &OwnPage, first: usize) -> Vec<usize> {
        if own.objects.is_empty() || self.segregated.is_some() {
            self.add_base_page(own.live_bytes, own.remembered);
            return Vec::new();
        }
        let Some(page) = self.pages.take(Owner::Old, self.strategy.categories()) else {
            return Vec::new();
        };
        let area = self.pages.area(page);
        let mut placed = Vec::with_capacity(own.objects.len());
        for (number, &(offset, bytes)) in own.objects.iter().enumerate() {
            let at = area + offset as usize;
            let bytes = bytes as usize;
            let slot = (first + number) as u32;
            // SAFETY: the page was just committed, and the spec has objects within its area.
            unsafe {
                object::set_header(at, Header { kind: Kind::Own, align_bits: 0, bytes, slot })
            };
            let start = self.pages.start(page);
            self.pages[page].mark(at - start);
            placed.push(at);
        }
        let books = &mut self.pages[page];
        books.stays = own.stays;
        books.remembered = own.remembered;
        books.cut_bytes = own.cut_bytes;
        books.live_bytes = own.live_bytes;
        books.allocated_bytes = own.live_bytes;
        self.base = (self.base.0 + 1, self.base.1 + own.live_bytes as usize);
        self.add_page(MAIN, page);
        self.sweeper.add(&mut self.pages, page);
        placed
    }
}
