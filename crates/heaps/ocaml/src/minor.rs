//! The minor heap, the table of slots that refer to it, and the minor collection.
//!
//! Source: `minor_gc.c` (`caml_empty_minor_heap`). Blocks are cut from the high end downwards.
//! After a minor collection the trigger is the middle of the minor heap, where a slice of the major
//! collector runs; after the slice it is the start. The remembered set is a table of slots in the
//! order of stores. It requests a minor collection when its entries reach an eighth of the minor
//! heap's words. A slot may be in the table twice, which is harmless: at the second time its object
//! has already moved.

use crate::block::{
    Address, WHITE, copy_apart, field, header, header_at, is_block, load, store, words_of,
};
use crate::facts::{FIELDS_TAG, REMEMBERED_PART, STRING_TAG, WORD_BYTES};
use crate::heap::{Full, OCaml};
use heaplab_heap::{Collected as _, World};
use std::ops::Range;
use std::ptr::NonNull;

/// Distance in the remembered set, in entries, at which a minor collection prefetches slots.
const PREFETCH_SLOTS: usize = 16;

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

impl OCaml {
    /// A minor collection, unless the minor heap is empty: live blocks move to the major heap, in
    /// the order in which the slots were written.
    #[inline(never)]
    pub(crate) fn empty_minor_heap<W: World>(&mut self, world: &mut W) -> Result<(), Full> {
        if self.minor.at == self.minor.range.end {
            return Ok(());
        }
        let before = self.pacing.allocated_words;
        self.promote_arguments()?;
        for nth in 0..self.minor.remembered.len() {
            let slot = self.minor.remembered[nth];
            if let Some(ahead) = self.minor.remembered.get(nth + PREFETCH_SLOTS) {
                self.ahead(*ahead as usize);
            }
            let at = field(self.program.slots, slot as usize);
            let block = load(at);
            if is_block(block) && self.minor.has(block) {
                let header = header_at(block);
                let words = words_of(header);
                let Some(to) = self.allocate_major(words - 1, header) else {
                    // Moved blocks stay moved; the rest stays, and the next birth tries again.
                    self.minor.remembered.drain(..nth);
                    self.minor.entries = self.minor.remembered.len();
                    self.minor_requested = true;
                    self.counts.promoted_words += (self.pacing.allocated_words - before) as u64;
                    return Err(self.full());
                };
                copy_apart(block, to.get(), words - 1);
                store(at, to.get());
                if let Some(address) = NonNull::new(to.get() as *mut u8) {
                    world.moved(slot, address);
                }
                self.cycle.promoted_objects += 1;
            }
        }
        let promoted = (self.pacing.allocated_words - before) as u64;
        self.counts.promoted_words += promoted;
        self.cycle.promoted_words += promoted;
        let used = self.minor.used_words();
        self.counts.minor_words += used as u64;
        self.pacing.clock += used as f64 / self.minor.words() as f64;
        self.minor.at = self.minor.range.end;
        self.minor.remembered.clear();
        self.minor.entries = 0;
        self.counts.minor_collections += 1;
        Ok(())
    }

    /// The arguments are global roots and come before the remembered set.
    #[inline(always)]
    fn promote_arguments(&mut self) -> Result<(), Full> {
        if !self.minor.has(self.program.arguments) {
            return Ok(());
        }
        let array = self.allocate_major(1, header(1, FIELDS_TAG, WHITE));
        let array = array.ok_or_else(|| self.full())?.get();
        let string = self.allocate_major(1, header(1, STRING_TAG, WHITE));
        let string = string.ok_or_else(|| self.full())?.get();
        store(string, load(self.program.argument));
        store(array, string);
        (self.program.arguments, self.program.argument) = (array, string);
        Ok(())
    }
}
