//! A free list: for each category the pages that have nodes of it, and the search for a node.
//!
//! Source: `FreeList` and its subclasses in V8's spaces.cc. A page owns its categories; a free list
//! links those of its pages, newest first. Nodes are linked through the free blocks themselves.
//! Deviation: one interpreter of [`Strategy`] steps instead of a class for each strategy, and a bit
//! for each non-empty category instead of ManyCached's table. Neither changes a choice.

use crate::counts::Counts;
use crate::object::{self, Header, Kind};
use crate::page::{Category, NONE, Pages};
use crate::strategy::{Look, Steal, Step, Strategy};

/// The free list of a space.
#[derive(Debug)]
pub struct FreeList {
    /// First page of each category.
    tops: Box<[u32]>,
    /// A bit for each category that has a page: a search skips the others.
    filled: Box<[u64]>,
    available: usize,
    /// Bytes of blocks too small for any list, since the last full collection. A page that leaves
    /// for another space leaves its share here, as in V8.
    wasted: usize,
    /// Work of searches so far.
    pub work: Counts,
    /// The step that found the last node.
    pub step: u8,
}

impl FreeList {
    /// An empty list of this many categories.
    pub fn new(categories: usize) -> FreeList {
        FreeList {
            tops: vec![NONE; categories].into_boxed_slice(),
            filled: vec![0; categories.div_ceil(64)].into_boxed_slice(),
            available: 0,
            wasted: 0,
            work: Counts::default(),
            step: 0,
        }
    }

    /// Categories.
    pub fn categories(&self) -> usize {
        self.tops.len()
    }

    /// Bytes of all nodes.
    pub fn available(&self) -> usize {
        self.available
    }

    /// Bytes of blocks that it got and could not keep.
    pub fn wasted(&self) -> usize {
        self.wasted
    }

    /// First page of a category.
    pub fn top(&self, category: usize) -> u32 {
        self.tops[category]
    }

    fn is_linked(&self, pages: &Pages, page: u32, category: usize) -> bool {
        let entry = &pages[page].categories[category];
        entry.previous != NONE || entry.next != NONE || self.tops[category] == page
    }

    /// Links a page's category, before the others; false: it has no node.
    fn add(&mut self, pages: &mut Pages, page: u32, category: usize) -> bool {
        let top = self.tops[category];
        if pages[page].categories[category].top == 0 {
            return false;
        }
        if top != NONE {
            pages[top].categories[category].previous = page;
        }
        pages[page].categories[category].next = top;
        self.tops[category] = page;
        self.filled[category / 64] |= 1 << (category % 64);
        self.available += pages[page].categories[category].available as usize;
        true
    }

    fn remove(&mut self, pages: &mut Pages, page: u32, category: usize) {
        if !self.is_linked(pages, page, category) {
            return;
        }
        let Category { available, previous, next, .. } = pages[page].categories[category];
        self.available -= available as usize;
        if self.tops[category] == page {
            self.tops[category] = next;
            if next == NONE {
                self.filled[category / 64] &= !(1 << (category % 64));
            }
        }
        if previous != NONE {
            pages[previous].categories[category].next = next;
        }
        if next != NONE {
            pages[next].categories[category].previous = previous;
        }
        let entry = &mut pages[page].categories[category];
        entry.previous = NONE;
        entry.next = NONE;
    }

    /// Links all categories of a page; returns the bytes that became available.
    pub fn link_page(&mut self, pages: &mut Pages, page: u32) -> usize {
        let mut added = 0;
        for category in 0..self.tops.len() {
            if self.add(pages, page, category) {
                added += pages[page].categories[category].available as usize;
            }
        }
        added
    }

    /// Takes all categories of a page out; the page keeps its nodes.
    pub fn unlink_page(&mut self, pages: &mut Pages, page: u32) {
        for category in 0..self.tops.len() {
            self.remove(pages, page, category);
        }
    }

    /// Forgets every node of every page of the list.
    pub fn reset(&mut self, pages: &mut Pages) {
        for category in 0..self.tops.len() {
            let mut page = self.tops[category];
            while page != NONE {
                let entry = &mut pages[page].categories[category];
                let next = entry.next;
                *entry = Category::EMPTY;
                page = next;
            }
            self.tops[category] = NONE;
        }
        self.filled.fill(0);
        self.available = 0;
        self.wasted = 0;
    }

