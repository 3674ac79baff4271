//! The design's constants, each with its source.
//!
//! "17" means observed behaviour of OpenJDK 17.0.15 (its `VM.metaspace` settings, its trace log,
//! its arenas driven through WhiteBox); "16" means its sources and the document (T. Stüfe, "Elastic
//! Metaspaces", 2020).

/// Bytes of a metaspace word.
pub const WORD_BYTES: usize = 8;

/// Smallest chunk (document, 16, 17).
pub const SMALLEST_CHUNK_BYTES: usize = 1 << 10;
/// Root chunk of the document and of 16: 13 levels.
pub const ROOT_CHUNK_BYTES_16: usize = 4 << 20;
/// Root chunk since 17: 15 levels.
pub const ROOT_CHUNK_BYTES_17: usize = 16 << 20;

/// A non-class node of 16: two root chunks.
pub const NODE_BYTES_16: usize = 2 * ROOT_CHUNK_BYTES_16;
/// A non-class node of 17: four root chunks ("virtual_space_node_default_size: 8388608" words).
pub const NODE_BYTES_17: usize = 4 * ROOT_CHUNK_BYTES_17;

/// Commit granule of `balanced` and `none` (17, settings).
pub const GRANULE_BYTES: usize = 64 << 10;
/// Commit granule of `aggressive` (17, settings).
pub const GRANULE_BYTES_AGGRESSIVE: usize = 16 << 10;

/// Every request takes at least this much, because a freed block must hold a list's link and its
/// size (16, 17).
pub const SMALLEST_BLOCK_WORDS: usize = 2;
/// Freed blocks up to this size are binned by exact size; larger ones go to the tree (16, 17: 32
/// bins from 2 words).
pub const LARGEST_BINNED_WORDS: usize = 33;
/// The rest of a freed block, or of a retired chunk, is kept if larger than this (17).
pub const REMAINDER_KEPT_ABOVE_WORDS: usize = 2;

/// A search from the preferred size looks at chunks this many levels smaller before larger ones, so
/// that a large loader does not use up the small splinters (17).
pub const LEVELS_SMALLER_FIRST: u8 = 2;

const K: usize = 1 << 10;

/// First chunks of a standard loader's non-class arena; the last repeats (17, seen in both golden
/// recordings).
pub const STANDARD_NON_CLASS: &[usize] = &[4 * K, 4 * K, 4 * K, 8 * K, 16 * K];
/// First chunks of its class arena.
pub const STANDARD_CLASS: &[usize] = &[2 * K, 2 * K, 4 * K, 8 * K, 16 * K];
/// A hidden class with its own arenas, both spaces.
pub const HIDDEN: &[usize] = &[K];
/// A reflection loader's non-class arena.
pub const REFLECTION_NON_CLASS: &[usize] = &[2 * K, K];
/// First chunks of its class arena.
pub const REFLECTION_CLASS: &[usize] = &[K];
/// The boot loader's non-class arena.
pub const BOOT_NON_CLASS: &[usize] = &[4 * K * K, K * K];
/// First chunks of its class arena.
pub const BOOT_CLASS: &[usize] = &[256 * K];
