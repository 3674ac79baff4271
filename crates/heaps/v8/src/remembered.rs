//! Remembered sets: pages of old space with array objects whose elements are young.
//!
//! Source: V8's remembered-set.h, memory-chunk.cc and scavenger.cc. A scavenge visits a page that
//! has a set, even an empty one, and takes it off the list of pages to sweep until then: sets
//! decide what a scavenge sweeps. In 7.8 and 7.9 a page keeps its set. Later versions free a set
//! that a collection left empty. They also put a page's set aside while the page waits to be swept,
//! and merge it into the page's own when old space adopts the page; scavenges do not free a set
//! that was put aside.
//!
//! Deviation: a page that has both sets counts all its array objects to the set put aside.

use crate::facts::Version;
use crate::heap::Parts;
use crate::object::{self, Kind};
use crate::page::Page;
use crate::space::MAIN;
use heaplab_heap::World;
use std::collections::BTreeSet;

impl Page {
    /// A scavenge visits the page.
    pub fn has_remembered_set(&self) -> bool {
        self.remembered || self.set_aside
    }

    /// Makes the set that was put aside the page's own again (`MergeOldToNewRememberedSets`).
    pub fn merge_sets(&mut self) {
        self.remembered |= std::mem::take(&mut self.set_aside);
    }

    /// Puts the set aside (`MoveOldToNewRememberedSetForSweeping`).
    pub fn put_set_aside(&mut self, version: &Version) {
        if !version.remembered_sets_stay {
            self.set_aside = std::mem::take(&mut self.remembered);
        }
    }
}

impl Parts {
    /// After a full collection: forgets array objects that died or moved, and remembers array
    /// objects that became old before their elements. The table's slots cover all other young
    /// objects.
    pub fn remember_anew<W: World>(&mut self, world: &W) {
        let may_be_parted = self.parted || !self.remembered_arrays.is_empty();
        self.parted = false;
        self.remembered_arrays.clear();
        if may_be_parted {
            self.find_parted(world);
        }
        if !self.old.version.remembered_sets_stay {
            self.free_empty_sets(self.old.pages.of(&self.old.spaces[MAIN].list), false);
        }
    }

    /// Remembers old array objects with young elements.
    fn find_parted<W: World>(&mut self, world: &W) {
        for slot in 0..world.slots() {
            let Some(object) = world.object(slot) else { continue };
            let start = self.start_of(object.address);
            if !self.is_young(start) {
                continue;
            }
            // SAFETY: the world's objects are this heap's; elements have their array object's
            // address.
            let array = unsafe {
                (object::header(start).kind == Kind::Elements).then(|| object::link(start))
            };
            if let Some(array) = array.filter(|&array| !self.is_young(array)) {
                self.remember(array);
            }
        }
    }

    /// Adds an old array object with young elements to its page's remembered set.
    pub fn remember(&mut self, array: usize) {
        let page = self.old.pages.number(array);
        let books = &mut self.old.pages[page];
        books.remembered |= !books.set_aside;
        self.remembered_arrays.insert(array);
    }

    /// Frees the empty sets of these pages; those that were put aside stay if `aside_stay`.
    pub fn free_empty_sets(&mut self, pages: Vec<u32>, aside_stay: bool) {
        let arrays = self.remembered_arrays.iter();
        let filled: BTreeSet<u32> = arrays.map(|&array| self.old.pages.number(array)).collect();
        for page in pages {
            let books = &mut self.old.pages[page];
            if filled.contains(&page) || aside_stay && books.set_aside {
                continue;
            }
            (books.remembered, books.set_aside) = (false, false);
        }
    }
}
