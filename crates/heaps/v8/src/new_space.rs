//! New space: two semi-spaces of pages, bumped through page by page.
//!
//! Source: `NewSpace` and `SemiSpace` in V8's spaces.cc and spaces.h, and `LocalAllocator` for the
//! collector's buffers.

use crate::facts::{BUFFER_BYTES, BUFFERED_MAX_BYTES};
use crate::object::{self, Header, Kind};
use crate::page::{NONE, Owner, PageList, Pages};

/// One semi-space.
#[derive(Clone, Copy, Debug)]
pub struct SemiSpace {
    /// Its pages, in the order of use.
    pub list: PageList,
    /// The page in use.
    pub current: u32,
    /// Pages used before it.
    pub pages_used: usize,
}

impl SemiSpace {
    const EMPTY: SemiSpace = SemiSpace { list: PageList::EMPTY, current: NONE, pages_used: 0 };
}

/// New space.
#[derive(Debug)]
pub struct NewSpace {
    /// The semi-space in use.
    pub to: SemiSpace,
    /// The other one.
    pub from: SemiSpace,
    /// Next byte.
    pub top: usize,
    /// End of the page in use.
    pub limit: usize,
    /// Objects below this address have survived a collection.
    pub age_mark: usize,
    /// Pages of a semi-space.
    pub capacity_pages: usize,
}

impl NewSpace {
    /// Commits both semi-spaces; `None`: the system has no memory.
    pub fn new(pages: &mut Pages, capacity_pages: usize) -> Option<NewSpace> {
        let mut space = NewSpace {
            to: SemiSpace::EMPTY,
            from: SemiSpace::EMPTY,
            top: 0,
            limit: 0,
            age_mark: 0,
            capacity_pages,
        };
        if !space.rebalance(pages) {
            return None;
        }
        space.reset(pages);
        space.age_mark = space.top;
        Some(space)
    }

    /// Brings both semi-spaces to their number of pages: adds or removes pages at the end.
    pub fn rebalance(&mut self, pages: &mut Pages) -> bool {
        let capacity = self.capacity_pages;
        for (space, owner) in [(&mut self.to, Owner::To), (&mut self.from, Owner::From)] {
            while space.list.length > capacity {
                let last = space.list.last;
                pages.unlink(&mut space.list, last);
                pages.release(last);
            }
            while space.list.length < capacity {
                let Some(page) = pages.take(owner, 0) else { return false };
                pages.push_back(&mut space.list, page);
            }
        }
        true
    }

    /// Exchanges the semi-spaces and begins at the start of the new one.
    pub fn flip(&mut self, pages: &mut Pages) {
        std::mem::swap(&mut self.to, &mut self.from);
        for page in pages.of(&self.to.list) {
            pages[page].owner = Owner::To;
            pages[page].below_age_mark = false;
            pages[page].live_bytes = 0;
            pages[page].clear_marks();
        }
        for page in pages.of(&self.from.list) {
            pages[page].owner = Owner::From;
        }
        self.reset(pages);
    }

    fn reset(&mut self, pages: &Pages) {
        self.to.current = self.to.list.first;
        self.to.pages_used = 0;
        self.begin_page(pages);
    }

    fn begin_page(&mut self, pages: &Pages) {
        self.top = pages.area(self.to.current);
        self.limit = pages.end(self.to.current);
    }

    /// Bytes from the first page to the next byte.
    pub fn size(&self, pages: &Pages) -> usize {
        self.to.pages_used * pages.area_bytes() + self.top - pages.area(self.to.current)
    }

    /// The pages that have been allocated in, first to last.
    pub fn used_pages(&self, pages: &Pages) -> Vec<u32> {
        let last = pages.number(self.top - 8);
        let mut used = pages.of(&self.to.list);
        if let Some(at) = used.iter().position(|page| *page == last) {
            used.truncate(at + 1);
        } else {
            used.clear();
        }
        used
    }

    /// Bumps within the page, or on the next one if there is no room. `None`: no page is left.
    #[inline]
    pub fn allocate(&mut self, pages: &mut Pages, bytes: usize) -> Option<usize> {
        if self.limit - self.top < bytes && !self.advance(pages) {
            return None;
        }
        let address = self.top;
        self.top += bytes;
        Some(address)
    }

    #[cold]
    fn advance(&mut self, pages: &mut Pages) -> bool {
        let next = pages[self.to.current].next;
        if next == NONE || self.to.pages_used + 1 == self.capacity_pages {
            return false;
        }
        fill(self.top, self.limit - self.top);
        self.to.current = next;
        self.to.pages_used += 1;
        self.begin_page(pages);
        true
    }

    /// Whether an object of the semi-space being emptied has survived a collection before.
    pub fn is_old_enough(&self, pages: &Pages, address: usize) -> bool {
        let page = pages.number(address);
        if !pages[page].below_age_mark {
            return false;
        }
        let holds_mark = pages.area(page) <= self.age_mark && self.age_mark <= pages.end(page);
        !holds_mark || address < self.age_mark
    }

    /// Whether the age mark lies on a page.
    pub fn age_mark_is_on(&self, pages: &Pages, page: u32) -> bool {
        pages.area(page) <= self.age_mark && self.age_mark < pages.end(page)
    }

    /// Declares that everything allocated now has survived a collection.
    pub fn set_age_mark(&mut self, pages: &mut Pages) {
        self.age_mark = self.top;
        for page in self.used_pages(pages) {
            pages[page].below_age_mark = true;
        }
    }

    /// Moves a whole page from the semi-space being emptied into the other one.
    pub fn keep_page(&mut self, pages: &mut Pages, page: u32) {
        self.take_page(pages, page);
        pages[page].owner = Owner::To;
        pages[page].below_age_mark = false;
        pages.push_front(&mut self.to.list, page);
        self.to.pages_used += 1;
    }

    /// Takes a page out of the semi-space being emptied.
    pub fn take_page(&mut self, pages: &mut Pages, page: u32) {
        pages.unlink(&mut self.from.list, page);
    }
}

/// Writes a filler over bytes that hold no object.
pub fn fill(start: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: callers fill bytes that they own on a committed page: rests of pages and of
        // buffers, mementos.
        unsafe { object::set_header(start, Header::vacant(Kind::Filler, bytes)) };
    }
}

/// A piece of new space that one task of the collector bumps through.
#[derive(Debug, Default)]
pub struct Buffer {
    top: usize,
    limit: usize,
    exhausted: bool,
}

impl Buffer {
    /// Allocates in new space for the collector; `None`: new space is full.
    pub fn allocate(
        &mut self,
        new: &mut NewSpace,
        pages: &mut Pages,
        bytes: usize,
    ) -> Option<usize> {
        if bytes > BUFFERED_MAX_BYTES {
            return new.allocate(pages, bytes);
        }
        if self.limit - self.top < bytes && !self.refill(new, pages) {
            return None;
        }
        let address = self.top;
        self.top += bytes;
        Some(address)
    }

    fn refill(&mut self, new: &mut NewSpace, pages: &mut Pages) -> bool {
        if self.exhausted {
            return false;
        }
        let Some(start) = new.allocate(pages, BUFFER_BYTES) else {
            self.exhausted = true;
            return false;
        };
        if self.limit != start {
            fill(self.top, self.limit - self.top);
            self.top = start;
        }
        self.limit = start + BUFFER_BYTES;
        true
    }

    /// Returns the rest if nothing was allocated behind it.
    pub fn close(self, new: &mut NewSpace) {
        if self.limit != 0 && self.limit == new.top {
            new.top = self.top;
        } else {
            fill(self.top, self.limit - self.top);
        }
    }
}
