//! The current node of each number in a ring: rows of `stacks` by number.
//!
//! Numbers are places of the target's hash table: a thread with few stacks has few numbers far
//! apart, and a busy one nearly all of them. The spool is untrusted: the count of defined numbers
//! must bound the memory, whatever the numbers are. So the numbers are in a hash map until one in
//! sixteen (`SPARSE`) of those up to the largest is defined, and from then on in an array, where a
//! lookup is one load.

use hashbrown::HashMap;
use heaplab_preload::layout;

/// Most array places for each defined number: 64 bytes.
const SPARSE: usize = 16;

/// Rows by number.
#[derive(Debug, Default)]
pub struct NodeTable {
    /// Rows of numbers below its length; 0: undefined.
    dense: Vec<u32>,
    /// Rows of the other numbers.
    sparse: HashMap<u32, u32>,
    /// Numbers defined in `dense`.
    dense_count: usize,
    /// One more than the largest number in `sparse`.
    sparse_end: usize,
}

impl NodeTable {
    /// The row of `number`; `None` if undefined.
    #[inline]
    pub fn row_of(&self, number: u32) -> Option<u32> {
        match self.dense.get(number as usize) {
            Some(row) => Some(*row).filter(|row| *row != 0),
            None => self.sparse.get(&number).copied(),
        }
    }

    /// Defines `number` as `row` (not 0). All numbers beyond a ring's range share one place.
    #[inline]
    pub fn define(&mut self, number: u32, row: u32) {
        let number = number.min(layout::NODES_MAX);
        match self.dense.get_mut(number as usize) {
            Some(place) => self.dense_count += usize::from(std::mem::replace(place, row) == 0),
            None => self.define_sparse(number, row),
        }
    }

    #[cold]
    fn define_sparse(&mut self, number: u32, row: u32) {
        self.sparse.insert(number, row);
        self.sparse_end = self.sparse_end.max(number as usize + 1);
        if (self.dense_count + self.sparse.len()) * SPARSE >= self.sparse_end {
            self.dense_count += self.sparse.len();
            self.dense.resize(self.sparse_end, 0);
            for (number, row) in self.sparse.drain() {
                self.dense[number as usize] = row;
            }
            self.sparse_end = 0;
        }
    }

    /// Forgets all numbers and frees the memory.
    pub fn clear(&mut self) {
        *self = NodeTable::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl NodeTable {
        /// Bytes of both tables, about.
        fn bytes(&self) -> usize {
            self.dense.capacity() * 4 + self.sparse.capacity() * 10
        }
    }

    #[test]
    fn memory_is_that_of_what_was_defined() {
        let mut table = NodeTable::default();
        for (number, row) in [(layout::NODES_MAX - 1, 7), (1, 8), (1, 9), (u32::MAX, 10)] {
            table.define(number, row);
        }
        let rows =
            [0, 1, 2, layout::NODES_MAX - 2, layout::NODES_MAX - 1, layout::NODES_MAX, u32::MAX]
                .map(|number| table.row_of(number));
        assert_eq!(rows, [None, Some(9), None, None, Some(7), Some(10), None]);
        assert!(table.bytes() < 1000, "{table:?}");
        // As many as exist, far apart first: neither table is ever far larger than the definitions.
        let mut table = NodeTable::default();
        let spread = (0_u32..1 << 16).map(|step| step.reverse_bits() >> 12);
        for (defined, number) in spread.enumerate() {
            table.define(number, 1);
            assert!(
                table.bytes() <= 64 + 160 * (defined + 1),
                "{} bytes for {}",
                table.bytes(),
                defined + 1
            );
        }
        assert!(table.sparse.is_empty(), "they are looked up by one load");
    }

    proptest! {
        #[test]
        fn it_says_what_was_said_last(steps in prop::collection::vec((0_u32..200, 1_u32..50), 0..300), scale in 1_u32..5000) {
            let (mut table, mut model) = (NodeTable::default(), std::collections::HashMap::new());
            for (number, row) in steps {
                table.define(number * scale, row);
                model.insert(number * scale, row);
                for number in 0..200 {
                    prop_assert_eq!(table.row_of(number * scale), model.get(&(number * scale)).copied());
                }
            }
        }
    }
}
