//! Blocks that are kept and reused, as a program does with a buffer that it does not give back.
//!
//! A request gets the smallest kept block that is large enough. If none is, the largest kept block
//! is freed and a new block is made: there are never more blocks than were live at once, and a
//! single buffer only grows.

use heaplab_trace::ObjectId;
use std::collections::BTreeMap;

/// The blocks that are kept, by size.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    kept: BTreeMap<u64, Vec<ObjectId>>,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// This kept block, of so many bytes.
    Kept(ObjectId, u64),
    /// A new block; a kept block that is too small is freed for it.
    New(Option<ObjectId>),
}

impl Pool {
    /// A block for `bytes`.
    pub(crate) fn take(&mut self, bytes: u64) -> Taken {
        let fitting = self.kept.range(bytes..).next().map(|(size, _)| *size);
        if let Some((size, block)) = fitting.and_then(|size| Some((size, self.pop(size)?))) {
            return Taken::Kept(block, size);
        }
        let largest = self.kept.keys().next_back().copied();
        Taken::New(largest.and_then(|size| self.pop(size)))
    }

    fn pop(&mut self, size: u64) -> Option<ObjectId> {
        let blocks = self.kept.get_mut(&size)?;
        let block = blocks.pop();
        if blocks.is_empty() {
            self.kept.remove(&size);
        }
        block
    }

    /// Keeps a block of so many bytes.
    pub(crate) fn keep(&mut self, block: ObjectId, bytes: u64) {
        self.kept.entry(bytes).or_default().push(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_serves_what_fits_and_goes_for_what_does_not() {
        let mut pool = Pool::default();
        assert_eq!(pool.take(100), Taken::New(None));
        pool.keep(1, 100);
        pool.keep(2, 300);
        assert_eq!(pool.take(90), Taken::Kept(1, 100));
        assert_eq!(pool.take(90), Taken::Kept(2, 300));
        assert_eq!(pool.take(1), Taken::New(None));
        pool.keep(1, 100);
        pool.keep(2, 300);
        assert_eq!(pool.take(301), Taken::New(Some(2)), "the largest makes way");
        assert_eq!(pool.take(1), Taken::Kept(1, 100));
    }
}
