//! The minor heap, and the table of slots that refer to it.
//!
//! Source: `minor_gc.c`. Blocks are cut from the high end downwards. The trigger is the middle of
//! the minor heap after a minor collection (a slice of the major collector runs there) and its
//! start after a slice. The remembered set is a table of slots in the order of stores; it asks for
//! a minor collection when it has an eighth as many entries as the minor heap has words. A slot can
//! be in it twice, which is harmless: the second time its object has moved.

use crate::block::Address;
use crate::facts::{REMEMBERED_PART, WORD_BYTES};
use std::ops::Range;

/// The minor heap.
#[derive(Debug)]
pub(crate) struct Minor {
    pub range: Range<Address>,
    /// Words of it all.
    words: usize,
    /// The last block that was cut.
    pub at: Address,
    /// How far blocks may be cut before the collector is called.
    pub trigger: Address,
    /// Slots that were written while their new object was young, oldest first.
    pub remembered: Vec<u32>,
    /// Entries of the remembered set that ask for a minor collection.
    pub remembered_max: usize,
}

impl Minor {
    pub(crate) fn new(range: Range<Address>) -> Minor {
        let words = range.len() / WORD_BYTES;
        let remembered_max = words / REMEMBERED_PART;
        let (at, trigger, remembered) = (range.end, range.start, Vec::new());
        Minor { range, words, at, trigger, remembered, remembered_max }
    }

    /// Words of the minor heap.
    #[inline(always)]
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Words in use, headers included.
    pub(crate) fn used_words(&self) -> usize {
        (self.range.end - self.at) / WORD_BYTES
    }

    /// Where the slice after a minor collection is due.
    pub(crate) fn middle(&self) -> Address {
        self.range.start + self.words() / 2 * WORD_BYTES
    }

    /// True where a block's address lies here.
    #[inline(always)]
    pub(crate) fn has(&self, block: Address) -> bool {
        self.range.contains(&block)
    }
}
