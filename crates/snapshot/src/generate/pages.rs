//! Objects numbered by address: a bit for each place of 16 bytes in the pages that have objects,
//! less than a byte an object where a page has many.
//!
//! An [`super::IdentityMap`] needs most of its memory for the order in which objects were met. If
//! that order does not matter, an object's ordinal is the number of objects in earlier pages and at
//! lower addresses in its own page. The ordinal is counted, not stored, and the way back from an
//! ordinal to its object is the same (rank and select). Pages stand in the order in which they were
//! met, so none moves; objects of one page stand by address.
//!
//! During the walk a second bit marks walked objects. Pages with unwalked objects wait in a stack,
//! each once, so there is no queue of objects either. Source: mark bitmaps of tracing collectors
//! (Boehm and Weiser's among them), which find pages with objects to mark in the same way.
//!
//! A page costs some 90 bytes during the walk and 60 after, regardless of its content. If handles
//! are addresses, that is at most 2.3 % of the memory that has objects. Handles that are not
//! addresses and lie far apart work too, but cost less in an identity map.

use super::identity::ROUND;
use crate::names::fold;

/// Places in a page.
const PLACES: u64 = 256;
/// Of 16 bytes each.
const PLACE_BITS: u32 = 4;
const WORDS: usize = PLACES as usize / 64;
/// Not a page: they are stored from 1 on.
const FREE: u32 = 0;
const SLOTS_LEAST: usize = 64;
/// More objects than this have no ordinals.
const OBJECTS_MAX: usize = u32::MAX as usize - 2;
/// One ordinal in so many has its page noted.
const SAMPLED: usize = 256;

/// 4 KiB of addresses that are equal in their low 4 bits.
#[derive(Clone, Copy, Debug)]
struct Page {
    number: u64,
    /// Places with an object.
    met: [u64; WORDS],
    /// Ordinal of the first object, once numbered.
    first: u32,
    /// Objects in the words before each, once numbered.
    before: [u8; WORDS],
}

impl Page {
    fn new(number: u64) -> Page {
        Page { number, met: [0; WORDS], first: 0, before: [0; WORDS] }
    }

    #[inline]
    fn has(&self, place: usize) -> bool {
        self.met[place / 64] >> (place % 64) & 1 == 1
    }

    #[inline]
    fn ordinal(&self, place: usize) -> u32 {
        let below = self.met[place / 64] & ((1 << (place % 64)) - 1);
        self.first + u32::from(self.before[place / 64]) + below.count_ones()
    }

    fn object(&self, place: usize) -> u64 {
        (self.number * PLACES + place as u64).rotate_left(PLACE_BITS)
    }
}

/// Page and place of an object. Every handle has one: the low bits of an address, which are mostly
/// 0, become the highest of the page's number.
#[inline]
fn split(object: u64) -> (u64, usize) {
    let turned = object.rotate_right(PLACE_BITS);
    (turned / PLACES, (turned % PLACES) as usize)
}

/// Objects, walked and then numbered.
#[derive(Debug)]
pub(super) struct AddressMap {
    root: u64,
    /// The first is the root's alone.
    pages: Vec<Page>,
    /// Page + 1, by the hash of its number.
    slots: Vec<u32>,
    objects: usize,
    walk: Option<Walk>,
    /// The page of each [`SAMPLED`]th ordinal.
    samples: Vec<u32>,
}

/// Data needed until the objects are numbered.
#[derive(Debug, Default)]
struct Walk {
    /// Of each page, which objects were walked.
    walked: Vec<[u64; WORDS]>,
    /// Pages with others; the last is walked next.
    waiting: Vec<u32>,
    /// Whether a page is among them.
    waits: Vec<bool>,
}

impl AddressMap {
    /// Starts with the root alone, which becomes ordinal 0.
    pub(super) fn new(root: u64) -> AddressMap {
        let mut map = AddressMap {
            root,
            pages: Vec::new(),
            slots: vec![FREE; SLOTS_LEAST],
            objects: 0,
            walk: Some(Walk::default()),
            samples: Vec::new(),
        };
        let (number, place) = split(root);
        map.push_page(number);
        map.meet(0, place);
        map
    }

    pub(super) fn len(&self) -> usize {
        self.objects
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.pages.len() * size_of::<Page>()
            + (self.slots.len() + self.samples.len()) * size_of::<u32>()
    }

    fn push_page(&mut self, number: u64) {
        self.pages.push(Page::new(number));
        if let Some(walk) = &mut self.walk {
            walk.walked.push([0; WORDS]);
            walk.waits.push(false);
        }
    }

