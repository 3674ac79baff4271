//! An arena's free blocks: returned early, and above all the rests of retired chunks.
//!
//! Exact lists for 3 to 10 words, a size tree for larger blocks. `Blocks::take` shows the
//! document's complaints: a small request never looks at a larger block; a large one takes a far
//! too large block out of the tree only to put it back; and the arena does not even look here until
//! 4096 words have gathered. Source: `metaspace/blockFreelist.cpp`.

use super::facts::{BLOCK_WORDS_MIN, DICTIONARY_WORDS_MIN, WASTE_MULTIPLIER, WORD};
use super::piece::{Piece, PieceList};
use super::size_tree::SizeTree;
use heaplab_buddy::marks::mark;

const SMALL_SIZES: usize = DICTIONARY_WORDS_MIN - BLOCK_WORDS_MIN;

/// The free blocks of one arena.
pub(super) struct Blocks {
    small: [PieceList; SMALL_SIZES],
    small_words: usize,
    small_count: usize,
    large: SizeTree,
}

impl Blocks {
    pub fn new() -> Blocks {
        Blocks {
            small: Default::default(),
            small_words: 0,
            small_count: 0,
            large: SizeTree::new(BLOCK_WORDS_MIN),
        }
    }

    /// Words of all blocks.
    pub fn words(&self) -> usize {
        self.small_words + self.large.words()
    }

    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.small_count + self.large.count()
    }

    /// Keeps the `words` at `address`.
    ///
    /// # Safety
    /// They are committed, at least [`BLOCK_WORDS_MIN`], belong to the arena and to nobody else,
    /// and stay so while it lives.
    pub unsafe fn put(&mut self, address: usize, words: usize) {
        debug_assert!(words >= BLOCK_WORDS_MIN);
        // SAFETY: the caller's promise; a block below DICTIONARY_WORDS_MIN is used for its three
        // header words only.
        let piece = unsafe { Piece::at(address) };
        piece.set_words(words);
        if words < DICTIONARY_WORDS_MIN {
            self.small[words - BLOCK_WORDS_MIN].push(piece);
            self.small_words += words;
            self.small_count += 1;
        } else {
            self.large.insert(piece);
        }
    }

    /// A block for `words`, if one fits; keeps its rest unless smaller than the smallest block.
    pub fn take(&mut self, words: usize) -> Option<usize> {
        if words < DICTIONARY_WORDS_MIN {
            let list = &mut self.small[words - BLOCK_WORDS_MIN];
            let piece = list.head()?;
            list.remove(piece);
            self.small_words -= words;
            self.small_count -= 1;
            mark("blocks: exact small block");
            return Some(piece.address());
        }
        let piece = self.large.take(words)?;
        let size = piece.words();
        if size > WASTE_MULTIPLIER * words {
            mark("blocks: too large, put back");
            self.large.insert(piece);
            return None;
        }
        let rest = size - words;
        if rest >= BLOCK_WORDS_MIN {
            mark("blocks: rest kept");
            // SAFETY: the rest is part of a block that this arena kept and has just taken out.
            unsafe { self.put(piece.address() + words * WORD, rest) };
        }
        Some(piece.address())
    }

    /// Calls `visit` with every block's address and words; returns the first damage.
    pub fn inspect(&self, mut visit: impl FnMut(usize, usize)) -> Result<(), String> {
        let (mut words, mut count) = (0, 0);
        for (index, list) in self.small.iter().enumerate() {
            let mut length = 0;
            for piece in list.iter() {
                length += 1;
                if piece.words() != index + BLOCK_WORDS_MIN || length > list.count() {
                    return Err(format!(
                        "{} words among the blocks of {}",
                        piece.words(),
                        index + BLOCK_WORDS_MIN
                    ));
                }
                words += piece.words();
                visit(piece.address(), piece.words());
            }
            count += length;
        }
        if (words, count) != (self.small_words, self.small_count) {
            return Err(format!(
                "{count} small blocks with {words} words where {} with {} are counted",
                self.small_count, self.small_words
            ));
        }
        self.large.inspect(|piece| visit(piece.address(), piece.words()))
    }
}
