//! What is known of Node and of the V8 in it, each with its source.

/// The version that is run where none is named: the last one whose V8 (7.9) has all six strategies
/// and prints them.
pub const VERSION: &str = "13.14.0";

/// V8's page of old space, bytes (spaces.h, `Page::kPageSize`).
pub const PAGE_BYTES: u64 = 256 << 10;

/// What of it objects can have, bytes (measured, all four versions), less what remains free on full
/// pages.
pub const PAGE_AREA_BYTES: u64 = 261_000;

/// The header object of an array (`JSArray::kSize`), bytes.
pub const ARRAY_BYTES: u64 = 32;
/// What V8 puts behind the header to learn about the allocation site (`AllocationMemento::kSize`),
/// bytes; it never outlives a collection.
pub const MEMENTO_BYTES: u64 = 16;
/// Map and length of the array's elements (`FixedArray::kHeaderSize`), bytes.
pub const ELEMENTS_HEADER_BYTES: u64 = 16;
/// A word, bytes: these Nodes have no compressed pointers.
pub const WORD_BYTES: u64 = 8;

/// `new Array(n)` of more elements makes a dictionary instead (`JSArray::kMaxFastArrayLength`).
pub const WORDS_MAX: u64 = 32 << 20;
/// A slot is an element of the driver's table, which must be no dictionary either.
pub const SLOTS_MAX: u32 = 32 << 20;

/// Most collections that V8 may make of its own accord in one run.
pub const OWN_COLLECTIONS_MAX: usize = 200_000;

/// Collections that the driver forces between asking V8 to say what it does and the workload: the
/// start's.
pub const SETTLING_COLLECTIONS: usize = 1;

/// The flag that Nodes before 12.13 and after 14 do not have.
pub const STRATEGY_FLAG: &str = "--gc-freelist-strategy";

/// The words of an object of `size` bytes.
pub fn words_of(size: u64) -> u64 {
    size.div_ceil(WORD_BYTES).max(1)
}

/// Bytes that V8 takes in new space for an array of `words`.
pub fn birth_bytes(words: u64) -> u64 {
    ARRAY_BYTES + MEMENTO_BYTES + ELEMENTS_HEADER_BYTES + words * WORD_BYTES
}
