//! A node: reserved address space from which root chunks are taken in order, committed granule by granule.
//!
//! Commit and uncommit replace the mapping, as HotSpot's do, so that the number of mappings is HotSpot's too. Committing a
//! range of which parts are committed erases those parts. That is safe because chunks of at least a granule share none, and
//! commit only beyond what they use; and a smaller chunk's granule is either committed, and nothing is done, or holds nothing.

use heaplab_address_space::{CommitLimit, Commitment, Error, Faults, Options, Reservation};
use heaplab_buddy::CommitMask;
use heaplab_buddy::marks::mark;
use std::ptr::NonNull;
use std::sync::Arc;

/// Where nodes come from: the limit that all of them share, and faults for tests.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Most bytes that may be committed, whatever node they lie in.
    pub limit: Option<Arc<CommitLimit>>,
    /// Calls that are made to fail.
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
    pub fn new(bytes: usize, root_bytes: usize, granule_bytes: usize, source: &Source) -> Result<Node, Error> {
        let options = Options {
            commitment: Commitment::Replace,
            align_bytes: root_bytes,
            limit: source.limit.clone(),
            no_huge_pages: false,
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

    /// Commits the granules that a range touches. Returns by how many bytes the committed ones grew (0: they all were), or
    /// `None` where the limit or the system refuses; nothing has changed then.
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

    /// Gives a range of whole granules back. Returns by how many bytes the committed ones shrank; `None` where the system
    /// refuses, which it may, since every hole is a mapping: nothing has changed then.
    ///
    /// # Safety
    /// Nobody relies on what the range holds.
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
