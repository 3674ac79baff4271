//! Live objects by id.
//!
//! Ids are dense in birth order and most objects die young. So the youngest live in pages of a
//! slab, found by the upper bits of their id. A page with few survivors moves them to a hash table
//! and goes; so does the oldest page when the directory of pages is much longer than its number of
//! pages. Each object moves at most once, and memory is within a constant factor of the live
//! objects, however many have lived. (An array indexed by id would keep a word for every object
//! ever born; a hash table alone costs a cache miss an event.)

use crate::Object;
use hashbrown::HashMap;
use heaplab_trace::ObjectId;
use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, Hasher};

const PAGE_BITS: u32 = 8;
const PAGE: usize = 1 << PAGE_BITS;
/// A full page goes when at most this many of its objects are left.
const FEW: usize = PAGE / 8;

/// Hashes integers by a multiplication; a recording's owner chose its ids, so no stronger hash is
/// needed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// A hash table keyed by integers.
pub(crate) type IntegerMap<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

#[derive(Debug)]
struct Page {
    count: usize,
    present: [u64; PAGE / 64],
    objects: [Object; PAGE],
}

impl Page {
    fn new() -> Box<Page> {
        Box::new(Page { count: 0, present: [0; PAGE / 64], objects: [Object::default(); PAGE] })
    }

    fn has(&self, slot: usize) -> bool {
        self.present[slot / 64] >> (slot % 64) & 1 == 1
    }
}

/// The live objects.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// Page `first + index` of the id space.
    pages: VecDeque<Option<Box<Page>>>,
    first: u64,
    held: usize,
    old: IntegerMap<ObjectId, Object>,
    /// One spare page, so that a program at a page's edge does not allocate for every object.
    spare: Option<Box<Page>>,
}

