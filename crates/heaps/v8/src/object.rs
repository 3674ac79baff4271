//! Objects and free blocks on a page, each with one header word.
//!
//! V8 finds an object's size through its map. Here the header word holds the size: kind (3 bits),
//! alignment (5), words (24), slot (32). The body shape `array` is that of `new Array(n)` in a
//! JavaScript program: an array object and its elements. Both refer to each other in their second
//! words, so that either can move. `plain` and `recorded` are one object: header and body.

use crate::facts::{ELEMENTS_HEADER_BYTES, WORD_BYTES};

/// The kind of thing that begins at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// The array object; its second word is the address of its elements.
    Array = 1,
    /// The elements; their second word is the address of the array object.
    Elements = 2,
    /// An object of the shape `plain` or `recorded`.
    Plain = 3,
    /// Free; the second word, if the block has one, is the offset of the next node.
    Free = 4,
    /// Neither free nor an object: the memento behind an array, the rest of a buffer.
    Filler = 5,
    /// The runtime's own object; its slot is its number among them.
    Own = 6,
}

/// A header word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of thing.
    pub kind: Kind,
    /// log2 of the body's alignment; 0: words.
    pub align_bits: u32,
    /// Bytes, header included; 0 for a large object whose size does not fit.
    pub bytes: usize,
    /// The workload's slot.
    pub slot: u32,
}

const WORDS_BITS: u32 = 24;

impl Header {
    /// The header of something that is no object.
    pub fn vacant(kind: Kind, bytes: usize) -> Header {
        Header { kind, align_bits: 0, bytes, slot: u32::MAX }
    }

    fn word(self) -> u64 {
        let words = (self.bytes / WORD_BYTES) as u64;
        let words = if words >> WORDS_BITS == 0 { words } else { 0 };
        self.kind as u64 | u64::from(self.align_bits) << 3 | words << 8 | u64::from(self.slot) << 32
    }
}

/// Reads the header at `address`.
///
/// # Safety
/// `address` is word-aligned, within a committed page of the heap, and a header was written there.
#[inline]
pub unsafe fn header(address: usize) -> Header {
    // SAFETY: the caller's promise.
    let word = unsafe { *(address as *const u64) };
    let kind = match word & 7 {
        1 => Kind::Array,
        2 => Kind::Elements,
        3 => Kind::Plain,
        4 => Kind::Free,
        6 => Kind::Own,
        _ => Kind::Filler,
    };
    let bytes = (word >> 8 & ((1 << WORDS_BITS) - 1)) as usize * WORD_BYTES;
    Header { kind, align_bits: (word >> 3 & 31) as u32, bytes, slot: (word >> 32) as u32 }
}

/// The size in the header at `address`.
///
/// # Safety
/// As for [`header`].
#[inline]
pub unsafe fn bytes(address: usize) -> usize {
    // SAFETY: the caller's promise.
    let word = unsafe { *(address as *const u64) };
    (word >> 8 & ((1 << WORDS_BITS) - 1)) as usize * WORD_BYTES
}

/// Writes a header.
///
/// # Safety
/// `address` is word-aligned and within a committed page of the heap; nobody needs the old content
/// any more.
#[inline]
pub unsafe fn set_header(address: usize, header: Header) {
    // SAFETY: the caller's promise.
    unsafe { *(address as *mut u64) = header.word() }
}

/// The second word: the partner of an array or of elements, or the next node of a free block.
///
/// # Safety
/// As for [`header`]; the object or block has two words or more.
#[inline]
pub unsafe fn link(address: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { *((address + WORD_BYTES) as *const usize) }
}

/// Sets the second word.
///
/// # Safety
/// As for [`set_header`]; the object or block has two words or more.
#[inline]
pub unsafe fn set_link(address: usize, to: usize) {
    // SAFETY: the caller's promise.
    unsafe { *((address + WORD_BYTES) as *mut usize) = to }
}

/// Bytes before the body of an object of this kind.
pub const fn body_offset(kind: Kind) -> usize {
    match kind {
        Kind::Elements => ELEMENTS_HEADER_BYTES,
        _ => WORD_BYTES,
    }
}

/// The body of the object at `address`, aligned.
#[inline]
pub fn body(address: usize, kind: Kind, align_bits: u32) -> usize {
    (address + body_offset(kind)).next_multiple_of(1 << align_bits)
}

/// The body of an object with a written header. If alignment left a gap before the body, a filler
/// in the gap leads back to the object's start.
#[inline]
pub fn lead_back(start: usize, kind: Kind, align_bits: u32) -> usize {
    let body = body(start, kind, align_bits);
    if body != start + body_offset(kind) {
        // SAFETY: the gap before the body is the object's, and a word or more.
        unsafe { set_header(body - WORD_BYTES, Header::vacant(Kind::Filler, body - start)) };
    }
    body
}

/// Copies an object to another place, with its body at the alignment that it needs there.
///
/// # Safety
/// `from` holds an object of `header.bytes` bytes; as many bytes at `to` are committed, free, and
/// apart from the object.
pub unsafe fn copy(from: usize, to: usize, header: Header) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, header.bytes) };
    if header.align_bits == 0 {
        return;
    }
    let source = body(from, header.kind, header.align_bits);
    let target = lead_back(to, header.kind, header.align_bits);
    let length = header.bytes - (source - from).max(target - to);
    // SAFETY: both ranges end within the two objects, which are apart.
    unsafe { std::ptr::copy_nonoverlapping(source as *const u8, target as *mut u8, length) };
}
