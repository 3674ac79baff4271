//! First-fit: the lowest large enough free block, found through a table of record sizes.
//!
//! Source: `freelist.c`, first-fit. The table holds, in address order, the predecessors of the free
//! blocks that are larger than every block before them. So the first entry with a large enough
//! block is the first fit. A search that gets past the table extends it; changes of the list by the
//! sweeper cut it. The table has at most 1000 entries; behind a full table a search walks block by
//! block: the policy's slow corner.

use crate::block::{Address, NULL, header_at, least_header};
use crate::facts::FIRST_FIT_TABLE;
use crate::fit::{Cut, Policies, Shared};
use crate::ordered::{Carved, Ordered, next, size};

/// First-fit's free list and table.
#[derive(Debug)]
pub(crate) struct FirstFit {
    pub list: Ordered,
    /// Predecessors of blocks of record size.
    pub table: Vec<Address>,
    /// No record lies between the table's last one and this block; null: unknown.
    pub beyond: Address,
    /// Scratch space for an entry's replacements, kept so that mending allocates nothing.
    records: Vec<Address>,
}

impl FirstFit {
    pub(crate) fn new(control: Address) -> FirstFit {
        let (table, records) = (Vec::with_capacity(FIRST_FIT_TABLE + 1), Vec::new());
        FirstFit { list: Ordered::new(control), table, beyond: NULL, records }
    }

    pub(crate) fn reset(&mut self) {
        self.list.reset();
        self.truncate(self.list.head);
    }

    /// Searches behind the table and enters the records that it finds.
    #[cold]
    fn extend(&mut self, shared: &mut Shared, fields: usize) -> Option<Cut> {
        let (mut previous, mut record) = match self.table.last() {
            None => (self.list.head, 0),
            Some(last) => (next(*last), header_at(next(*last))),
        };
        if self.beyond != NULL && !self.table.is_empty() {
            previous = self.beyond;
        }
        let mut current = NULL;
        while self.table.len() < FIRST_FIT_TABLE {
            current = next(previous);
            if current == NULL {
                self.list.last = previous;
                self.beyond = if previous == self.list.head { NULL } else { previous };
                return None;
            }
            shared.steps += 1;
            let found = header_at(current);
            if found > record {
                self.table.push(previous);
                if found >= least_header(fields) {
                    self.beyond = current;
                    let nth = self.table.len() - 1;
                    return self.take_new(shared, fields, nth, previous, current, found);
                }
                record = found;
            }
            previous = current;
        }
        self.beyond = current;
        self.walk(shared, fields)
    }

    /// Walks block by block, behind a full table.
    fn walk(&mut self, shared: &mut Shared, fields: usize) -> Option<Cut> {
        let full = self.table[FIRST_FIT_TABLE - 1];
        let record = size(next(full));
        let mut steps = 0;
        let mut previous = if self.beyond == NULL { full } else { self.beyond };
        let mut current = next(previous);
        while current != NULL {
            steps += 1;
            let found = size(current);
            if found < record {
                self.beyond = current;
            } else if found >= fields {
                shared.steps += steps;
                return self.list.carve(shared, fields + 1, previous, current).0;
            }
            previous = current;
            current = next(previous);
        }
        shared.steps += steps;
        self.list.last = previous;
        None
    }

    /// Cuts a block from that of entry `nth`, whose header was `was`, and mends the table.
    #[inline(always)]
    fn take(
        &mut self,
        shared: &mut Shared,
        fields: usize,
        nth: usize,
        previous: Address,
        current: Address,
        was: usize,
    ) -> Option<Cut> {
        let (at, carved) = self.list.carve(shared, fields + 1, previous, current);
        if carved == Carved::Removed {
            if self.table.get(nth + 1) == Some(&current) {
                self.table[nth + 1] = previous;
            } else if nth + 1 == self.table.len() {
                self.beyond = if previous == self.list.head { NULL } else { previous };
                self.table.pop();
            }
        }
        if nth < self.table.len() {
            self.mend(shared, nth, was);
        }
        at
    }