impl Live {
    /// Number of live objects.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.old.len() + self.pages.iter().flatten().map(|page| page.count).sum::<usize>()
    }

    /// Adds a newborn; false if the id is live already.
    pub(crate) fn insert(&mut self, id: ObjectId, object: Object) -> bool {
        let number = id >> PAGE_BITS;
        if self.pages.is_empty() {
            self.first = number;
        }
        let Some(index) = number.checked_sub(self.first) else {
            return self.old.insert(id, object).is_none();
        };
        if index >= self.pages.len() as u64 {
            if self.old.contains_key(&id) {
                return false;
            }
            self.open(number);
        }
        let index = (number - self.first) as usize;
        let slot = id as usize % PAGE;
        match &mut self.pages[index] {
            Some(page) if page.has(slot) => false,
            Some(page) => {
                page.present[slot / 64] |= 1 << (slot % 64);
                page.objects[slot] = object;
                page.count += 1;
                true
            }
            None => self.old.insert(id, object).is_none(),
        }
    }

    /// Begins page `number`, younger than all others. Gaps (ids of other processes) are not stored
    /// page by page.
    fn open(&mut self, number: u64) {
        if let Some(index) = self.pages.len().checked_sub(1) {
            self.close_if_few(index);
        }
        let gap = number - self.first - self.pages.len() as u64;
        if gap > PAGE as u64 {
            for index in 0..self.pages.len() {
                self.close(index);
            }
            self.pages.clear();
            self.first = number;
        }
        while self.first + (self.pages.len() as u64) < number {
            self.pages.push_back(None);
        }
        self.pages.push_back(Some(self.spare.take().unwrap_or_else(Page::new)));
        self.held += 1;
        while self.pages.len() > 64 + 4 * self.held {
            self.close(0);
            self.trim();
        }
    }

    fn close_if_few(&mut self, index: usize) {
        if self.pages[index].as_ref().is_some_and(|page| page.count <= FEW) {
            self.close(index);
            self.trim();
        }
    }

    fn close(&mut self, index: usize) {
        let Some(mut page) = self.pages[index].take() else { return };
        self.held -= 1;
        let base = (self.first + index as u64) << PAGE_BITS;
        for slot in (0..PAGE).filter(|slot| page.has(*slot)) {
            self.old.insert(base + slot as u64, page.objects[slot]);
        }
        page.count = 0;
        page.present = [0; PAGE / 64];
        self.spare = Some(page);
    }

    fn trim(&mut self) {
        while self.pages.len() > 1 && self.pages.front().is_some_and(Option::is_none) {
            self.pages.pop_front();
            self.first += 1;
        }
    }

    #[inline]
    fn page_of(&mut self, id: ObjectId) -> Option<usize> {
        let index = (id >> PAGE_BITS).checked_sub(self.first)?;
        (index < self.pages.len() as u64).then_some(index as usize)
    }

    /// The object, mutable.
    pub(crate) fn get_mut(&mut self, id: ObjectId) -> Option<&mut Object> {
        let slot = id as usize % PAGE;
        if let Some(index) = self.page_of(id)
            && self.pages[index].as_ref().is_some_and(|page| page.has(slot))
        {
            return self.pages[index].as_mut().map(|page| &mut page.objects[slot]);
        }
        self.old.get_mut(&id)
    }

    /// Removes the object.
    pub(crate) fn remove(&mut self, id: ObjectId) -> Option<Object> {
        let slot = id as usize % PAGE;
        if let Some(index) = self.page_of(id) {
            let filling = index + 1 == self.pages.len();
            if let Some(page) = self.pages[index].as_mut().filter(|page| page.has(slot)) {
                page.present[slot / 64] &= !(1 << (slot % 64));
                page.count -= 1;
                let object = page.objects[slot];
                if page.count <= FEW && !filling {
                    self.close(index);
                    self.trim();
                }
                return Some(object);
            }
        }
        let object = self.old.remove(&id);
        // A table that once held many survivors gives its memory back.
        if self.old.capacity() > 1024 && self.old.len() < self.old.capacity() / 8 {
            self.old.shrink_to(self.old.len() * 2);
        }
        object
    }

    /// All live objects, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        let paged = self
            .pages
            .iter()
            .enumerate()
            .filter_map(|(index, page)| Some((index, page.as_deref()?)))
            .flat_map(|(index, page)| {
                let base = (self.first + index as u64) << PAGE_BITS;
                (0..PAGE)
                    .filter(|slot| page.has(*slot))
                    .map(move |slot| (base + slot as u64, &page.objects[slot]))
            });
        paged.chain(self.old.iter().map(|(id, object)| (*id, object)))
    }

    /// Places for objects held in memory, live or not.
    #[cfg(test)]
    fn places(&self) -> usize {
        self.held * PAGE + self.old.capacity() + self.pages.len() / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn object(size: u64) -> Object {
        Object { size, ..Object::default() }
    }

    #[test]
    fn memory_follows_the_living() {
        let mut live = Live::default();
        // One in a thousand survives a million births.
        for id in 0..1_000_000 {
            assert!(live.insert(id, object(id)));
            if id % 1000 != 0 {
                assert_eq!(live.remove(id).map(|object| object.size), Some(id));
            }
        }
        assert_eq!(live.len(), 1000);
        assert!(live.places() < 8000, "{} places for 1000 objects", live.places());
        for id in (0..1_000_000).step_by(1000) {
            assert!(live.remove(id).is_some());
        }
        assert_eq!(live.len(), 0);
        assert!(live.places() < 2000, "{} places for none", live.places());
    }

    #[test]
    fn an_id_at_the_end_of_the_number_range_is_an_id() {
        let mut live = Live::default();
        assert!(live.insert(3, object(1)));
        assert!(live.insert(u64::MAX, object(2)));
        assert!(live.insert(u64::MAX - 1, object(3)));
        assert!(!live.insert(3, object(1)));
        assert_eq!(live.remove(u64::MAX).map(|object| object.size), Some(2));
        assert_eq!(live.len(), 2);
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(operations in prop::collection::vec((0..4u8, 0..3000u64, any::<u32>()), 1..2000)) {
            let mut live = Live::default();
            let mut model = BTreeMap::new();
            let mut next = 0;
            for (what, at, size) in operations {
                match what {
                    0 | 1 => {
                        // Mostly the next id, sometimes after a gap, as left by another process.
                        next += if at % 50 == 0 { at * 7 } else { 1 };
                        let new = !model.contains_key(&next);
                        prop_assert_eq!(live.insert(next, object(size.into())), new);
                        model.entry(next).or_insert(u64::from(size));
                    }
                    2 => prop_assert_eq!(live.remove(at).map(|object| object.size), model.remove(&at)),
                    _ => prop_assert_eq!(live.get_mut(at).map(|object| object.size), model.get(&at).copied()),
                }
            }
            let found: BTreeMap<u64, u64> = live.iter().map(|(id, object)| (id, object.size)).collect();
            prop_assert_eq!(found, model);
        }
    }
}
