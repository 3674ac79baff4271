//! The map of a node, in two bits for each kilobyte: whether a chunk starts here, and whether the
//! kilobyte is in use.
//!
//! Merging asks both questions of an area without walking its chunks. Source:
//! `metaspace/occupancyMap.hpp`. HotSpot scans bytes, this code words of 64 bits, with the same
//! answers.

use super::facts::{SPECIALIZED_WORDS, WORD};

const UNIT: usize = SPECIALIZED_WORDS * WORD;

/// The map of one node.
pub(super) struct OccupancyMap {
    base: usize,
    starts: Vec<u64>,
    in_use: Vec<u64>,
}

impl OccupancyMap {
    /// A map of `words` reserved words from `base`; nothing starts and nothing is in use.
    pub fn new(base: usize, words: usize) -> OccupancyMap {
        let cells = (words * WORD / UNIT).div_ceil(64);
        OccupancyMap { base, starts: vec![0; cells], in_use: vec![0; cells] }
    }

    fn unit(&self, address: usize) -> usize {
        debug_assert!(
            address >= self.base && (address - self.base).is_multiple_of(UNIT),
            "{address:#x} is no chunk boundary"
        );
        (address - self.base) / UNIT
    }

    /// Whether a chunk starts at `address`.
    pub fn starts_at(&self, address: usize) -> bool {
        let unit = self.unit(address);
        self.starts[unit / 64] >> (unit % 64) & 1 == 1
    }

    /// Notes that a chunk starts at `address`.
    pub fn set_start(&mut self, address: usize) {
        let unit = self.unit(address);
        write_bits(&mut self.starts, unit, unit + 1, true);
    }

    /// Clears all starts in the `words` from `address`.
    pub fn wipe_starts(&mut self, address: usize, words: usize) {
        let (from, to) = self.units(address, words);
        write_bits(&mut self.starts, from, to, false);
    }

    /// Marks the `words` from `address`.
    pub fn set_in_use(&mut self, address: usize, words: usize, in_use: bool) {
        let (from, to) = self.units(address, words);
        write_bits(&mut self.in_use, from, to, in_use);
    }

    /// Whether any of the `words` from `address` is in use.
    pub fn any_in_use(&self, address: usize, words: usize) -> bool {
        let (from, to) = self.units(address, words);
        any_bit(&self.in_use, from, to)
    }

    /// Whether all of the `words` from `address` are in use.
    pub fn all_in_use(&self, address: usize, words: usize) -> bool {
        let (from, to) = self.units(address, words);
        masks(from, to).all(|(cell, mask)| self.in_use[cell] & mask == mask)
    }

    /// Whether any chunk starts in the `words` from `address`.
    pub fn any_start(&self, address: usize, words: usize) -> bool {
        let (from, to) = self.units(address, words);
        any_bit(&self.starts, from, to)
    }

    fn units(&self, address: usize, words: usize) -> (usize, usize) {
        let from = self.unit(address);
        (from, from + words / SPECIALIZED_WORDS)
    }
}

/// The cells that units `from..to` touch, each with the bits of those units.
fn masks(from: usize, to: usize) -> impl Iterator<Item = (usize, u64)> {
    (from / 64..to.div_ceil(64)).map(move |cell| {
        let low = u64::MAX << from.saturating_sub(cell * 64).min(63);
        let high = u64::MAX >> (64 - (to - cell * 64).min(64));
        (cell, low & high)
    })
}

fn write_bits(bits: &mut [u64], from: usize, to: usize, value: bool) {
    for (cell, mask) in masks(from, to) {
        if value {
            bits[cell] |= mask;
        } else {
            bits[cell] &= !mask;
        }
    }
}

fn any_bit(bits: &[u64], from: usize, to: usize) -> bool {
    masks(from, to).any(|(cell, mask)| bits[cell] & mask != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against one bool a unit.
        #[test]
        fn areas_are_those_of_a_plain_model(steps in proptest::collection::vec((0usize..300, 0usize..130, any::<bool>()), 1..60)) {
            let base = 0x10_0000;
            let mut map = OccupancyMap::new(base, 512 * SPECIALIZED_WORDS);
            let mut model = [false; 512];
            for (from, length, value) in steps {
                let (address, words) = (base + from * UNIT, length * SPECIALIZED_WORDS);
                map.set_in_use(address, words, value);
                model[from..from + length].fill(value);
                for (from, length) in [(from, length), (from / 2, length + 1), (from + 1, 64)] {
                    let (address, words) = (base + from * UNIT, length * SPECIALIZED_WORDS);
                    prop_assert_eq!(map.any_in_use(address, words), model[from..from + length].contains(&true));
                    prop_assert_eq!(map.all_in_use(address, words), !model[from..from + length].contains(&false));
                }
            }
        }
    }

    #[test]
    fn starts_come_and_go() {
        let mut map = OccupancyMap::new(0, 64 * 1024);
        map.set_start(3 * UNIT);
        map.set_start(64 * UNIT);
        assert!(map.starts_at(3 * UNIT) && !map.starts_at(4 * UNIT) && map.starts_at(64 * UNIT));
        assert!(
            map.any_start(UNIT, 128 * SPECIALIZED_WORDS)
                && !map.any_start(4 * UNIT, 60 * SPECIALIZED_WORDS)
        );
        map.wipe_starts(0, 65 * SPECIALIZED_WORDS);
        assert!(!map.any_start(0, 512 * SPECIALIZED_WORDS));
    }
}