    /// The same for a new entry, which is rare.
    #[inline(never)]
    fn take_new(
        &mut self,
        shared: &mut Shared,
        fields: usize,
        nth: usize,
        previous: Address,
        current: Address,
        was: usize,
    ) -> Option<Cut> {
        self.take(shared, fields, nth, previous, current, was)
    }

    /// Mends the table after the block of entry `nth`, whose header was `was`, shrank or went:
    /// other blocks may be records now. Headers of free blocks, all of one colour, compare like
    /// their fields.
    #[inline(always)]
    fn mend(&mut self, shared: &mut Shared, nth: usize, was: usize) {
        let mut record = if nth > 0 { header_at(next(self.table[nth - 1])) } else { 0 };
        let mut previous = self.table[nth];
        let Some(end) = self.table.get(nth + 1).copied() else {
            let current = next(previous);
            if header_at(current) <= record {
                self.beyond = current;
                self.table.pop();
            } else {
                self.beyond = NULL;
            }
            return;
        };
        let mut steps = 0;
        let mut first = NULL;
        while previous != end {
            steps += 1;
            let current = next(previous);
            let found = header_at(current);
            if found > record {
                if first != NULL {
                    // Two records at least: starts again from the first one.
                    shared.steps += steps - 1;
                    return self.replace(shared, nth, first, previous, was);
                }
                (first, record) = (previous, found);
                if found >= was {
                    break;
                }
            }
            previous = current;
        }
        shared.steps += steps;
        if first != NULL {
            self.table[nth] = first;
        } else {
            self.table.remove(nth);
        }
    }

    /// Replaces entry `nth` by the records from `first` on; `second` is the second of them.
    #[cold]
    fn replace(
        &mut self,
        shared: &mut Shared,
        nth: usize,
        first: Address,
        second: Address,
        was: usize,
    ) {
        let end = self.table[nth + 1];
        let mut record = header_at(next(first));
        let mut previous = second;
        self.records.clear();
        self.records.push(first);
        while previous != end && self.records.len() < FIRST_FIT_TABLE - nth {
            shared.steps += 1;
            let current = next(previous);
            let found = header_at(current);
            if found > record {
                self.records.push(previous);
                record = found;
                if found >= was {
                    break;
                }
            }
            previous = current;
        }
        self.table.splice(nth..=nth, self.records.iter().copied());
        if self.table.len() > FIRST_FIT_TABLE {
            self.beyond = next(self.table[FIRST_FIT_TABLE - 1]);
            self.table.truncate(FIRST_FIT_TABLE - 1);
        }
    }

    pub(crate) fn init_merge(&mut self, shared: &mut Shared) {
        self.list.init_merge(shared);
    }

    /// Drops entries whose block lies at `changed` or behind.
    fn truncate(&mut self, changed: Address) {
        if changed == self.list.head {
            self.table.clear();
            self.beyond = NULL;
            return;
        }
        while self.table.last().is_some_and(|last| next(*last) >= changed) {
            self.table.pop();
        }
        if self.beyond >= changed {
            self.beyond = NULL;
        }
    }

    pub(crate) fn add_block(&mut self, shared: &mut Shared, block: Address) {
        let last = self.list.last;
        if !self.list.add_block(shared, block) {
            self.truncate(block);
        } else if self.table.len() < FIRST_FIT_TABLE {
            self.table.push(last);
        }
    }

    pub(crate) fn make_free(&mut self, shared: &mut Shared, at: Address, words: usize) {
        self.truncate(shared.merge);
        self.list.make_free(shared, at, words);
    }
}

impl Policies for FirstFit {
    #[inline]
    fn allocate(&mut self, shared: &mut Shared, fields: usize) -> Option<Cut> {
        let least = least_header(fields);
        for nth in 0..self.table.len() {
            let previous = self.table[nth];
            let current = next(previous);
            let found = header_at(current);
            if found >= least {
                shared.steps += nth as u64 + 1;
                return self.take(shared, fields, nth, previous, current, found);
            }
        }
        shared.steps += self.table.len() as u64;
        self.extend(shared, fields)
    }

    #[inline]
    fn merge_block(
        &mut self,
        shared: &mut Shared,
        block: Address,
        header: usize,
        _: Address,
    ) -> Address {
        self.truncate(shared.merge);
        self.list.merge_block(shared, block, header).0
    }
}
