//! The contract of heaps with blocks that the program frees: malloc, and arenas that die as a
//! whole.
//!
//! The driver owns the block: it knows address, size, alignment and region, and passes all of them
//! in a [`Block`] when the block dies, as sized deallocation in Rust, C++ and HotSpot does. A heap
//! keeps no table to find them again. malloc reads only the address and says so
//! ([`Manual::SIZED`]); the driver then keeps nothing else.
//!
//! Requests go to a [`Region`]. malloc is the region that never dies. An arena is a region that
//! begins and ends, and all its blocks end with it. A heap without regions leaves
//! [`Manual::REGIONS`] false, and the driver frees the blocks of a dying region one by one.
//!
//! Methods take `&mut self`, because one's own heap is usually single-threaded. A heap that many
//! threads may use at once (every malloc) is a `Clone + Send` handle, one clone a thread.

use crate::Heap;
use std::ptr::NonNull;

/// An arena: blocks that die together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Region(pub u32);

impl Region {
    /// malloc's region, which never dies.
    pub const MALLOC: Region = Region(0);
}

/// A program's request for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes; zero is allowed and gives a distinct block.
    pub size: usize,
    /// A power of two. 1, if the program named none, means malloc's promise: suited to any type
    /// that fits in `size`.
    pub align: usize,
    /// The block must read as zeroes.
    pub zeroed: bool,
    /// The block's region.
    pub region: Region,
}

impl Request {
    /// A plain malloc of `size` bytes.
    pub const fn of(size: usize) -> Request {
        Request { size, align: 1, zeroed: false, region: Region::MALLOC }
    }

    /// The alignment that a block of this request must have: the program's, or else malloc's own
    /// promise as in C: the largest fundamental alignment of any object of `size` bytes, at most 16
    /// on 64-bit systems. (An arena that aligns to words says 8 for every request; it never made
    /// malloc's promise.)
    pub const fn required_align(&self) -> usize {
        let size_log2 = (self.size | 1).ilog2();
        let natural = 1 << if size_log2 < 4 { size_log2 } else { 4 };
        if self.align > 1 { self.align } else { natural }
    }
}

/// A live block, as its driver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its address, as the heap returned it.
    pub address: NonNull<u8>,
    /// Bytes last requested for it.
    pub size: usize,
    /// The alignment requested for it, as in [`Request::align`].
    pub align: usize,
    /// Its region; [`Region::MALLOC`] in a heap without regions.
    pub region: Region,
}

impl Block {
    /// The block at `address` that serves `request`.
    pub const fn new(address: NonNull<u8>, request: Request) -> Block {
        Block { address, size: request.size, align: request.align, region: request.region }
    }

    /// A block known only by address, for heaps that are not [`Manual::SIZED`].
    pub const fn at(address: NonNull<u8>) -> Block {
        Block { address, size: 0, align: 1, region: Region::MALLOC }
    }

    /// A request for `size` bytes of the block's alignment in its region.
    pub const fn request(&self, size: usize) -> Request {
        Request { size, align: self.align, zeroed: false, region: self.region }
    }

    /// Whether the address fits a block of `size` bytes of the same alignment.
    pub fn is_aligned_for(&self, size: usize) -> bool {
        self.address.addr().get().is_multiple_of(self.request(size).required_align())
    }
}

/// A heap with blocks that the program frees.
pub trait Manual: Heap {
    /// Whether [`Manual::end_region`] frees the region's blocks. If not, a driver frees them one by
    /// one.
    const REGIONS: bool = false;

    /// Whether the heap reads the size, alignment or region of a [`Block`]. If not, a driver may
    /// pass [`Block::at`] and keep only addresses. A reallocation always names the alignment that
    /// the program asks for.
    const SIZED: bool = true;

    /// Returns a block for `request`; `None`, with the heap unchanged, if the heap cannot serve it.
    fn allocate(&mut self, request: Request) -> Option<NonNull<u8>>;

    /// Frees `block`.
    ///
    /// # Safety
    /// `block` came from this heap and has neither been freed nor reallocated since; its region is
    /// alive; size, alignment and region are those of its last request (if the heap is
    /// [`Manual::SIZED`]).
    unsafe fn deallocate(&mut self, block: Block);

    /// Gives `block` the size `new_size`. Keeps its first bytes, up to the smaller of both sizes,
    /// its alignment and its region. Returns the block's new address; `None`, with `block`
    /// unchanged, if the heap cannot serve it.
    ///
    /// # Safety
    /// As for [`Manual::deallocate`]. After `Some`, the old address is dead, even if it equals the
    /// new one.
    unsafe fn reallocate(&mut self, block: Block, new_size: usize) -> Option<NonNull<u8>>;

    /// Usable bytes of `block`, at least those requested; `None` if the heap does not tell.
    ///
    /// # Safety
    /// As for [`Manual::deallocate`].
    unsafe fn usable_size(&self, block: Block) -> Option<usize>;

    /// A region begins. Does nothing in a heap without regions.
    fn begin_region(&mut self, region: Region) {
        let _ = region;
    }

    /// A region ends, and all its blocks with it. Does nothing in a heap without regions.
    ///
    /// # Safety
    /// No block of `region` is used afterwards.
    unsafe fn end_region(&mut self, region: Region) {
        let _ = region;
    }
}
