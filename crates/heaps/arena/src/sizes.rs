//! The size and arena of each block, for a library whose users name both when they free, behind a contract that does not.
//!
//! Two bits a word, one for a block's first word and one for its last, and the arena of each line of 64 bytes, in tables of
//! a megabyte of addresses each. This is the adapter's own cost: the library under test does not have it, and no figure
//! that it gives of itself counts it. Whoever ends an arena removes its blocks; what is covered by a new block is gone, too.

use std::collections::HashMap;

const WORD_BYTES: usize = 8;
const TABLE_LOG2: usize = 20;
const TABLE_WORDS: usize = (1 << TABLE_LOG2) / WORD_BYTES;

/// No two arenas share a line.
const LINE_BYTES: usize = 64;
const TABLE_LINES: usize = (1 << TABLE_LOG2) / LINE_BYTES;

/// Sizes and arenas by address.
#[derive(Debug, Default)]
pub struct Sizes {
    tables: HashMap<usize, Table>,
}

#[derive(Debug)]
struct Table {
    starts: Box<[u64]>,
    ends: Box<[u64]>,
    arenas: Box<[u32]>,
}

impl Sizes {
    fn table(&mut self, number: usize) -> &mut Table {
        let bits = || vec![0; TABLE_WORDS / 64].into_boxed_slice();
        let arenas = || vec![0; TABLE_LINES].into_boxed_slice();
        self.tables.entry(number).or_insert_with(|| Table { starts: bits(), ends: bits(), arenas: arenas() })
    }

    /// A block of `bytes`, whole words and at least one, lives at `address`, which is aligned to a word, in `arena`.
    pub fn insert(&mut self, address: usize, bytes: usize, arena: u32) {
        self.table(address >> TABLE_LOG2).arenas[address / LINE_BYTES % TABLE_LINES] = arena;
        let (first, last) = (address / WORD_BYTES, address / WORD_BYTES + bytes / WORD_BYTES - 1);
        let mut word = first;
        while word <= last {
            // What of the block lies in one table and one word of its bits.
            let end = ((word / 64 + 1) * 64 - 1).min(last);
            let Table { starts, ends, .. } = self.table(word / TABLE_WORDS);
            let (index, low) = (word % TABLE_WORDS / 64, word % 64);
            let mask = (u64::MAX >> (63 - (end - word))) << low;
            starts[index] &= !mask;
            ends[index] &= !mask;
            if word == first {
                starts[index] |= 1 << low;
            }
            if end == last {
                ends[index] |= 1 << (end % 64);
            }
            word = end + 1;
        }
    }

    /// The bytes and the arena of the block that begins at `address`.
    pub fn get(&self, address: usize) -> Option<(usize, u32)> {
        let first = address / WORD_BYTES;
        let bit = |word: usize| (word % TABLE_WORDS / 64, word % 64);
        let Table { starts, arenas, .. } = self.tables.get(&(first / TABLE_WORDS))?;
        let arena = arenas[address / LINE_BYTES % TABLE_LINES];
        let (index, low) = bit(first);
        if starts[index] >> low & 1 == 0 {
            return None;
        }
        let mut word = first;
        loop {
            let Table { ends, .. } = self.tables.get(&(word / TABLE_WORDS))?;
            let (index, low) = bit(word);
            let rest = ends[index] >> low;
            if rest != 0 {
                return Some(((word + rest.trailing_zeros() as usize + 1 - first) * WORD_BYTES, arena));
            }
            word = (word / 64 + 1) * 64;
        }
    }

    /// The block that begins at `address` is gone; its bytes and arena.
    pub fn remove(&mut self, address: usize) -> Option<(usize, u32)> {
        let block = self.get(address)?;
        let word = address / WORD_BYTES;
        self.table(word / TABLE_WORDS).starts[word % TABLE_WORDS / 64] &= !(1 << (word % 64));
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_until_their_block_goes_or_is_covered() {
        let mut sizes = Sizes::default();
        let base = (1 << TABLE_LOG2) - 64;
        for (offset, bytes) in [(0, 8), (8, 16), (24, 3 << TABLE_LOG2)] {
            sizes.insert(base + offset, bytes, 7);
        }
        assert_eq!([0, 8, 16, 24].map(|offset| sizes.get(base + offset)), [Some((8, 7)), Some((16, 7)), None, Some((3 << TABLE_LOG2, 7))]);
        assert_eq!((sizes.remove(base + 8), sizes.get(base + 8)), (Some((16, 7)), None));
        // An arena died and another one has its memory.
        sizes.insert(base, 4096, 9);
        assert_eq!([0, 24].map(|offset| sizes.get(base + offset)), [Some((4096, 9)), None]);
    }
}
