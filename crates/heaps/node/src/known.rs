//! Facts about Node and its V8, each with its source.

/// The default version: the last one whose V8 (7.9) has all six strategies and prints them.
pub const VERSION: &str = "13.14.0";

/// V8's page of old space, bytes (spaces.h, `Page::kPageSize`).
pub const PAGE_BYTES: u64 = 256 << 10;

/// Bytes of it for objects (measured, all four versions), less the bytes that stay free on full
/// pages.
pub const PAGE_AREA_BYTES: u64 = 261_000;

/// The header object of an array (`JSArray::kSize`), bytes.
pub const ARRAY_BYTES: u64 = 32;
/// V8's record of the allocation site behind the header (`AllocationMemento::kSize`), bytes; it
/// never outlives a collection.
pub const MEMENTO_BYTES: u64 = 16;
/// Map and length of the array's elements (`FixedArray::kHeaderSize`), bytes.
pub const ELEMENTS_HEADER_BYTES: u64 = 16;
/// A word, bytes: these Nodes have no compressed pointers.
pub const WORD_BYTES: u64 = 8;

/// `new Array(n)` of more elements makes a dictionary instead (`JSArray::kMaxFastArrayLength`).
pub const WORDS_MAX: u64 = 32 << 20;
/// A slot is an element of the driver's table, which must not become a dictionary either.
pub const SLOTS_MAX: u32 = 32 << 20;

/// Most collections that V8 may make of its own accord in one run.
pub const OWN_COLLECTIONS_MAX: usize = 200_000;

/// Collections that the driver forces after it has switched V8's messages on and before the
/// workload: that of the start.
pub const SETTLING_COLLECTIONS: usize = 1;

/// The flag; Nodes before 12.13 and after 14 lack it.
pub const STRATEGY_FLAG: &str = "--gc-freelist-strategy";

/// The words of an object of `size` bytes.
pub fn words_of(size: u64) -> u64 {
    size.div_ceil(WORD_BYTES).max(1)
}

/// Bytes of new space for an array of `words`.
pub fn birth_bytes(words: u64) -> u64 {
    ARRAY_BYTES + MEMENTO_BYTES + ELEMENTS_HEADER_BYTES + words * WORD_BYTES
}
