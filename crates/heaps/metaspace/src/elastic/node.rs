//! A node: reserved address space that yields root chunks in order, committed granule by granule.
//!
//! Commit and uncommit replace the mapping, as HotSpot's do, so the number of mappings is HotSpot's
//! too. Committing a partly committed range erases its committed parts. This is safe: chunks of at
//! least a granule share none, and commit only beyond their used part; a smaller chunk's granule is
//! either committed, and nothing is done, or empty.

use heaplab_address_space::{
    CommitLimit, Commitment, Error, Faults, Reservation, ReservationOptions,
};
use heaplab_buddy::CommitMask;
use heaplab_buddy::marks::mark;
use std::ptr::NonNull;
use std::sync::Arc;

/// The source of nodes: their shared limit, and faults for tests.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The limit of committed bytes in all nodes together.
    pub limit: Option<Arc<CommitLimit>>,
    /// Calls that fail on request.
    pub faults: Option<Arc<Faults>>,
}

/// A node.
#[derive(Debug)]
pub struct Node {
    memory: Reservation,
    mask: CommitMask,
    taken_bytes: usize,
}

impl Node {
    /// Reserves `bytes`, aligned to `root_bytes`.
    pub fn new(
        bytes: usize,
        root_bytes: usize,
        granule_bytes: usize,
        source: &Source,
    ) -> Result<Node, Error> {
        let options = ReservationOptions {
            commitment: Commitment::Replace,
            align_bytes: root_bytes,
            limit: source.limit.clone(),
            no_huge_pages: false,
            huge_pages: false,
            faults: source.faults.clone(),
        };
        let memory = Reservation::new(bytes, &options)?;
        Ok(Node { memory, mask: CommitMask::new(bytes, granule_bytes), taken_bytes: 0 })
    }

    /// The next root chunk's offset; `None`: the node is full.
    pub fn take_root(&mut self, root_bytes: usize) -> Option<usize> {
        let offset = self.taken_bytes;
        if offset + root_bytes > self.mask.bytes() {
            return None;
        }
        self.taken_bytes += root_bytes;
        Some(offset)
    }

