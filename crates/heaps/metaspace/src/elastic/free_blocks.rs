//! The returned blocks of an arena: freed before its death, and the rests of retired chunks.
//!
//! A request of up to 33 words looks only in the bins, a larger one only in the tree. The rest of a
//! block that was too large goes back if worth keeping (HotSpot 17, `FreeBlocks`).

use super::bin_list::BinList;
use super::block_tree::BlockTree;
use super::facts::{LARGEST_BINNED_WORDS, REMAINDER_KEPT_ABOVE_WORDS};
use std::ptr::NonNull;

/// An arena's free blocks.
#[derive(Debug, Default)]
pub struct FreeBlocks {
    bins: BinList,
    tree: BlockTree,
}

impl FreeBlocks {
    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.bins.blocks() + self.tree.blocks()
    }

    /// Their words.
    pub fn words(&self) -> usize {
        self.bins.words() + self.tree.words()
    }

    /// Keeps a block of at least 2 words.
    ///
    /// # Safety
    /// The block is writable, aligned to a word, and nobody else uses it until it is taken.
    pub unsafe fn add(&mut self, block: NonNull<u64>, words: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if words > LARGEST_BINNED_WORDS {
                self.tree.add(block, words);
            } else {
                self.bins.add(block, words);
            }
        }
    }

    /// Takes a block for `words`, at least 2. A small remainder stays with the block and is lost
    /// until the arena dies.
    pub fn take(&mut self, words: usize) -> Option<NonNull<u64>> {
        let found = if words > LARGEST_BINNED_WORDS {
            self.tree.take(words)
        } else {
            self.bins.take(words)
        };
        let (block, size) = found?;
        let rest = size - words;
        if rest > REMAINDER_KEPT_ABOVE_WORDS {
            // SAFETY: the block was ours, and only its first `words` are given away.
            unsafe { self.add(block.add(words), rest) };
        }
        Some(block)
    }

    /// Visits every block with its size; `Err` at the first that changed since it was put away.
    pub fn check(&self, mut visit: impl FnMut(NonNull<u64>, usize)) -> Result<(), String> {
        let (mut blocks, mut total, mut broken) = (0, 0, None);
        self.bins.each(|block, bin, written| {
            if bin != written {
                broken.get_or_insert(format!(
                    "a block at {block:p} of {written} words in the bin of {bin}"
                ));
            }
            (blocks, total) = (blocks + 1, total + bin);
            visit(block, bin);
        });
        self.tree.each(|block, words, canary, (low, high)| {
            if !canary || !(low..=high).contains(&words) {
                broken.get_or_insert(format!("a block at {block:p} of {words} words where {low} to {high} belong, canary whole: {canary}"));
            }
            (blocks, total) = (blocks + 1, total + words);
            visit(block, words);
        });
        if let Some(broken) = broken {
            return Err(broken);
        }
        if (blocks, total) == (self.blocks(), self.words()) {
            return Ok(());
        }
        Err(format!(
            "{blocks} blocks of {total} words, counted as {} of {}",
            self.blocks(),
            self.words()
        ))
    }
}

#[cfg(test)]
#[path = "free_blocks_tests.rs"]
mod tests;
