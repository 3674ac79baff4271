//! A hash map from block addresses to live objects: linear probing with backward-shift deletion.
//!
//! Resolving uses the map once or twice an event: it is the hot path of finishing. A lookup costs
//! one multiplication and as a rule one cache line. No tombstones, because a workload has as many
//! removals as insertions. (Knuth, TAOCP 3, 6.4, algorithm R.)

/// The object at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// The object's number in the bundle.
    pub object: u64,
    /// Bytes asked for.
    pub size: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// 0: empty.
    address: u64,
    live: Live,
}

const EMPTY: Slot = Slot { address: 0, live: Live { object: 0, size: 0 } };

/// Maps addresses (never 0) to [`Live`].
#[derive(Clone, Debug)]
pub struct AddressMap {
    slots: Vec<Slot>,
    length: usize,
    /// 64 - log2 of the number of slots.
    shift: u32,
}

impl Default for AddressMap {
    fn default() -> Self {
        AddressMap { slots: Vec::new(), length: 0, shift: 64 }
    }
}

impl AddressMap {
    /// Number of addresses.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    #[inline]
    fn home(&self, address: u64) -> usize {
        // Blocks are 16 bytes apart; the golden ratio spreads neighbours over the table.
        ((address >> 4 ^ address << 60).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    /// The slot of `address`, or the empty slot to insert it into. The table must not be empty.
    #[inline]
    fn find(&self, address: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(address) & mask;
        while self.slots[at].address != address && self.slots[at].address != 0 {
            at = (at + 1) & mask;
        }
        at
    }

    /// The object at `address`.
    #[inline]
    pub fn get(&self, address: u64) -> Option<Live> {
        if self.length == 0 || address == 0 {
            return None;
        }
        let slot = self.slots[self.find(address)];
        (slot.address == address).then_some(slot.live)
    }

    /// Puts `live` at `address` (not 0) and returns the previous object.
    #[inline]
    pub fn insert(&mut self, address: u64, live: Live) -> Option<Live> {
        debug_assert_ne!(address, 0);
        if (self.length + 1) * 8 > self.slots.len() * 5 {
            self.grow();
        }
        let at = self.find(address);
        let before = std::mem::replace(&mut self.slots[at], Slot { address, live });
        if before.address == address {
            return Some(before.live);
        }
        self.length += 1;
        None
    }

    /// Removes `address` and returns its object.
    #[inline]
    pub fn remove(&mut self, address: u64) -> Option<Live> {
        if self.length == 0 || address == 0 {
            return None;
        }
        let mut hole = self.find(address);
        let found = self.slots[hole];
        if found.address != address {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let candidate = self.slots[next].address;
            if candidate == 0 {
                break;
            }
            // The candidate may move back into the hole unless its home lies (cyclically) after the
            // hole.
            let home = self.home(candidate) & mask;
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
        }
        self.slots[hole] = EMPTY;
        self.length -= 1;
        Some(found.live)
    }

    /// All addresses with their objects, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Live)> + '_ {
        self.slots.iter().filter(|slot| slot.address != 0).map(|slot| (slot.address, slot.live))
    }

    #[cold]
    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(64);
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; slots]);
        self.shift = 64 - slots.trailing_zeros();
        for slot in old.into_iter().filter(|slot| slot.address != 0) {
            let at = self.find(slot.address);
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn behaves_as_the_standard_map(operations in prop::collection::vec((0_u8..3, 1_u64..200, any::<u64>()), 0..600), spread in 0_u32..40) {
            let mut ours = AddressMap::default();
            let mut theirs = HashMap::new();
            for (operation, key, value) in operations {
                let (address, live) = (key << spread, Live { object: value, size: value >> 7 });
                match operation {
                    0 => prop_assert_eq!(ours.insert(address, live), theirs.insert(address, live)),
                    1 => prop_assert_eq!(ours.remove(address), theirs.remove(&address)),
                    _ => prop_assert_eq!(ours.get(address), theirs.get(&address).copied()),
                }
                prop_assert_eq!(ours.len(), theirs.len());
            }
            let all: HashMap<u64, Live> = ours.iter().collect();
            prop_assert_eq!(all, theirs);
        }
    }

    #[test]
    fn address_zero_is_never_there() {
        let mut map = AddressMap::default();
        map.insert(16, Live { object: 1, size: 2 });
        assert_eq!((map.get(0), map.remove(0)), (None, None));
    }
}
