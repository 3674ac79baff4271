//! Next-fit: a search begins where the last one ended.
//!
//! Source: `freelist.c`, next-fit. After a hit the rover is the *predecessor* of the cut block. So
//! the next search tries the same block again: allocations run through a large block until it is
//! used up.

use crate::block::{Address, NULL, header_at, least_header};
use crate::fit::{Cut, Policies, Shared};
use crate::ordered::{Ordered, next};

/// Next-fit's free list.
#[derive(Debug)]
pub(crate) struct NextFit {
    pub list: Ordered,
    /// The next search begins after this block.
    pub rover: Address,
}

impl NextFit {
    pub(crate) fn new(control: Address) -> NextFit {
        let list = Ordered::new(control);
        NextFit { rover: list.head, list }
    }

    pub(crate) fn reset(&mut self) {
        self.list.reset();
        self.rover = self.list.head;
    }

    /// Searches from the head to the rover, after no success behind the rover.
    #[cold]
    fn allocate_from_start(&mut self, shared: &mut Shared, fields: usize) -> Option<Cut> {
        let mut previous = self.list.head;
        let mut current = next(previous);
        while previous != self.rover {
            shared.steps += 1;
            if header_at(current) >= least_header(fields) {
                self.rover = previous;
                return self.list.carve(shared, fields + 1, previous, current).0;
            }
            previous = current;
            current = next(previous);
        }
        None
    }

    pub(crate) fn init_merge(&mut self, shared: &mut Shared) {
        self.list.init_merge(shared);
    }

    pub(crate) fn add_block(&mut self, shared: &mut Shared, block: Address) {
        self.list.add_block(shared, block);
    }

    pub(crate) fn make_free(&mut self, shared: &mut Shared, at: Address, words: usize) {
        self.list.make_free(shared, at, words);
    }
}

impl Policies for NextFit {
    #[inline]
    fn allocate(&mut self, shared: &mut Shared, fields: usize) -> Option<Cut> {
        let least = least_header(fields);
        let mut steps = 0;
        let mut previous = self.rover;
        let mut current = next(previous);
        while current != NULL {
            steps += 1;
            if header_at(current) >= least {
                shared.steps += steps;
                self.rover = previous;
                return self.list.carve(shared, fields + 1, previous, current).0;
            }
            previous = current;
            current = next(previous);
        }
        shared.steps += steps;
        self.list.last = previous;
        self.allocate_from_start(shared, fields)
    }

    #[inline]
    fn merge_block(
        &mut self,
        shared: &mut Shared,
        block: Address,
        header: usize,
        _: Address,
    ) -> Address {
        let previous = shared.merge;
        let (after, absorbed) = self.list.merge_block(shared, block, header);
        if absorbed != NULL && self.rover == absorbed {
            self.rover = previous;
        }
        after
    }
}
