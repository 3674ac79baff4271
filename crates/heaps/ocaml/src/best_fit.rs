//! Best-fit: exact lists for small sizes, a splay tree for large ones, the oldest block of the best
//! size first.
//!
//! Source: `freelist.c`, best-fit. A small block comes from the list of its size, else from the
//! next size with a block, else from the smallest large block. The rest of a cut small block is
//! white, not blue: it goes to the front of its list, out of address order. It leaves the list when
//! the next sweep begins; that sweep finds and merges it again. A remnant that the running sweep
//! has yet to reach is on no list at all.

use crate::block::{
    Address, BLUE, NULL, WHITE, colour_of, fields_at, fields_header, fields_of, header_at, load,
    next_in_memory,
};
use crate::block::{set_header, store, words_of};
use crate::facts::{BEST_FIT_SMALL, WORD_BYTES};
use crate::fit::{Cut, Policies, Shared};
use crate::splay::{self, Tree};

/// Best-fit's lists and tree.
#[derive(Debug)]
pub(crate) struct BestFit {
    /// The word with the head of the list of size 0, which is unused; the heads of sizes 1 to 16
    /// follow.
    heads: Address,
    /// By size: the link at which the sweeper inserts.
    merge: [Address; BEST_FIT_SMALL + 1],
    /// Bit n - 1: the list of size n is not empty.
    filled: u32,
    pub tree: Tree,
}

impl BestFit {
    pub(crate) fn new(control: Address) -> BestFit {
        let heads = control + 3 * WORD_BYTES;
        let tree = Tree::new(heads + (BEST_FIT_SMALL + 1) * WORD_BYTES);
        let mut fit = BestFit { heads, merge: [NULL; BEST_FIT_SMALL + 1], filled: 0, tree };
        fit.clear();
        fit
    }

    fn clear(&mut self) {
        for size in 0..=BEST_FIT_SMALL {
            self.merge[size] = self.head(size);
            store(self.head(size), NULL);
        }
        self.filled = 0;
        self.tree.reset();
    }

    /// The word that holds the first block of a size.
    #[inline(always)]
    pub(crate) fn head(&self, size: usize) -> Address {
        self.heads + size * WORD_BYTES
    }

    /// The blocks of a small size, in the order of use.
    pub(crate) fn small(&self, size: usize) -> impl Iterator<Item = Address> {
        std::iter::successors(Some(load(self.head(size))), |block| {
            (*block != NULL).then(|| load(*block))
        })
        .take_while(|block| *block != NULL)
    }

    /// Bits of the non-empty small sizes.
    pub(crate) fn filled(&self) -> u32 {
        self.filled
    }

    #[inline(always)]
    fn mark_filled(&mut self, size: usize) {
        self.filled |= 1 << (size - 1);
    }

    #[inline(always)]
    fn mark_empty(&mut self, size: usize) {
        self.filled &= !(1 << (size - 1));
    }

    /// Takes the first block of a small size whose list is not empty.
    #[inline(always)]
    fn pop(&mut self, size: usize) -> Address {
        let head = self.head(size);
        let block = load(head);
        // A block's link is its first field, at the block's address.
        if self.merge[size] == block {
            self.merge[size] = head;
        }
        let rest = load(block);
        store(head, rest);
        if rest == NULL {
            self.mark_empty(size);
        }
        block
    }

    /// Allocates from the tree. `set_least`: the request is small, so the smallest large block
    /// serves it.
    fn allocate_large(
        &mut self,
        shared: &mut Shared,
        fields: usize,
        set_least: bool,
    ) -> Option<Cut> {
        let (link, lower) = self.tree.search_best(shared, fields)?;
        let node = load(link);
        let size = fields_at(node);
        if splay::next(node) == node {
            if size > lower + fields + 1 {
                // The remnant is still larger than the next lower size: it stays at its place in
                // the tree.
                if set_least {
                    self.tree.least = node;
                }
                let at = self.split(shared, fields, node);
                shared.free_words += size - fields;
                return Cut::new(at);
            }
            self.tree.remove_node(link);
            return Cut::new(self.take(shared, fields, node, size));
        }
        let block = self.tree.take_next(node);
        let at = self.take(shared, fields, block, size);
        if set_least && size != fields && fields_at(block) > BEST_FIT_SMALL {
            self.tree.least = block;
        }
        Cut::new(at)
    }

    /// Uses a large block taken from the tree: all of it, or its high end.
    #[inline]
    fn take(&mut self, shared: &mut Shared, fields: usize, block: Address, size: usize) -> Address {
        if size == fields {
            shared.free_words -= fields + 1;
            return block - WORD_BYTES;
        }
        let at = self.split(shared, fields, block);
        self.insert_remnant(shared, block);
        at
    }

    /// Cuts the high end off a block. The count of free words stays the same; the block's header
    /// becomes the remnant's.
    #[inline(always)]
    fn split(&mut self, shared: &mut Shared, fields: usize, block: Address) -> Address {
        let rest = fields_at(block) - fields - 1;
        shared.free_words -= rest + fields + 2;
        set_header(block, fields_header(rest, if rest <= BEST_FIT_SMALL { WHITE } else { BLUE }));
        block + rest * WORD_BYTES
    }

    /// Puts a white remnant to the front of its list, unless a running sweep will find it.
    #[inline(always)]
    fn insert_remnant_small(&mut self, shared: &mut Shared, block: Address) {
        let fields = fields_at(block);
        if fields == 0 || (shared.sweeping && block - WORD_BYTES >= shared.sweep_at) {
            return;
        }
        shared.free_words += fields + 1;
        let head = self.head(fields);
        store(block, load(head));
        store(head, block);
        if self.merge[fields] == head {
            self.merge[fields] = block;
        }
        self.mark_filled(fields);
    }

