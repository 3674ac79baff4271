//! Small freed blocks, one list for each exact size from 2 to 33 words.
//!
//! The lists run through the blocks themselves, newest first. A search takes the first block of the
//! smallest size that fits, and never looks beyond the largest bin (HotSpot 17, `BinList`).

use super::facts::{LARGEST_BINNED_WORDS, SMALLEST_BLOCK_WORDS};
use std::ptr::NonNull;

const BINS: usize = LARGEST_BINNED_WORDS - SMALLEST_BLOCK_WORDS + 1;

/// The content of a binned block.
#[repr(C)]
struct Block {
    next: Option<NonNull<Block>>,
    words: usize,
}

/// The bins.
#[derive(Debug, Default)]
pub struct BinList {
    bins: [Option<NonNull<Block>>; BINS],
    blocks: usize,
    words: usize,
}

impl BinList {
    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Their words.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Keeps a block of 2 to 33 words.
    ///
    /// # Safety
    /// The block is writable, aligned to a word, and nobody else uses it until it is taken.
    pub unsafe fn add(&mut self, block: NonNull<u64>, words: usize) {
        let bin = &mut self.bins[words - SMALLEST_BLOCK_WORDS];
        let block: NonNull<Block> = block.cast();
        // SAFETY: the block has room for the two words of a `Block` and is ours.
        unsafe { block.write(Block { next: *bin, words }) };
        *bin = Some(block);
        self.blocks += 1;
        self.words += words;
    }

    /// Takes a block of at least `words` (2 to 33); returns its size too.
    pub fn take(&mut self, words: usize) -> Option<(NonNull<u64>, usize)> {
        let first = words - SMALLEST_BLOCK_WORDS;
        let bin = first + self.bins[first..].iter().position(Option::is_some)?;
        let block = self.bins[bin]?;
        // SAFETY: a block in a bin holds what `add` wrote, because nobody else uses it.
        self.bins[bin] = unsafe { block.as_ref() }.next;
        self.blocks -= 1;
        self.words -= bin + SMALLEST_BLOCK_WORDS;
        Some((block.cast(), bin + SMALLEST_BLOCK_WORDS))
    }

    /// Every block with the size of its bin and the size written into it.
    pub fn each(&self, mut visit: impl FnMut(NonNull<u64>, usize, usize)) {
        for (bin, first) in self.bins.iter().enumerate() {
            let mut at = *first;
            while let Some(block) = at {
                // SAFETY: as in `take`.
                let content = unsafe { block.as_ref() };
                visit(block.cast(), bin + SMALLEST_BLOCK_WORDS, content.words);
                at = content.next;
            }
        }
    }
}
