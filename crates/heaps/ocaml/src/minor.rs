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
    /// Slots that were written while their new object was young, oldest first. A slot that was
    /// written several times in a row is here once: the first time moves its object.
    pub remembered: Vec<u32>,
    /// Entries that the runtime's remembered set has: one for each time that a slot was written.
    pub entries: usize,
    /// Entries that ask for a minor collection.
    pub entries_max: usize,
}

impl Minor {
    pub(crate) fn new(range: Range<Address>) -> Minor {
        let words = range.len() / WORD_BYTES;
        let (at, trigger) = (range.end, range.start);
        let (remembered, entries, entries_max) = (Vec::new(), 0, words / REMEMBERED_PART);
        Minor { range, words, at, trigger, remembered, entries, entries_max }
    }

    /// Slot `slot` was written `times` times in a row, each time with a new young object.
    #[inline(always)]
    pub(crate) fn remember(&mut self, slot: u32, times: usize) {
        if self.remembered.last() != Some(&slot) {
            self.remembered.push(slot);
        }
        self.entries += times;
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
