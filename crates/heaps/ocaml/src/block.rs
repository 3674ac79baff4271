//! Words of the heap's memory, and blocks: a header word and fields.
//!
//! A block is named by the address of its first field, as an OCaml value is. Its header holds the
//! number of fields, a colour and a tag (source: `caml/mlvalues.h`, `caml/gc.h`). Free blocks keep
//! their links in their fields, so free space costs no memory of its own.
//!
//! **Every address that a heap computes lies in its own reservation**, in committed words. Chunks
//! are cut into blocks without gaps, so a block's header leads to the next block, and links lead
//! from free block to free block. The accesses below rely on this invariant, and `check_deep`
//! checks it.

use crate::facts::{FIELDS_TAG, NO_SCAN_TAG, WORD_BYTES};

/// The address of a word.
pub(crate) type Address = usize;
/// No block.
pub(crate) const NULL: Address = 0;

/// Colours of a header (`caml/gc.h`): the collector's knowledge of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Colour {
    /// Not marked in this cycle; a remnant of best-fit; a header without fields.
    White = 0,
    /// No colour of a block: the compactor's mark on a header that it keeps elsewhere for the
    /// moment.
    Threaded = 1 << 8,
    /// In the free set.
    Blue = 2 << 8,
    /// Marked.
    Black = 3 << 8,
}

pub(crate) const BLACK: usize = Colour::Black as usize;
pub(crate) const BLUE: usize = Colour::Blue as usize;
pub(crate) const WHITE: usize = Colour::White as usize;
pub(crate) const THREADED: usize = Colour::Threaded as usize;

/// Reads a word.
#[inline(always)]
pub(crate) fn load(at: Address) -> usize {
    debug_assert!(at.is_multiple_of(WORD_BYTES) && at != 0);
    // SAFETY: by the module's invariant the address is that of a committed word of the heap.
    unsafe { (at as *const usize).read() }
}

/// Writes a word.
#[inline(always)]
pub(crate) fn store(at: Address, word: usize) {
    debug_assert!(at.is_multiple_of(WORD_BYTES) && at != 0);
    // SAFETY: as for `load`. Nobody else writes the heap's words at the same time (`&mut`): the
    // driver's pointers reach only bodies of blocks that the driver owns.
    unsafe { (at as *mut usize).write(word) }
}

/// Copies words; the ranges may overlap.
#[inline(always)]
pub(crate) fn copy(from: Address, to: Address, words: usize) {
    // SAFETY: as for `load` and `store`, for each word of both ranges.
    unsafe { std::ptr::copy(from as *const usize, to as *mut usize, words) }
}

/// Copies a block's words to a place that does not overlap it.
#[inline(always)]
pub(crate) fn copy_apart(from: Address, to: Address, words: usize) {
    // SAFETY: as for `copy`; the caller has just allocated the target in another space.
    unsafe { std::ptr::copy_nonoverlapping(from as *const usize, to as *mut usize, words) }
}

/// A header.
#[inline(always)]
pub(crate) fn header(fields: usize, tag: usize, colour: usize) -> usize {
    fields << 10 | colour | tag
}

/// Fields of a header's block.
#[inline(always)]
pub(crate) fn fields_of(header: usize) -> usize {
    header >> 10
}

/// The lowest header of a block with at least `fields` fields. A header's highest bits are the
/// fields, so searches compare whole headers.
#[inline(always)]
pub(crate) fn least_header(fields: usize) -> usize {
    fields << 10
}

/// Words of a block by its header, header included.
#[inline(always)]
pub(crate) fn words_of(header: usize) -> usize {
    (header >> 10) + 1
}

/// Colour bits of a header.
#[inline(always)]
pub(crate) fn colour_of(header: usize) -> usize {
    header & BLACK
}

/// Whether a block's fields are values, by its header.
#[inline(always)]
pub(crate) fn is_scanned(header: usize) -> bool {
    header & 0xff < NO_SCAN_TAG
}

/// A header of a workload's block.
#[inline(always)]
pub(crate) fn fields_header(fields: usize, colour: usize) -> usize {
    header(fields, FIELDS_TAG, colour)
}

/// The header of the block at `block`.
#[inline(always)]
pub(crate) fn header_at(block: Address) -> usize {
    load(block - WORD_BYTES)
}

/// Writes the header of the block at `block`.
#[inline(always)]
pub(crate) fn set_header(block: Address, header: usize) {
    store(block - WORD_BYTES, header);
}

/// Fields of the block at `block`.
#[inline(always)]
pub(crate) fn fields_at(block: Address) -> usize {
    fields_of(header_at(block))
}

/// The address of a field.
#[inline(always)]
pub(crate) fn field(block: Address, nth: usize) -> Address {
    block + nth * WORD_BYTES
}

/// The block after `block` in memory.
#[inline(always)]
pub(crate) fn next_in_memory(block: Address) -> Address {
    block + words_of(header_at(block)) * WORD_BYTES
}

/// Whether a word is a block's address and not an immediate value.
#[inline(always)]
pub(crate) fn is_block(word: usize) -> bool {
    word & 1 == 0
}
