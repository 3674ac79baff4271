//! Which blocks live, how large they are and whose.
//!
//! HotSpot needs none of this: metadata know their size and their loader. A heap behind [`Allocating`] is given an address
//! alone, so this table is the adapter's own cost, kept in the process's malloc and counted in no figure of the heap: two
//! bits a word (a block's first word, and its last), and an owner for each KB, since no chunk is smaller.
//!
//! [`Allocating`]: heaplab_heap::Allocating

use super::facts::{SMALLEST_CHUNK_BYTES, WORD_BYTES};

/// The table of a space, node by node.
#[derive(Debug)]
pub struct LiveBlocks {
    node_bytes: usize,
    nodes: Vec<Tables>,
    words: usize,
}

#[derive(Debug)]
struct Tables {
    first: Vec<u64>,
    last: Vec<u64>,
    owner: Vec<u32>,
}

/// Sets or clears the bit of a word.
fn put(bits: &mut [u64], word: usize, value: bool) {
    let mask = 1 << (word % 64);
    if value {
        bits[word / 64] |= mask;
    } else {
        bits[word / 64] &= !mask;
    }
}

fn get(bits: &[u64], word: usize) -> bool {
    bits[word / 64] >> (word % 64) & 1 == 1
}

/// The first set bit from `word` on and before `end`. What it looks at is bounded by the range, however large the node.
fn find(bits: &[u64], word: usize, end: usize) -> Option<usize> {
    let mut mask = u64::MAX << (word % 64);
    for (index, content) in bits.iter().enumerate().take(end.div_ceil(64)).skip(word / 64) {
        let content = content & mask;
        if content != 0 {
            return Some(index * 64 + content.trailing_zeros() as usize).filter(|found| *found < end);
        }
        mask = u64::MAX;
    }
    None
}

impl LiveBlocks {
    /// No blocks, in nodes of `node_bytes`.
    pub fn new(node_bytes: usize) -> LiveBlocks {
        LiveBlocks { node_bytes, nodes: Vec::new(), words: 0 }
    }

    /// Words of all live blocks.
    pub fn words(&self) -> usize {
        self.words
    }

    fn tables(&mut self, offset: usize) -> (&mut Tables, usize) {
        let (node, within) = (offset / self.node_bytes, offset % self.node_bytes);
        while self.nodes.len() <= node {
            let words = self.node_bytes / WORD_BYTES;
            let bits = || vec![0; words.div_ceil(64)];
            self.nodes.push(Tables { first: bits(), last: bits(), owner: vec![0; self.node_bytes / SMALLEST_CHUNK_BYTES] });
        }
        (&mut self.nodes[node], within)
    }

    /// A block of `owner` lives at `offset`.
    pub fn insert(&mut self, offset: usize, words: usize, owner: u32) {
        let (tables, within) = self.tables(offset);
        let word = within / WORD_BYTES;
        put(&mut tables.first, word, true);
        put(&mut tables.last, word + words - 1, true);
        tables.owner[within / SMALLEST_CHUNK_BYTES] = owner;
        self.words += words;
    }

    /// The words and the owner of the block that begins at `offset`.
    pub fn get(&self, offset: usize) -> Option<(usize, u32)> {
        let tables = self.nodes.get(offset / self.node_bytes)?;
        let within = offset % self.node_bytes;
        let word = within / WORD_BYTES;
        if !get(&tables.first, word) {
            return None;
        }
        let last = find(&tables.last, word, self.node_bytes / WORD_BYTES)?;
        Some((last + 1 - word, tables.owner[within / SMALLEST_CHUNK_BYTES]))
    }

    /// The block that begins at `offset` is gone; its words and its owner.
    pub fn remove(&mut self, offset: usize) -> Option<(usize, u32)> {
        let (words, owner) = self.get(offset)?;
        let (tables, within) = self.tables(offset);
        let word = within / WORD_BYTES;
        put(&mut tables.first, word, false);
        put(&mut tables.last, word + words - 1, false);
        self.words -= words;
        Some((words, owner))
    }

    /// Every block in a range is gone. A range holds whole blocks.
    pub fn clear(&mut self, offset: usize, bytes: usize) {
        let mut at = offset;
        while let Some(next) = self.next(at, offset + bytes) {
            let (words, _) = self.remove(next).expect("a first word was found there");
            at = next + words * WORD_BYTES;
        }
    }

    /// Where the first block at `offset` or behind it, before `end`, begins; both are in one node.
    fn next(&self, offset: usize, end: usize) -> Option<usize> {
        let node = offset / self.node_bytes;
        let start = node * self.node_bytes;
        let word = find(&self.nodes.get(node)?.first, (offset - start) / WORD_BYTES, end.saturating_sub(start).div_ceil(WORD_BYTES))?;
        Some(start + word * WORD_BYTES)
    }

    /// The live blocks of a range, as offset and words.
    pub fn within(&self, offset: usize, bytes: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut at = offset;
        std::iter::from_fn(move || {
            let next = self.next(at, offset + bytes)?;
            let (words, _) = self.get(next)?;
            at = next + words * WORD_BYTES;
            Some((next, words))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_with_their_size_and_owner_until_they_go() {
        let mut live = LiveBlocks::new(1 << 16);
        live.insert(0, 2, 7);
        live.insert(16, 500, 7);
        live.insert((1 << 16) + 1024, 3, 9);
        assert_eq!((live.get(0), live.get(16), live.get((1 << 16) + 1024)), (Some((2, 7)), Some((500, 7)), Some((3, 9))));
        assert_eq!((live.get(8), live.get(1 << 20), live.words()), (None, None, 505));
        assert_eq!(live.within(8, 4096).collect::<Vec<_>>(), [(16, 500)]);
        assert_eq!(live.within(8, 8).collect::<Vec<_>>(), [], "the block at 16 begins where the range ends");
        assert_eq!(live.within(8, 16).collect::<Vec<_>>(), [(16, 500)]);
        assert_eq!((live.remove(0), live.remove(0)), (Some((2, 7)), None));
        live.clear(0, 4096);
        assert_eq!((live.words(), live.get(16)), (3, None));
    }
}
