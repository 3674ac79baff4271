//! Pages: 256 KiB of real memory each, and the heap's books on each.
//!
//! V8 keeps a page's books in the page's header. Here they lie in a table beside the pages
//! ([`Pages`]), and a page's memory holds objects and free blocks only. The header's bytes stay
//! unused, so that objects lie at V8's places. A large object has a run of pages; the first page
//! has the books.

use crate::facts::{PAGE_BITS, PAGE_BYTES, WORD_BYTES};
use heaplab_address_space::{Commitment, Error, Reservation, ReservationOptions};
use std::collections::BTreeMap;

/// No page, in links.
pub const NONE: u32 = u32::MAX;
/// Words of a page's mark bitmap.
const MARK_WORDS: usize = PAGE_BYTES / WORD_BYTES / 64;

/// The space that owns a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// Nobody's: not committed.
    #[default]
    Nobody,
    /// The semi-space that the program allocates in.
    To,
    /// The semi-space that is empty or being emptied.
    From,
    /// Old space.
    Old,
    /// A compaction space: part of old space after the collection.
    Compaction,
    /// Map space.
    Map,
    /// Old space by size classes: spans ([`crate::segregated`]).
    Cells,
    /// Large objects, young.
    YoungLarge,
    /// Large objects, old.
    OldLarge,
    /// A further page of a large object.
    Rest,
}

/// Free blocks of one category on one page: a list of nodes, and the category's place in its free
/// list.
#[derive(Clone, Copy, Debug)]
pub struct Category {
    /// Offset of the first node; 0: none.
    pub top: u32,
    /// Bytes of all nodes.
    pub available: u32,
    /// Page before in the free list.
    pub previous: u32,
    /// Page after in the free list.
    pub next: u32,
}

impl Category {
    /// Without a node, and in no free list.
    pub const EMPTY: Category = Category { top: 0, available: 0, previous: NONE, next: NONE };
}

/// The books of one page.
#[derive(Debug, Default)]
pub struct Page {
    /// The space that owns it.
    pub owner: Owner,
    /// Some object on it existed when the last collection ended (`NEW_SPACE_BELOW_AGE_MARK`).
    pub below_age_mark: bool,
    /// Waits to be swept.
    pub unswept: bool,
    /// Will be emptied by this collection.
    pub candidate: bool,
    /// Live bytes of a page of the runtime's own objects, which counts as full and has no memory
    /// here; 0 on other pages.
    pub base_bytes: u32,
    /// No collection empties it.
    pub stays: bool,
    /// Bytes missing at the end of the area, on a page of the runtime's own objects.
    pub cut_bytes: u32,
    /// Has a remembered set, perhaps an empty one: some object on it once referred to a young one.
    pub remembered: bool,
    /// Has the remembered set that was put aside when the page began to wait for the sweeper
    /// (`sweeping_slot_set`).
    pub set_aside: bool,
    /// Bytes in objects, dead ones included: the last sweep's figure and allocations since. A
    /// linear area counts as a whole.
    pub allocated_bytes: u32,
    /// Bytes that marking found.
    pub live_bytes: u32,
    /// Bytes in free blocks too small for any list.
    pub wasted_bytes: u32,
    /// Bytes of the large object, header included; 0 on other pages.
    pub large_bytes: u64,
    /// Neighbours in its space.
    pub previous: u32,
    /// Neighbours in its space.
    pub next: u32,
    /// By size; empty on pages outside of old space.
    pub categories: Box<[Category]>,
    /// One bit a word, set where a live object begins.
    pub marks: Box<[u64]>,
}

impl Page {
    /// Marks the object that begins at `offset`; false: it was marked already.
    #[inline]
    pub fn mark(&mut self, offset: usize) -> bool {
        let bit = offset / WORD_BYTES;
        let word = &mut self.marks[bit / 64];
        let mask = 1 << (bit % 64);
        let fresh = *word & mask == 0;
        *word |= mask;
        fresh
    }

