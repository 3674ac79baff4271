//! Layout of both heaps. No source states these figures: they are the simplest that do.

/// Objects begin on multiples of this.
pub const ALIGN_BYTES: usize = 16;
/// Bytes of [`Header`].
pub const HEADER_BYTES: usize = size_of::<Header>();
/// Least growth of committed memory.
pub const GROWTH_BYTES: usize = 1 << 20;
/// Least bytes allocated between two collections.
pub const PACE_BYTES_MIN: u64 = 1 << 20;

/// The header before each object and at the start of each free block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Header and body, a multiple of [`ALIGN_BYTES`].
    pub bytes: u64,
    /// The kind of block, and whether the running collection has reached it.
    pub state: State,
}

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum State {
    /// A free block.
    Free = 0,
    /// An object outside of any collection, or not reached yet.
    White = 1,
    /// An object that the running collection has reached.
    Marked = 2,
}

/// Bytes of an object with a body of `size` bytes; `None`: exceeds an address space.
pub fn object_bytes(size: usize) -> Option<usize> {
    size.checked_add(HEADER_BYTES)?.checked_next_multiple_of(ALIGN_BYTES)
}