    fn insert_remnant(&mut self, shared: &mut Shared, block: Address) {
        let fields = fields_at(block);
        if fields <= BEST_FIT_SMALL {
            self.insert_remnant_small(shared, block);
        } else {
            self.tree.insert(shared, block);
            shared.free_words += fields + 1;
        }
    }

    /// Removes the white remnants from the lists; the sweep finds them again.
    pub(crate) fn init_merge(&mut self, shared: &mut Shared) {
        shared.merge = NULL;
        for size in 1..=BEST_FIT_SMALL {
            let mut block = load(self.head(size));
            while block != NULL && colour_of(header_at(block)) != BLUE {
                shared.free_words -= size + 1;
                block = load(block);
            }
            if block == NULL {
                self.mark_empty(size);
            }
            store(self.head(size), block);
            self.merge[size] = self.head(size);
        }
    }

    /// Makes the white remnants blue and forgets all free blocks.
    pub(crate) fn reset(&mut self) {
        for size in 1..=BEST_FIT_SMALL {
            let mut block = load(self.head(size));
            while block != NULL && colour_of(header_at(block)) != BLUE {
                set_header(block, fields_header(size, BLUE));
                block = load(block);
            }
        }
        self.clear();
    }

    /// Inserts a swept block; small blocks go into their list in address order.
    #[inline]
    fn insert_swept(&mut self, shared: &mut Shared, block: Address) {
        let fields = fields_at(block);
        if fields > BEST_FIT_SMALL {
            self.tree.insert(shared, block);
            return;
        }
        let mut link = self.merge[fields];
        loop {
            let next = load(link);
            if next == NULL {
                self.mark_filled(fields);
                break;
            }
            if next >= block {
                break;
            }
            link = next;
        }
        store(block, load(link));
        store(link, block);
        self.merge[fields] = block;
    }

    /// Removes a blue block that the sweeper met from the free set.
    #[inline]
    fn remove(&mut self, shared: &mut Shared, block: Address) {
        let fields = fields_at(block);
        if fields > BEST_FIT_SMALL {
            self.tree.remove(shared, block);
            return;
        }
        let mut link = self.merge[fields];
        while load(link) != block {
            link = load(link);
        }
        self.merge[fields] = link;
        store(link, load(block));
        if load(self.head(fields)) == NULL {
            self.mark_empty(fields);
        }
    }

    pub(crate) fn add_block(&mut self, shared: &mut Shared, block: Address) {
        let fields = fields_at(block);
        if fields > BEST_FIT_SMALL {
            shared.free_words += fields + 1;
            self.tree.insert(shared, block);
        } else {
            set_header(block, fields_header(fields, WHITE));
            self.insert_remnant_small(shared, block);
        }
    }

    pub(crate) fn make_free(&mut self, shared: &mut Shared, at: Address, words: usize) {
        let fields = words - 1;
        store(at, fields_header(fields, if fields <= BEST_FIT_SMALL { WHITE } else { BLUE }));
        self.insert_remnant(shared, at + WORD_BYTES);
    }
}

impl Policies for BestFit {
    #[inline]
    fn allocate(&mut self, shared: &mut Shared, fields: usize) -> Option<Cut> {
        if fields > BEST_FIT_SMALL {
            return self.allocate_large(shared, fields, false);
        }
        if load(self.head(fields)) != NULL {
            let block = self.pop(fields);
            shared.free_words -= fields + 1;
            return Cut::new(block - WORD_BYTES);
        }
        let larger = self.filled & (u32::MAX << (fields - 1));
        if larger != 0 {
            let block = self.pop(larger.trailing_zeros() as usize + 1);
            let at = self.split(shared, fields, block);
            self.insert_remnant_small(shared, block);
            return Cut::new(at);
        }
        let least = self.tree.least;
        if least != NULL {
            let size = fields_at(least);
            if size > BEST_FIT_SMALL + fields + 1 {
                let at = self.split(shared, fields, least);
                shared.free_words += size - fields;
                return Cut::new(at);
            }
        }
        self.allocate_large(shared, fields, true)
    }

    /// Makes one free block of the white and blue blocks from `block` on and the free block before
    /// them.
    #[inline]
    fn merge_block(
        &mut self,
        shared: &mut Shared,
        block: Address,
        mut header: usize,
        chunk_end: Address,
    ) -> Address {
        let mut start = block;
        let merge = shared.merge;
        if merge != NULL && next_in_memory(merge) == block && colour_of(header_at(merge)) == BLUE {
            start = merge;
            self.remove(shared, start);
        }
        let (mut at, mut white_words) = (block - WORD_BYTES, 0);
        'run: loop {
            let fields = fields_of(header);
            white_words += fields + 1;
            at += (fields + 1) * WORD_BYTES;
            loop {
                if at >= chunk_end {
                    break 'run;
                }
                header = load(at);
                match colour_of(header) {
                    WHITE => continue 'run,
                    BLUE => {
                        self.remove(shared, at + WORD_BYTES);
                        at += words_of(header) * WORD_BYTES;
                    }
                    _ => break 'run,
                }
            }
        }
        shared.free_words += white_words;
        let fields = (at - start) / WORD_BYTES;
        if fields > 0 {
            set_header(start, fields_header(fields, BLUE));
            self.insert_swept(shared, start);
        } else {
            set_header(start, fields_header(0, WHITE));
            shared.free_words -= 1;
        }
        at
    }
}