    /// The first category with a page in `from..end`.
    #[inline]
    fn next_filled(&self, from: usize, end: usize) -> Option<usize> {
        let mut mask = u64::MAX << (from % 64);
        for word in from / 64..end.div_ceil(64) {
            let filled = self.filled[word] & mask;
            if filled != 0 {
                let category = word * 64 + filled.trailing_zeros() as usize;
                return (category < end).then_some(category);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Frees a block on a page of this list's space.
    pub fn free(&mut self, pages: &mut Pages, strategy: &Strategy, start: usize, bytes: usize) {
        if let Some((page, category)) = free_unlinked(pages, strategy, start, bytes) {
            if self.is_linked(pages, page, category) {
                self.available += bytes;
            } else {
                self.add(pages, page, category);
            }
        } else {
            self.wasted += bytes;
        }
    }

    /// Removes a node of at least `bytes` bytes, found by the strategy's steps; returns its address
    /// and size.
    pub fn allocate(
        &mut self,
        pages: &mut Pages,
        strategy: &Strategy,
        bytes: usize,
        steps: &[Step],
    ) -> Option<(usize, usize)> {
        self.work.searches += 1;
        let before = self.work.nodes;
        let last = strategy.categories() - 1;
        for (number, step) in steps.iter().enumerate() {
            if !strategy.is_taken(step, bytes) {
                continue;
            }
            let (from, to) = (strategy.resolve(step.from, bytes), strategy.resolve(step.to, bytes));
            let found = if step.down {
                let low = if step.inclusive { to } else { to + 1 };
                (low..=from).rev().find_map(|category| self.look(pages, category, bytes, step.look))
            } else {
                let high = if step.inclusive { to + 1 } else { to };
                self.look_upward(pages, from..high, bytes, step.look)
            };
            if let Some((address, size)) = found {
                self.work.found += 1;
                self.step = number as u8;
                if strategy.category(bytes) == last {
                    let looked_at = (self.work.nodes - before) as usize;
                    let places = &mut self.work.largest_found;
                    places[looked_at.clamp(1, places.len()) - 1] += 1;
                }
                let page = pages.number(address);
                pages[page].allocated_bytes += size as u32;
                return Some((address, size));
            }
        }
        None
    }

    fn look_upward(
        &mut self,
        pages: &mut Pages,
        categories: std::ops::Range<usize>,
        bytes: usize,
        look: Look,
    ) -> Option<(usize, usize)> {
        let mut from = categories.start;
        while let Some(category) = self.next_filled(from, categories.end) {
            let found = self.look(pages, category, bytes, look);
            if found.is_some() {
                return found;
            }
            from = category + 1;
        }
        None
    }

    #[inline]
    fn look(
        &mut self,
        pages: &mut Pages,
        category: usize,
        bytes: usize,
        look: Look,
    ) -> Option<(usize, usize)> {
        match look {
            Look::Top => self.top_node(pages, category, bytes),
            Look::All => self.any_node(pages, category, bytes),
        }
    }

    /// The first node of the category's first page, if it is large enough.
    #[inline]
    fn top_node(
        &mut self,
        pages: &mut Pages,
        category: usize,
        bytes: usize,
    ) -> Option<(usize, usize)> {
        let page = self.tops[category];
        if page == NONE {
            return None;
        }
        self.work.nodes += 1;
        let node = pages.start(page) + pages[page].categories[category].top as usize;
        // SAFETY: a category's nodes are free blocks of its page, with header and link written.
        let (size, next) = unsafe { (object::bytes(node), object::link(node)) };
        if size < bytes {
            return None;
        }
        self.take(pages, page, category, size, next);
        Some((node, size))
    }

    /// The first large enough node of all pages of the category.
    fn any_node(
        &mut self,
        pages: &mut Pages,
        category: usize,
        bytes: usize,
    ) -> Option<(usize, usize)> {
        let mut page = self.tops[category];
        while page != NONE {
            let start = pages.start(page);
            let mut before = 0;
            let mut offset = pages[page].categories[category].top as usize;
            while offset != 0 {
                self.work.nodes += 1;
                let node = start + offset;
                // SAFETY: nodes of a category are free blocks of its page, with header and link
                // written.
                let (size, next) = unsafe { (object::bytes(node), object::link(node)) };
                if size >= bytes {
                    if before == 0 {
                        self.take(pages, page, category, size, next);
                    } else {
                        // SAFETY: the node before is a free block of this page.
                        unsafe { object::set_link(start + before, next) };
                        let top = pages[page].categories[category].top as usize;
                        self.take(pages, page, category, size, top);
                    }
                    return Some((node, size));
                }
                before = offset;
                offset = next;
            }
            page = pages[page].categories[category].next;
        }
        None
    }

    /// Books a node as taken, with `top` as the category's new first node.
    fn take(&mut self, pages: &mut Pages, page: u32, category: usize, size: usize, top: usize) {
        let entry = &mut pages[page].categories[category];
        entry.available -= size as u32;
        entry.top = top as u32;
        self.available -= size;
        if top == 0 {
            self.remove(pages, page, category);
        }
    }

    /// The page that a compaction space should take for a request of `bytes` bytes.
    pub fn page_for(&self, strategy: &Strategy, bytes: usize) -> Option<u32> {
        let own = strategy.category(bytes);
        let filled = |category: &usize| self.tops[*category] != NONE;
        let category = match strategy.steal {
            Steal::LargestFirst => (own..self.tops.len()).rev().find(filled),
            Steal::NextAbove => {
                (own + 1..self.tops.len()).find(filled).or(Some(own).filter(filled))
            }
        };
        category.map(|category| self.tops[category])
    }
}

/// Puts a free block into its page's category, or books it as waste. Returns page and category if a
/// list may now link them.
pub fn free_unlinked(
    pages: &mut Pages,
    strategy: &Strategy,
    start: usize,
    bytes: usize,
) -> Option<(u32, usize)> {
    if bytes == 0 {
        return None;
    }
    let page = pages.number(start);
    pages[page].allocated_bytes -= bytes as u32;
    // SAFETY: the block is free memory of a committed page of the heap.
    unsafe { object::set_header(start, Header::vacant(Kind::Free, bytes)) };
    if bytes < strategy.minimum_block() {
        pages[page].wasted_bytes += bytes as u32;
        return None;
    }
    let offset = start - pages.start(page);
    let category = strategy.category(bytes);
    let entry = &mut pages[page].categories[category];
    // SAFETY: as above; a block in a category has three words or more.
    unsafe { object::set_link(start, entry.top as usize) };
    entry.top = offset as u32;
    entry.available += bytes as u32;
    Some((page, category))
}