    /// Whether the object at `offset` is marked.
    pub fn is_marked(&self, offset: usize) -> bool {
        let bit = offset / WORD_BYTES;
        self.marks[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// The first mark from `offset` on.
    #[inline]
    pub fn next_mark(&self, offset: usize) -> Option<usize> {
        let bit = offset / WORD_BYTES;
        let mut at = bit / 64;
        let mut word = *self.marks.get(at)? & (u64::MAX << (bit % 64));
        while word == 0 {
            at += 1;
            word = *self.marks.get(at)?;
        }
        Some((at * 64 + word.trailing_zeros() as usize) * WORD_BYTES)
    }

    /// Clears the marks of some bytes, in whole runs of 64 words.
    pub fn clear_marks_within(&mut self, offsets: std::ops::Range<usize>) {
        const RUN_BYTES: usize = 64 * WORD_BYTES;
        debug_assert!((offsets.start | offsets.end).is_multiple_of(RUN_BYTES));
        self.marks[offsets.start / RUN_BYTES..offsets.end / RUN_BYTES].fill(0);
    }

    /// Clears the marks below `offset`.
    pub fn clear_marks_before(&mut self, offset: usize) {
        let bit = offset / WORD_BYTES;
        self.marks[..bit / 64].fill(0);
        self.marks[bit / 64] &= u64::MAX << (bit % 64);
    }

    /// Takes all marks away.
    pub fn clear_marks(&mut self) {
        self.marks.fill(0);
    }
}

/// A space's pages: a doubly linked list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageList {
    /// First page.
    pub first: u32,
    /// Last page.
    pub last: u32,
    /// Pages.
    pub length: usize,
}

impl PageList {
    /// Without a page.
    pub const EMPTY: PageList = PageList { first: NONE, last: NONE, length: 0 };
}

/// All pages of a heap, by number.
#[derive(Debug)]
pub struct Pages {
    space: Reservation,
    base: usize,
    header_bytes: usize,
    books: Vec<Page>,
    free: Vec<u32>,
    /// Free runs of more than one page, by length.
    runs: BTreeMap<u32, Vec<u32>>,
}

impl Pages {
    /// Reserves addresses for `reserved_bytes` bytes of pages.
    pub fn new(reserved_bytes: usize, header_bytes: usize) -> Result<Pages, Error> {
        let options = ReservationOptions {
            commitment: Commitment::Touch,
            align_bytes: PAGE_BYTES,
            ..ReservationOptions::default()
        };
        let space = Reservation::new(reserved_bytes.next_multiple_of(PAGE_BYTES), &options)?;
        let base = space.base().as_ptr() as usize;
        Ok(Pages {
            space,
            base,
            header_bytes,
            books: Vec::new(),
            free: Vec::new(),
            runs: BTreeMap::new(),
        })
    }

    /// The reserved addresses.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        self.base..self.base + self.space.reserved_bytes()
    }

    /// The page that contains an address of the heap.
    #[inline]
    pub fn number(&self, address: usize) -> u32 {
        ((address - self.base) >> PAGE_BITS) as u32
    }

    /// First byte of a page.
    #[inline]
    pub fn start(&self, page: u32) -> usize {
        self.base + ((page as usize) << PAGE_BITS)
    }

    /// First object of a page.
    #[inline]
    pub fn area(&self, page: u32) -> usize {
        self.start(page) + self.header_bytes
    }

    /// End of a page.
    #[inline]
    pub fn end(&self, page: u32) -> usize {
        self.start(page) + PAGE_BYTES
    }

    /// End of the page's area for objects.
    #[inline]
    pub fn area_end(&self, page: u32) -> usize {
        self.end(page) - self[page].cut_bytes as usize
    }

    /// Bytes for objects.
    pub fn area_bytes(&self) -> usize {
        PAGE_BYTES - self.header_bytes
    }