    /// The address of an offset.
    pub fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < self.mask.bytes());
        // SAFETY: the offset lies in the reservation.
        unsafe { self.memory.base().add(offset) }
    }

    /// The offset of an address in the node.
    pub fn offset_of(&self, address: usize) -> Option<usize> {
        let addresses = self.memory.addresses();
        addresses.contains(&address).then(|| address - addresses.start)
    }

    /// Reserved bytes.
    pub fn reserved_bytes(&self) -> usize {
        self.mask.bytes()
    }

    /// Committed bytes.
    pub fn committed_bytes(&self) -> usize {
        self.mask.committed_bytes()
    }

    /// Its commit mask.
    pub fn mask(&self) -> &CommitMask {
        &self.mask
    }

    /// The memory itself.
    pub fn memory(&self) -> &Reservation {
        &self.memory
    }

    /// Commits the granules that a range touches. Returns the growth of the committed bytes (0: all
    /// were committed); `None`, with nothing changed, if the limit or the system refuses.
    pub fn commit(&mut self, offset: usize, bytes: usize) -> Option<usize> {
        let granule = self.mask.granule_bytes();
        let (start, end) = (offset & !(granule - 1), (offset + bytes).next_multiple_of(granule));
        let missing = end - start - self.mask.committed_in(start, end - start);
        if missing == 0 {
            return Some(0);
        }
        if missing < end - start {
            mark("committing a range of which parts are committed");
        }
        if self.memory.commit_part(start..end, missing).is_err() {
            mark("commit refused");
            return None;
        }
        self.mask.commit(start, end - start);
        Some(missing)
    }

    /// Gives a range of whole granules back. Returns the decrease of the committed bytes; `None`,
    /// with nothing changed, if the system refuses, which it may, because every hole is a mapping.
    ///
    /// # Safety
    /// Nobody relies on the range's content.
    pub unsafe fn uncommit(&mut self, offset: usize, bytes: usize) -> Option<usize> {
        let committed = self.mask.committed_in(offset, bytes);
        if committed == 0 {
            return Some(0);
        }
        // SAFETY: the caller's promise.
        if unsafe { self.memory.uncommit_part(offset..offset + bytes, committed) }.is_err() {
            mark("uncommit refused");
            return None;
        }
        self.mask.uncommit(offset, bytes);
        Some(committed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_buddy::marks;

    const GRANULE_BYTES: usize = 64 << 10;
    const ROOT_BYTES: usize = 1 << 20;

    fn node(limit: Option<usize>) -> Node {
        let source =
            Source { limit: limit.map(|bytes| Arc::new(CommitLimit::new(bytes))), faults: None };
        Node::new(2 * ROOT_BYTES, ROOT_BYTES, GRANULE_BYTES, &source).unwrap()
    }

    /// The word at an offset in a committed granule.
    fn word(node: &Node, offset: usize) -> *mut u64 {
        assert!(node.mask().is_committed(offset));
        node.at(offset).as_ptr().cast()
    }

    #[test]
    fn root_chunks_come_in_order_until_the_node_is_full() {
        let mut node = node(None);
        assert_eq!(
            [node.take_root(ROOT_BYTES), node.take_root(ROOT_BYTES), node.take_root(ROOT_BYTES)],
            [Some(0), Some(ROOT_BYTES), None]
        );
        assert!((node.at(0).as_ptr() as usize).is_multiple_of(ROOT_BYTES));
        assert_eq!(node.offset_of(node.at(100).as_ptr() as usize), Some(100));
        assert_eq!(node.offset_of(node.at(0).as_ptr() as usize + 2 * ROOT_BYTES), None);
    }

    #[test]
    fn a_range_is_committed_by_whole_granules_and_erased_where_it_was_committed_in_part() {
        let mut node = node(None);
        assert_eq!(node.commit(GRANULE_BYTES + 5, 1), Some(GRANULE_BYTES));
        // SAFETY: the granule was just committed.
        unsafe { word(&node, GRANULE_BYTES).write(7) };
        assert_eq!(
            node.commit(GRANULE_BYTES, GRANULE_BYTES),
            Some(0),
            "nothing to do, nothing erased"
        );
        // SAFETY: as above.
        assert_eq!(unsafe { word(&node, GRANULE_BYTES).read() }, 7);
        let grown = marks::expect("committing a range of which parts are committed", || {
            node.commit(0, 3 * GRANULE_BYTES)
        });
        assert_eq!((grown, node.committed_bytes()), (Some(2 * GRANULE_BYTES), 3 * GRANULE_BYTES));
        // SAFETY: as above.
        assert_eq!(unsafe { word(&node, GRANULE_BYTES).read() }, 0);
    }

    /// HotSpot's `virtual_space_node` test of arbitrary commits: random ranges against a limit. The
    /// mask, the memory and the limit agree after each, and committed memory is writable.
    #[test]
    fn arbitrary_commits_against_a_limit() {
        let (limit, granules) = (12 * GRANULE_BYTES, 2 * ROOT_BYTES / GRANULE_BYTES);
        let mut node = node(Some(limit));
        let (mut seed, mut refused) = (1_usize, 0);
        let mut below = |bound: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % bound
        };
        for _ in 0..2_000 {
            let from = below(granules);
            let (offset, bytes) =
                (from * GRANULE_BYTES, (1 + below((granules - from).min(6))) * GRANULE_BYTES);
            let before = node.committed_bytes();
            if below(2) == 0 {
                let missing = bytes - node.mask().committed_in(offset, bytes);
                let committed = node.commit(offset, bytes);
                assert_eq!(committed, (before + missing <= limit).then_some(missing));
                refused += usize::from(committed.is_none());
                if committed.is_some() {
                    // SAFETY: the range was just committed.
                    unsafe { node.at(offset).as_ptr().write_bytes(1, bytes) };
                }
            } else {
                let there = node.mask().committed_in(offset, bytes);
                // SAFETY: nobody uses the node's memory.
                assert_eq!(unsafe { node.uncommit(offset, bytes) }, Some(there));
            }
            assert_eq!(node.committed_bytes(), node.memory().committed_bytes());
        }
        assert!(refused > 50, "{refused}");
    }
}
