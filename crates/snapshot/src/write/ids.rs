//! Which ids there have been: a snapshot has each once.
//!
//! Exact and small: a bit an id where ids are dense, as V8's and [`crate::generate::ObjectIds`]'
//! are, and two bytes an id where they are sparse. Pages of 65,536 ids are each a sorted list while
//! short, and bits when not. The idea is Roaring's (Chambi, Lemire, Kaser, Godin 2016).

/// Ids of a page that make a list as large as its bits.
const LIST_MAX: usize = 4096;
const WORDS: usize = 65_536 / 64;

/// Ids below 2^32.
#[derive(Debug, Default)]
pub(super) struct IdSet {
    /// By the upper half of an id; grows to the largest there is.
    pages: Vec<Page>,
}

/// Ids that share their upper half.
#[derive(Debug)]
enum Page {
    /// Their lower halves, rising.
    List(Vec<u16>),
    /// A bit each.
    Bits(Box<[u64; WORDS]>),
}

impl IdSet {
    /// Adds an id, and returns whether it is new.
    #[inline]
    pub(super) fn insert(&mut self, id: u32) -> bool {
        let (page, low) = ((id >> 16) as usize, id as u16);
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || Page::List(Vec::new()));
        }
        match &mut self.pages[page] {
            Page::Bits(bits) => set(bits, low),
            Page::List(list)
                if list.last().is_none_or(|last| *last < low) && list.len() < LIST_MAX =>
            {
                list.push(low);
                true
            }
            page => page.insert_between(low),
        }
    }

    /// Whether the id is known.
    pub(super) fn contains(&self, id: u32) -> bool {
        let low = id as u16;
        match self.pages.get((id >> 16) as usize) {
            Some(Page::Bits(bits)) => bits[usize::from(low / 64)] >> (low % 64) & 1 == 1,
            Some(Page::List(list)) => list.binary_search(&low).is_ok(),
            None => false,
        }
    }
}

impl Page {
    /// Into a list, not at its end, or into one that is full.
    fn insert_between(&mut self, low: u16) -> bool {
        let Page::List(list) = self else { return false };
        let Err(place) = list.binary_search(&low) else { return false };
        if list.len() < LIST_MAX {
            list.insert(place, low);
            return true;
        }
        let mut bits = Box::new([0; WORDS]);
        for old in list {
            set(&mut bits, *old);
        }
        set(&mut bits, low);
        *self = Page::Bits(bits);
        true
    }
}

/// Sets a bit, and returns whether it was clear.
#[inline]
fn set(bits: &mut [u64; WORDS], low: u16) -> bool {
    let (word, bit) = (&mut bits[usize::from(low / 64)], 1 << (low % 64));
    let new = *word & bit == 0;
    *word |= bit;
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn it_knows_what_a_hash_set_knows(
            ids in prop::collection::vec(prop_oneof![0u32..200, 65_000u32..66_000, any::<u32>().prop_map(|id| id & 0x3ffff)], 0..400),
            run in (0u32..100_000, 0u32..10_000, 1u32..4),
        ) {
            let (mut ours, mut theirs) = (IdSet::default(), HashSet::new());
            let (from, count, step) = run;
            for id in ids.iter().copied().chain((0..count).map(|number| from + number * step)).chain(ids.iter().copied()) {
                prop_assert_eq!(ours.contains(id), theirs.contains(&id), "{}", id);
                prop_assert_eq!(ours.insert(id), theirs.insert(id), "{}", id);
            }
        }
    }

    #[test]
    fn the_largest_id_is_an_id() {
        let mut ids = IdSet::default();
        assert!(ids.insert(u32::MAX) && ids.insert(0) && !ids.insert(u32::MAX));
    }
}