    /// Books of all pages, released ones included.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Page)> {
        self.books.iter().enumerate().map(|(number, page)| (number as u32, page))
    }

    /// Committed bytes of all pages.
    pub fn committed_bytes(&self) -> usize {
        self.space.committed_bytes()
    }

    /// Commits a page; `None`: the system, or the limit, has none.
    pub fn take(&mut self, owner: Owner, categories: usize) -> Option<u32> {
        let page = self.free.pop().or_else(|| self.grow(1))?;
        let offset = (page as usize) << PAGE_BITS;
        if self.space.commit(offset..offset + PAGE_BYTES).is_err() {
            self.free.push(page);
            return None;
        }
        let books = &mut self.books[page as usize];
        let mut marks = std::mem::take(&mut books.marks);
        if marks.is_empty() {
            marks = vec![0; MARK_WORDS].into_boxed_slice();
        }
        marks.fill(0);
        let list = vec![Category::EMPTY; categories].into_boxed_slice();
        *books =
            Page { owner, previous: NONE, next: NONE, categories: list, marks, ..Page::default() };
        Some(page)
    }

    /// A page of the runtime's own objects: it stands in lists, without memory.
    pub fn take_base(&mut self, live_bytes: u32, categories: usize) -> Option<u32> {
        let page = self.grow(1)?;
        let list = vec![Category::EMPTY; categories].into_boxed_slice();
        let bytes = Page {
            base_bytes: live_bytes,
            live_bytes,
            allocated_bytes: live_bytes,
            ..Page::default()
        };
        self.books[page as usize] =
            Page { owner: Owner::Old, previous: NONE, next: NONE, categories: list, ..bytes };
        Some(page)
    }

    /// Commits the pages of one large object of `bytes` bytes.
    pub fn take_large(&mut self, owner: Owner, bytes: usize) -> Option<u32> {
        let length = (self.header_bytes + bytes).div_ceil(PAGE_BYTES) as u32;
        let page = self.runs.get_mut(&length).and_then(Vec::pop).or_else(|| self.grow(length))?;
        let offset = (page as usize) << PAGE_BITS;
        if self.space.commit(offset..offset + ((length as usize) << PAGE_BITS)).is_err() {
            self.runs.entry(length).or_default().push(page);
            return None;
        }
        for part in page..page + length {
            self.books[part as usize] =
                Page { owner: Owner::Rest, previous: NONE, next: NONE, ..Page::default() };
        }
        let books = &mut self.books[page as usize];
        books.owner = owner;
        books.large_bytes = bytes as u64;
        books.marks = vec![0; 1 + self.header_bytes / WORD_BYTES / 64].into_boxed_slice();
        Some(page)
    }

    fn grow(&mut self, length: u32) -> Option<u32> {
        let page = self.books.len();
        if (page + length as usize) << PAGE_BITS > self.space.reserved_bytes() {
            return None;
        }
        self.books.extend((0..length).map(|_| Page::default()));
        Some(page as u32)
    }

    /// Releases a page, or all pages of a large object.
    pub fn release(&mut self, page: u32) {
        let large = self.books[page as usize].large_bytes;
        let length =
            if large == 0 { 1 } else { (self.header_bytes + large as usize).div_ceil(PAGE_BYTES) };
        let offset = (page as usize) << PAGE_BITS;
        // SAFETY: the caller has removed every object from these pages, and nothing else refers to
        // them.
        let uncommitted = unsafe { self.space.uncommit(offset..offset + (length << PAGE_BITS)) };
        debug_assert!(uncommitted.is_ok(), "uncommit of whole pages cannot fail");
        for part in page..page + length as u32 {
            let books = &mut self.books[part as usize];
            books.owner = Owner::Nobody;
            books.large_bytes = 0;
            books.categories = Box::default();
        }
        if large == 0 {
            self.free.push(page);
        } else {
            self.runs.entry(length as u32).or_default().push(page);
        }
    }

    /// Gives back the memory of a part of a page without objects. The part stays committed and
    /// reads as zeroes.
    pub fn renew(&mut self, addresses: std::ops::Range<usize>) {
        let range = addresses.start - self.base..addresses.end - self.base;
        // SAFETY: the caller has removed every object from this part, and nothing else refers to
        // it.
        let renewed = unsafe { self.space.uncommit(range.clone()) }.and(self.space.commit(range));
        debug_assert!(renewed.is_ok(), "as many bytes were committed before");
    }

    /// Appends a page to a space's list.
    pub fn push_back(&mut self, list: &mut PageList, page: u32) {
        let last = list.last;
        self[page].previous = last;
        self[page].next = NONE;
        if last == NONE {
            list.first = page;
        } else {
            self[last].next = page;
        }
        list.last = page;
        list.length += 1;
    }

    /// Puts a page before all others of a list.
    pub fn push_front(&mut self, list: &mut PageList, page: u32) {
        let first = list.first;
        self[page].previous = NONE;
        self[page].next = first;
        if first == NONE {
            list.last = page;
        } else {
            self[first].previous = page;
        }
        list.first = page;
        list.length += 1;
    }

    /// Takes a page out of a list.
    pub fn unlink(&mut self, list: &mut PageList, page: u32) {
        let (previous, next) = (self[page].previous, self[page].next);
        if previous == NONE {
            list.first = next;
        } else {
            self[previous].next = next;
        }
        if next == NONE {
            list.last = previous;
        } else {
            self[next].previous = previous;
        }
        self[page].previous = NONE;
        self[page].next = NONE;
        list.length -= 1;
    }

    /// The pages of a list, first to last.
    pub fn of(&self, list: &PageList) -> Vec<u32> {
        let mut pages = Vec::with_capacity(list.length);
        let mut at = list.first;
        while at != NONE {
            pages.push(at);
            at = self[at].next;
        }
        pages
    }
}

impl std::ops::Index<u32> for Pages {
    type Output = Page;

    #[inline]
    fn index(&self, page: u32) -> &Page {
        &self.books[page as usize]
    }
}

impl std::ops::IndexMut<u32> for Pages {
    #[inline]
    fn index_mut(&mut self, page: u32) -> &mut Page {
        &mut self.books[page as usize]
    }
}
