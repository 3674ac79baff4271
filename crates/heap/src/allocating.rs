//! The contract of heaps whose blocks are freed by the program: malloc, and arenas that die as a whole.
//!
//! Requests go to a [`Region`]. malloc is the region that never dies; an arena is one that begins and ends, and with it
//! every block in it. A heap without regions leaves [`Allocating::REGIONS`] false and the driver frees the blocks of a
//! dying region one by one.
//!
//! Methods take `&mut self` because a heap of one's own is usually single-threaded. A heap that many threads may use at
//! once (every malloc) is a `Clone + Send` handle, one clone a thread.

use crate::{CheckError, Footprint};
use std::ptr::NonNull;

/// An arena: blocks that die together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Region(pub u32);

impl Region {
    /// malloc's region, which never dies.
    pub const MALLOC: Region = Region(0);
}

/// What the program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes; zero is allowed and gives a block of its own.
    pub size: usize,
    /// A power of two; 1 where the program named none, which means what malloc promises: suited to any type that fits in `size`.
    pub align: usize,
    /// The block must read as zeroes.
    pub zeroed: bool,
    /// Where the block lives.
    pub region: Region,
}

impl Request {
    /// A plain malloc of `size` bytes.
    pub const fn of(size: usize) -> Request {
        Request { size, align: 1, zeroed: false, region: Region::MALLOC }
    }

    /// The alignment a block of this request must have: the one that the program named, else malloc's own promise, which
    /// is that of C: the largest fundamental alignment that an object of `size` bytes can have, at most 16 on 64-bit systems.
    /// (An arena that aligns to words says 8 for every request; it never promised what malloc does.)
    pub const fn required_align(&self) -> usize {
        let natural = match self.size {
            0..=1 => 1,
            2..=3 => 2,
            4..=7 => 4,
            8..=15 => 8,
            _ => 16,
        };
        if self.align > 1 { self.align } else { natural }
    }
}

/// A heap whose blocks the program frees.
pub trait Allocating {
    /// Whether [`Allocating::end_region`] frees the region's blocks. A driver frees them one by one where it does not.
    const REGIONS: bool = false;

    /// Returns a block that holds `request`, or `None` where the heap cannot serve it; the heap is then as before.
    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>>;

    /// Frees `block`.
    ///
    /// # Safety
    /// `block` came from this heap and has neither been freed nor reallocated since; its region is alive.
    unsafe fn deallocate(&mut self, block: NonNull<u8>);

    /// Gives `block` a new size and keeps its first bytes, up to the smaller of both sizes. `request` names the new size
    /// and the alignment and region the block already has; its `zeroed` has no meaning here. Returns where the block
    /// is now; `None` where the heap cannot serve it: `block` is then as before.
    ///
    /// # Safety
    /// As for [`Allocating::deallocate`]. After `Some`, the old address is dead, even where it equals the new one.
    unsafe fn reallocate(&mut self, block: NonNull<u8>, request: Request) -> Option<NonNull<u8>>;

    /// Bytes of `block` that may be used, at least those requested; `None` where the heap does not tell.
    ///
    /// # Safety
    /// As for [`Allocating::deallocate`].
    unsafe fn usable_size(&self, block: NonNull<u8>) -> Option<usize>;

    /// A region begins. Does nothing in a heap without regions.
    fn begin_region(&mut self, region: Region) {
        let _ = region;
    }

    /// A region ends and with it all of its blocks. Does nothing in a heap without regions.
    ///
    /// # Safety
    /// No block of `region` is used afterwards.
    unsafe fn end_region(&mut self, region: Region) {
        let _ = region;
    }

    /// Where the bytes are now.
    fn footprint(&self) -> Footprint;

    /// Gives back to the system what the heap can; false where it has no such operation.
    fn trim(&mut self) -> bool {
        false
    }

    /// Checks what can be checked in constant time. A heap that cannot look into itself (a foreign malloc) has nothing to say: `Ok`.
    fn check(&self) -> Result<(), CheckError>;

    /// Checks every invariant, in time proportional to the heap.
    fn check_deep(&self) -> Result<(), CheckError>;
}
