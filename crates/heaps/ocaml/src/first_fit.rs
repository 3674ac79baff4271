//! First-fit: the lowest free block that is large enough, found through a table of record sizes.
//!
//! Source: `freelist.c`, first-fit. The table holds, in address order, the predecessors of the free
//! blocks that are larger than every block before them: the first entry whose block is large enough
//! is the first fit. The table is extended when a search gets past it, and cut where the sweeper
//! changes the list. It has 1000 entries at most; behind a full table a search walks block by
//! block, which is the policy's slow corner.

use crate::block::{Address, NULL};
use crate::facts::FIRST_FIT_TABLE;
use crate::fit::Shared;
use crate::ordered::{Carved, Ordered, next, size};

/// First-fit's free list and table.
#[derive(Debug)]
pub(crate) struct FirstFit {
    pub list: Ordered,
    /// Predecessors of blocks of record size.
    pub table: Vec<Address>,
    /// No record lies between the table's last one and this block; nothing: not known.
    pub beyond: Address,
    /// Where an entry's replacements are gathered, so that mending takes no memory of its own each
    /// time.
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

    #[inline]
    pub(crate) fn allocate(&mut self, shared: &mut Shared, fields: usize) -> Option<Address> {
        for nth in 0..self.table.len() {
            shared.steps += 1;
            let previous = self.table[nth];
            let current = next(previous);
            let found = size(current);
            if found >= fields {
                return Some(self.take(shared, fields, nth, previous, current, found));
            }
        }
        self.extend(shared, fields)
    }

    /// Goes on behind the table, and enters the records that it finds.
    #[cold]
    fn extend(&mut self, shared: &mut Shared, fields: usize) -> Option<Address> {
        let (mut previous, mut record) = match self.table.last() {
            None => (self.list.head, 0),
            Some(last) => (next(*last), size(next(*last))),
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
            let found = size(current);
            if found > record {
                self.table.push(previous);
                if found >= fields {
                    self.beyond = current;
                    return Some(self.take(
                        shared,
                        fields,
                        self.table.len() - 1,
                        previous,
                        current,
                        found,
                    ));
                }
                record = found;
            }
            previous = current;
        }
        self.beyond = current;
        self.walk(shared, fields)
    }

    /// The table is full: block by block.
    fn walk(&mut self, shared: &mut Shared, fields: usize) -> Option<Address> {
        let full = self.table[FIRST_FIT_TABLE - 1];
        let record = size(next(full));
        let mut previous = if self.beyond == NULL { full } else { self.beyond };
        let mut current = next(previous);
        while current != NULL {
            shared.steps += 1;
            let found = size(current);
            if found < record {
                self.beyond = current;
            } else if found >= fields {
                return Some(self.list.carve(shared, fields + 1, previous, current).0);
            }
            previous = current;
            current = next(previous);
        }
        self.list.last = previous;
        None
    }

    /// Cuts a block from the one that entry `nth` leads to, and mends the table.
    #[inline]
    fn take(
        &mut self,
        shared: &mut Shared,
        fields: usize,
        nth: usize,
        previous: Address,
        current: Address,
        was: usize,
    ) -> Address {
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

    /// The block of entry `nth`, once of `was` fields, has shrunk or is gone: others may be records
    /// now.
    fn mend(&mut self, shared: &mut Shared, nth: usize, was: usize) {
        let mut record = if nth > 0 { size(next(self.table[nth - 1])) } else { 0 };
        if nth + 1 == self.table.len() {
            let current = next(self.table[nth]);
            if size(current) <= record {
                self.beyond = current;
                self.table.pop();
            } else {
                self.beyond = NULL;
            }
            return;
        }
        self.records.clear();
        let mut previous = self.table[nth];
        while previous != self.table[nth + 1] && self.records.len() < FIRST_FIT_TABLE - nth {
            shared.steps += 1;
            let current = next(previous);
            let size = size(current);
            if size > record {
                self.records.push(previous);
                record = size;
                if size >= was {
                    break;
                }
            }
            previous = current;
        }
        if let [only] = self.records[..] {
            self.table[nth] = only;
            return;
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

    /// Entries whose block lies at `changed` or behind are no longer known.
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

    #[inline]
    pub(crate) fn merge_block(&mut self, shared: &mut Shared, block: Address) -> Address {
        self.truncate(shared.merge);
        self.list.merge_block(shared, block).0
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