    fn meet(&mut self, page: usize, place: usize) {
        self.pages[page].met[place / 64] |= 1 << (place % 64);
        self.objects += 1;
        if let Some(walk) = &mut self.walk
            && !std::mem::replace(&mut walk.waits[page], true)
        {
            walk.waiting.push(page as u32);
        }
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        let hash = fold(number ^ 0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93);
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    /// The page with this number, or the slot for it.
    #[inline]
    fn page_from(&self, number: u64, mut slot: usize) -> Result<usize, usize> {
        loop {
            let entry = self.slots[slot];
            if entry == FREE {
                return Err(slot);
            }
            if self.pages[entry as usize - 1].number == number {
                return Ok(entry as usize - 1);
            }
            slot += 1;
            if slot == self.slots.len() {
                slot = 0;
            }
        }
    }

    /// Adds an object if it is new; false if there are too many objects.
    pub(super) fn add(&mut self, object: u64) -> bool {
        let (number, place) = split(object);
        match self.page_from(number, self.slot(number)) {
            Ok(page) if self.pages[page].has(place) => return true,
            _ if object == self.root => return true,
            _ if self.objects == OBJECTS_MAX => return false,
            Ok(page) => self.meet(page, place),
            Err(slot) => {
                self.push_page(number);
                self.slots[slot] = self.pages.len() as u32;
                self.meet(self.pages.len() - 1, place);
                if self.pages.len() * 3 > self.slots.len() * 2 {
                    self.grow();
                }
            }
        }
        true
    }

    fn grow(&mut self) {
        let slots = self.slots.len() + self.slots.len() / 2;
        self.slots = Vec::new();
        self.slots = vec![FREE; slots];
        for page in 1..self.pages.len() {
            let number = self.pages[page].number;
            if let Err(slot) = self.page_from(number, self.slot(number)) {
                self.slots[slot] = page as u32 + 1;
            }
        }
    }

    /// Whether an object was added.
    pub(super) fn contains(&self, object: u64) -> bool {
        let (number, place) = split(object);
        object == self.root
            || self
                .page_from(number, self.slot(number))
                .is_ok_and(|page| self.pages[page].has(place))
    }

    /// The next object that was not walked yet; it counts as walked now.
    pub(super) fn next_to_walk(&mut self) -> Option<u64> {
        let walk = self.walk.as_mut()?;
        loop {
            let number = *walk.waiting.last()? as usize;
            let (page, walked) = (&self.pages[number], &mut walk.walked[number]);
            for (word, (met, walked)) in page.met.iter().zip(walked).enumerate() {
                let left = met & !*walked;
                if left != 0 {
                    *walked |= left & left.wrapping_neg();
                    return Some(page.object(word * 64 + left.trailing_zeros() as usize));
                }
            }
            walk.waits[number] = false;
            walk.waiting.pop();
        }
    }

    /// After the walk: objects get their ordinals.
    pub(super) fn number(&mut self) {
        self.walk = None;
        self.pages.shrink_to_fit();
        self.samples = Vec::with_capacity(self.objects / SAMPLED + 1);
        let mut ordinal = 0;
        for (number, page) in self.pages.iter_mut().enumerate() {
            page.first = ordinal;
            let mut before = 0;
            for word in 0..WORDS {
                // Three words have at most 192.
                page.before[word] = before as u8;
                before += page.met[word].count_ones();
            }
            ordinal += before;
            while self.samples.len() * SAMPLED < ordinal as usize {
                self.samples.push(number as u32);
            }
        }
    }

    /// The object with this ordinal.
    pub(super) fn object(&self, ordinal: usize) -> u64 {
        let sample = ordinal / SAMPLED;
        let start = self.samples[sample] as usize;
        let end = self.samples.get(sample + 1).map_or(self.pages.len(), |page| *page as usize + 1);
        let after = self.pages[start..end].partition_point(|page| page.first as usize <= ordinal);
        let page = &self.pages[start + after - 1];
        let rank = ordinal as u32 - page.first;
        let word = (1..WORDS).rev().find(|word| u32::from(page.before[*word]) <= rank).unwrap_or(0);
        let mut left = page.met[word];
        for _ in u32::from(page.before[word])..rank {
            left &= left - 1;
        }
        page.object(word * 64 + left.trailing_zeros() as usize)
    }

    /// All objects in the order of their ordinals.
    pub(super) fn objects(&self) -> Objects<'_> {
        Objects { pages: &self.pages, word: 0, left: self.pages[0].met[0] }
    }

    /// The ordinals of objects, `u32::MAX` for those that are unknown; `found` is as long as
    /// `objects`.
    pub(super) fn find_all(&self, objects: &[u64], found: &mut [u32]) {
        let (mut slots, mut entries) = ([0; ROUND], [FREE; ROUND]);
        for (objects, found) in objects.chunks(ROUND).zip(found.chunks_mut(ROUND)) {
            for (slot, object) in slots.iter_mut().zip(objects) {
                *slot = self.slot(split(*object).0);
            }
            for (entry, slot) in entries.iter_mut().zip(&slots[..objects.len()]) {
                *entry = self.slots[*slot];
            }
            for (index, object) in objects.iter().enumerate() {
                let (number, place) = split(*object);
                let at_once = (entries[index] as usize).wrapping_sub(1);
                let page = match self.pages.get(at_once) {
                    Some(page) if page.number == number => Some(page),
                    _ => self.page_from(number, slots[index]).ok().map(|page| &self.pages[page]),
                };
                found[index] = match page {
                    Some(page) if page.has(place) => page.ordinal(place),
                    _ if *object == self.root => 0,
                    _ => u32::MAX,
                };
            }
        }
    }
}

