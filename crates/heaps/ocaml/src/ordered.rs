//! The list of free blocks in address order, shared by next-fit and first-fit.
//!
//! Source: `freelist.c`; the runtime has each of these operations twice, once a policy. A block is
//! carved from the high end of a free one, so the rest keeps its address and its place in the list.

use crate::block::{
    Address, BLUE, NULL, WHITE, colour_of, fields_at, fields_header, fields_of, header_at, load,
    next_in_memory,
};
use crate::block::{field, set_header, store, words_of};
use crate::facts::WORD_BYTES;
use crate::fit::{Cut, Shared};

/// The list.
#[derive(Debug)]
pub(crate) struct Ordered {
    /// A block without fields below every chunk, whose link is the first free block.
    pub head: Address,
    /// The last block, right after a search without success.
    pub last: Address,
    /// The word after the last fragment that the sweeper saw: a block there merges with the
    /// fragment.
    last_fragment: Address,
}

/// The fate of a free block after a carve.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carved {
    /// It is smaller now, at the same place in the list.
    Shrunk,
    /// It has left the list.
    Removed,
}

/// The free block after `block`.
#[inline(always)]
pub(crate) fn next(block: Address) -> Address {
    load(block)
}

impl Ordered {
    /// An empty list whose head lies at `control`.
    pub(crate) fn new(control: Address) -> Ordered {
        let head = control + 2 * WORD_BYTES;
        set_header(head, fields_header(0, BLUE));
        store(head, NULL);
        Ordered { head, last: NULL, last_fragment: NULL }
    }

    pub(crate) fn reset(&mut self) {
        store(self.head, NULL);
        self.last = NULL;
    }

    /// Cuts `words` words (header included) off the high end of `current`, the block after
    /// `previous`. A rest of one word cannot be linked: it becomes a white header without fields.
    #[inline(always)]
    pub(crate) fn carve(
        &mut self,
        shared: &mut Shared,
        words: usize,
        previous: Address,
        current: Address,
    ) -> (Option<Cut>, Carved) {
        let fields = fields_at(current);
        let carved = if fields < words + 1 {
            shared.free_words -= fields + 1;
            store(previous, next(current));
            if shared.merge == current {
                shared.merge = previous;
            }
            // If nothing is left, the caller overwrites this header.
            set_header(current, fields_header(0, WHITE));
            Carved::Removed
        } else {
            shared.free_words -= words;
            set_header(current, fields_header(fields - words, BLUE));
            Carved::Shrunk
        };
        (Cut::new(current + (fields * WORD_BYTES) - (words * WORD_BYTES)), carved)
    }

    pub(crate) fn init_merge(&mut self, shared: &mut Shared) {
        self.last_fragment = NULL;
        shared.merge = self.head;
    }

    /// Inserts the dead block at `block` after the sweeper's last free block, merged with its
    /// neighbours. Returns the header after it, and the free block that vanished into it.
    #[inline]
    pub(crate) fn merge_block(
        &mut self,
        shared: &mut Shared,
        mut block: Address,
        header: usize,
    ) -> (Address, Address) {
        let mut fields = fields_of(header);
        let previous = shared.merge;
        let mut current = next(previous);
        let mut absorbed = NULL;
        shared.free_words += fields + 1;
        debug_assert!(
            colour_of(header_at(block)) == WHITE
                && previous < block
                && (current == NULL || current > block)
        );
        if self.last_fragment == block - WORD_BYTES {
            block = self.last_fragment;
            fields += 1;
            shared.free_words += 1;
            set_header(block, fields_header(fields, WHITE));
        }
        let mut after = field(block, fields + 1);
        if after == current {
            absorbed = current;
            fields += fields_at(current) + 1;
            current = next(current);
            store(previous, current);
            set_header(block, fields_header(fields, BLUE));
            after = field(block, fields + 1);
        }
        if next_in_memory(previous) == block {
            set_header(previous, fields_header(fields_at(previous) + fields + 1, BLUE));
        } else if fields != 0 {
            set_header(block, fields_header(fields, BLUE));
            store(block, current);
            store(previous, block);
            shared.merge = block;
        } else {
            self.last_fragment = block;
            shared.free_words -= 1;
        }
        (after - WORD_BYTES, absorbed)
    }

    /// Inserts the blue block of a new chunk. Returns whether it is the last of the list.
    pub(crate) fn add_block(&mut self, shared: &mut Shared, block: Address) -> bool {
        shared.free_words += words_of(header_at(block));
        let at_end = block > self.last;
        let mut previous = self.last;
        if !at_end {
            previous = self.head;
            while next(previous) != NULL && next(previous) < block {
                previous = next(previous);
            }
        }
        store(block, next(previous));
        store(previous, block);
        // `merge` stays the last free block before the sweeper.
        if previous == shared.merge && block < shared.sweep_at {
            shared.merge = block;
        }
        at_end
    }

    /// Makes words a dead block and merges it.
    pub(crate) fn make_free(&mut self, shared: &mut Shared, at: Address, words: usize) {
        let header = fields_header(words - 1, WHITE);
        store(at, header);
        self.merge_block(shared, at + WORD_BYTES, header);
    }

    /// The free blocks, in order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Address> {
        std::iter::successors(Some(next(self.head)), |block| (*block != NULL).then(|| next(*block)))
            .take_while(|block| *block != NULL)
    }
}

/// Fields of a free block, as a search compares them.
#[inline(always)]
pub(crate) fn size(block: Address) -> usize {
    fields_of(header_at(block))
}
