//! Which object is which node: object -> ordinal, and ordinal -> object, in 14 to 16 bytes an
//! object, in the order in which they were met.
//!
//! One array holds the objects in node order. A slot of the table holds only an ordinal and, in the
//! bits that ordinals do not need yet, part of the hash. So a slot of another object seldom costs a
//! look into the array. The table grows by a quarter and is refilled from the array after the old
//! table is freed, so both never exist at once and few slots stay free.
//!
//! A heap's references go everywhere, so every lookup is two cache misses, one after the other.
//! [`IdentityMap::find_all`] looks up many objects at once, in rounds of loads that do not depend
//! on each other.

use crate::names::fold;

const FREE: u32 = 0;
const SLOTS_LEAST: usize = 64;
/// Objects looked up in one round.
pub(super) const ROUND: usize = 64;

/// Objects and their ordinals.
#[derive(Debug)]
pub struct IdentityMap {
    objects: Vec<u64>,
    /// Ordinal + 1 in the low bits, hash above.
    slots: Vec<u32>,
    ordinal_bits: u32,
}

impl IdentityMap {
    /// With room for that many objects.
    pub(super) fn with_capacity(objects: usize) -> IdentityMap {
        let mut map = IdentityMap {
            objects: Vec::with_capacity(objects),
            slots: Vec::new(),
            ordinal_bits: 0,
        };
        map.allocate(SLOTS_LEAST.max(objects.saturating_mul(5) / 3));
        map
    }

    fn allocate(&mut self, slots: usize) {
        self.slots = Vec::new();
        self.slots = vec![FREE; slots];
        self.ordinal_bits = (usize::BITS - slots.leading_zeros()).min(32);
    }

    /// Objects so far.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The object with this ordinal.
    pub(super) fn object(&self, ordinal: usize) -> u64 {
        self.objects[ordinal]
    }

    /// All objects in order.
    pub(super) fn objects(&self) -> std::iter::Copied<std::slice::Iter<'_, u64>> {
        self.objects.iter().copied()
    }

    /// Its memory, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.objects.len() * 8 + self.slots.len() * 4
    }

    /// The first slot to try, and the hash bits in a slot's upper bits.
    #[inline]
    fn place(&self, object: u64) -> (usize, u32) {
        let hash = fold(object ^ 0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93);
        let slot = ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize;
        // The low bits of the hash say least about the slot.
        let tag = if self.ordinal_bits == 32 { 0 } else { (hash as u32) << self.ordinal_bits };
        (slot, tag)
    }

    #[inline]
    fn ordinal_mask(&self) -> u32 {
        u32::MAX.checked_shr(32 - self.ordinal_bits).unwrap_or(0)
    }

    /// Its ordinal, from that slot on.
    #[inline]
    fn find_from(&self, object: u64, mut slot: usize, tag: u32) -> Result<u32, usize> {
        let mask = self.ordinal_mask();
        loop {
            let entry = self.slots[slot];
            if entry == FREE {
                return Err(slot);
            }
            if entry & !mask == tag && self.objects[(entry & mask) as usize - 1] == object {
                return Ok((entry & mask) - 1);
            }
            slot += 1;
            if slot == self.slots.len() {
                slot = 0;
            }
        }
    }

    /// Its ordinal.
    pub fn find(&self, object: u64) -> Option<u32> {
        let (slot, tag) = self.place(object);
        self.find_from(object, slot, tag).ok()
    }

    /// The ordinals of objects, `u32::MAX` for those that are unknown; `found` is as long as
    /// `objects`.
    pub(super) fn find_all(&self, objects: &[u64], found: &mut [u32]) {
        let mask = self.ordinal_mask();
        let (mut places, mut entries, mut firsts) = ([(0, 0); ROUND], [FREE; ROUND], [0u64; ROUND]);
        for (objects, found) in objects.chunks(ROUND).zip(found.chunks_mut(ROUND)) {
            for (place, object) in places.iter_mut().zip(objects) {
                *place = self.place(*object);
            }
            for (entry, place) in entries.iter_mut().zip(&places[..objects.len()]) {
                *entry = self.slots[place.0];
            }
            for (first, entry) in firsts.iter_mut().zip(&entries[..objects.len()]) {
                *first = self
                    .objects
                    .get(((entry & mask) as usize).wrapping_sub(1))
                    .copied()
                    .unwrap_or(0);
            }
            for (index, object) in objects.iter().enumerate() {
                let entry = entries[index];
                found[index] = if entry != FREE && firsts[index] == *object {
                    (entry & mask) - 1
                } else {
                    self.find_from(*object, places[index].0, places[index].1).unwrap_or(u32::MAX)
                };
            }
        }
    }

    /// Adds an object if it is new; `None` if there are too many objects.
    pub(super) fn add(&mut self, object: u64) -> Option<u32> {
        let (slot, tag) = self.place(object);
        let slot = match self.find_from(object, slot, tag) {
            Ok(ordinal) => return Some(ordinal),
            Err(slot) => slot,
        };
        let ordinal =
            u32::try_from(self.objects.len()).ok().filter(|ordinal| *ordinal < u32::MAX - 1)?;
        self.objects.push(object);
        self.slots[slot] = tag | (ordinal + 1);
        if self.objects.len() * 3 > self.slots.len() * 2 {
            self.grow();
        }
        Some(ordinal)
    }

    fn grow(&mut self) {
        self.allocate(self.slots.len() + self.slots.len() / 4);
        for ordinal in 0..self.objects.len() {
            let (mut slot, tag) = self.place(self.objects[ordinal]);
            while self.slots[slot] != FREE {
                slot += 1;
                if slot == self.slots.len() {
                    slot = 0;
                }
            }
            self.slots[slot] = tag | (ordinal as u32 + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_an_object_stay_under_sixteen() {
        let mut map = IdentityMap::with_capacity(0);
        for object in 0..200_000u64 {
            map.add(object * 48 + 0x7f00_0000_0000).unwrap();
            assert!(
                map.len() < 1000 || map.memory_bytes() <= map.len() * 16,
                "{} objects, {} bytes",
                map.len(),
                map.memory_bytes()
            );
        }
        assert!(map.memory_bytes() >= map.len() * 12);
    }

    proptest! {
        #[test]
        fn it_is_a_map(objects in prop::collection::vec(0u64..400, 0..600), capacity in 0usize..900) {
            let mut map = IdentityMap::with_capacity(capacity);
            let mut model: Vec<u64> = Vec::new();
            for object in &objects {
                let object = object * 0x1_0000_0010;
                let expected = model.iter().position(|known| *known == object).unwrap_or_else(|| {
                    model.push(object);
                    model.len() - 1
                });
                prop_assert_eq!(map.add(object), Some(expected as u32));
            }
            let asked: Vec<u64> = (0..400).map(|object| object * 0x1_0000_0010).collect();
            let mut found = vec![0; asked.len()];
            map.find_all(&asked, &mut found);
            for (object, found) in asked.iter().zip(found) {
                let expected = model.iter().position(|known| known == object).map(|at| at as u32);
                prop_assert_eq!(map.find(*object), expected);
                prop_assert_eq!(found, expected.unwrap_or(u32::MAX));
            }
        }
    }
}