/// Objects by ordinal.
pub(super) struct Objects<'a> {
    /// The one that is being gone through, and those behind it.
    pages: &'a [Page],
    word: usize,
    left: u64,
}

impl Iterator for Objects<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        while self.left == 0 {
            self.word += 1;
            if self.word == WORDS {
                (self.pages, self.word) = (self.pages.get(1..).unwrap_or_default(), 0);
            }
            self.left = self.pages.first()?.met[self.word];
        }
        let place = self.word * 64 + self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        Some(self.pages[0].object(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn numbered(objects: impl Iterator<Item = u64>) -> AddressMap {
        let mut map = AddressMap::new(1);
        objects.for_each(|object| assert!(map.add(object)));
        map.number();
        map
    }

    #[test]
    fn bytes_an_object_stay_below_one_and_of_memory_below_a_fortieth() {
        let map = numbered((0..200_000u64).map(|object| object * 48 + 0x7f00_0000_0000));
        assert!(
            (map.memory_bytes() as f64) < map.len() as f64 * 0.8,
            "{} objects, {} bytes",
            map.len(),
            map.memory_bytes()
        );
        // One object a page, and the walk's part still there.
        let mut map = AddressMap::new(1);
        (0..20_000u64).for_each(|page| assert!(map.add(page << 12)));
        let walk = map.walk.as_ref().unwrap();
        let walk_bytes = walk.walked.len() * size_of::<[u64; WORDS]>()
            + walk.waiting.len() * size_of::<u32>()
            + walk.waits.len();
        assert!(
            map.memory_bytes() + walk_bytes < 20_000 * 4096 / 40,
            "{} and {walk_bytes} bytes",
            map.memory_bytes()
        );
    }

    /// Handles of all kinds: close together, on odd addresses, far apart, at both ends.
    fn handles() -> impl Strategy<Value = Vec<u64>> {
        let one = prop_oneof![
            4 => (0u64..2000).prop_map(|at| 0x7f12_0000_0000 + at * 16),
            2 => (0u64..600).prop_map(|at| 0x7f12_0000_0000 + at),
            1 => (0u64..64).prop_map(|at| at << 40),
            1 => (0u64..40).prop_map(|at| 1 << 63 | at),
            1 => prop_oneof![Just(0), Just(1), Just(2), Just(u64::MAX), Just(u64::MAX - 15)],
            1 => any::<u64>(),
        ];
        prop::collection::vec(one, 0..400)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_a_map(objects in handles(), strangers in handles(), root in prop_oneof![Just(1u64), Just(0x7f12_0000_0800), any::<u64>()], walks in 0usize..9) {
            let mut map = AddressMap::new(root);
            let mut model = HashSet::from([root]);
            let mut walked = HashSet::new();
            for object in &objects {
                prop_assert!(map.add(*object));
                model.insert(*object);
                prop_assert_eq!(map.len(), model.len());
                // Some are walked while others are still to be met.
                for _ in 0..walks / 4 {
                    if let Some(object) = map.next_to_walk() {
                        prop_assert!(model.contains(&object) && walked.insert(object));
                    }
                }
            }
            while let Some(object) = map.next_to_walk() {
                prop_assert!(walked.insert(object));
            }
            prop_assert_eq!(&walked, &model);
            for object in objects.iter().chain(&strangers) {
                prop_assert_eq!(map.contains(*object), model.contains(object));
            }
            map.number();
            let in_order: Vec<u64> = map.objects().collect();
            prop_assert_eq!(in_order.len(), model.len());
            prop_assert_eq!(in_order[0], root);
            let ordinals: HashMap<u64, u32> = in_order.iter().copied().zip(0..).collect();
            prop_assert_eq!(&ordinals.keys().copied().collect::<HashSet<u64>>(), &model);
            for (ordinal, object) in in_order.iter().enumerate() {
                prop_assert_eq!(map.object(ordinal), *object);
            }
            let asked: Vec<u64> = objects.iter().chain(&strangers).copied().chain([root, 0, u64::MAX]).collect();
            let mut found = vec![0; asked.len()];
            map.find_all(&asked, &mut found);
            for (object, found) in asked.iter().zip(found) {
                prop_assert_eq!(found, ordinals.get(object).copied().unwrap_or(u32::MAX));
            }
        }
    }
}
