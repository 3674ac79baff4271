//! The minor heap, and the table of slots that refer to it.
//!
//! Source: `minor_gc.c`. Blocks are cut from the high end downwards. After a minor collection the
//! trigger is the middle of the minor heap, where a slice of the major collector runs; after the
//! slice it is the start. The remembered set is a table of slots in the order of stores. It
//! requests a minor collection when its entries reach an eighth of the minor heap's words. A slot
//! may be in the table twice, which is harmless: at the second time its object has already moved.

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
    /// Lowest address that cuts reach without calling the collector.
    pub trigger: Address,
    /// Slots that were written while their new object was young, oldest first. Consecutive writes
    /// of a slot make one entry: the first one moves its object.
    pub remembered: Vec<u32>,
    /// Entries of the runtime's remembered set: one for each write of a slot.
    pub entries: usize,
    /// Number of entries that requests a minor collection.
    pub entries_max: usize,
}

impl Minor {
    pub(crate) fn new(range: Range<Address>) -> Minor {
        let words = range.len() / WORD_BYTES;
        let (at, trigger) = (range.end, range.start);
        let (remembered, entries, entries_max) = (Vec::new(), 0, words / REMEMBERED_PART);
        Minor { range, words, at, trigger, remembered, entries, entries_max }
    }

    /// Records `times` consecutive writes of `slot`, each with a new young object.
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

    /// The address at which the slice after a minor collection is due.
    pub(crate) fn middle(&self) -> Address {
        self.range.start + self.words() / 2 * WORD_BYTES
    }

    /// Whether a block lies in the minor heap.
    #[inline(always)]
    pub(crate) fn has(&self, block: Address) -> bool {
        self.range.contains(&block)
    }
}
