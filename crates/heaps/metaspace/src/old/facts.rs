//! The constants of the old metaspace, each with its source in JDK 11
//! (`src/hotspot/share/memory/`).

/// Bytes of a word; metaspace counts in words.
pub const WORD: usize = 8;

/// Smallest chunk of both spaces, the occupancy map's unit: 1 KB (`metaspace/metaspaceCommon.hpp`).
pub const SPECIALIZED_WORDS: usize = 128;
/// Small chunk of the non-class space: 4 KB.
pub const SMALL_WORDS: usize = 512;
/// Medium chunk of the non-class space: 64 KB.
pub const MEDIUM_WORDS: usize = 8 << 10;
/// Small chunk of the class space: 2 KB.
pub const CLASS_SMALL_WORDS: usize = 256;
/// Medium chunk of the class space: 32 KB.
pub const CLASS_MEDIUM_WORDS: usize = 4 << 10;

/// A chunk's header, inside the chunk: 64 bytes (`metaspace/metachunk.hpp`, release build).
pub const HEADER_WORDS: usize = 8;
/// Smallest block: a free block's size and two links (`metaspace/metablock.hpp`).
pub const BLOCK_WORDS_MIN: usize = 3;
/// Smallest block that the dictionary takes: block, list pointer and tree node
/// (`binaryTreeDictionary.hpp`, release build). Smaller ones lie in lists of exact sizes. The
/// document says "up to 13": a debug build has two words more.
pub const DICTIONARY_WORDS_MIN: usize = 11;
/// A block this many times larger than the request is put back (`metaspace/blockFreelist.hpp`).
pub const WASTE_MULTIPLIER: usize = 4;
/// Free blocks are searched only once they hold more than this (`metaspace/spaceManager.hpp`).
pub const DICTIONARY_LIMIT_WORDS: usize = 4 << 10;

/// An arena gets this many small chunks, then medium ones (`metaspace/spaceManager.hpp`).
pub const SMALL_CHUNKS_MAX: u32 = 4;
/// The non-class arena of an anonymous class or reflection delegator has specialized chunks up to
/// this number.
pub const SPECIALIZED_CHUNKS_MAX: u32 = 4;
/// First non-class chunk of the boot loader: `InitialBootClassLoaderMetaspaceSize`, 4 MB on 64
/// bits.
pub const BOOT_CHUNK_WORDS: usize = 512 << 10;
/// First class chunk of the boot loader: six non-class medium chunks (`metaspace.cpp`).
pub const BOOT_CLASS_CHUNK_WORDS: usize = 6 * MEDIUM_WORDS;

/// A node's committed part grows by this many medium chunks (`metaspace/spaceManager.hpp`).
pub const COMMIT_MEDIUM_CHUNKS: usize = 4;
/// Reserved words of the first non-class node: twice the boot loader's first chunk
/// (`metaspace.cpp`).
pub const FIRST_NODE_WORDS: usize = 2 * BOOT_CHUNK_WORDS;
/// Reserved words of the following nodes, unless a chunk needs more: 2 MB
/// (`metaspace/virtualSpaceList.hpp`).
pub const NODE_WORDS: usize = 256 << 10;
/// Unit of committing and reserving: a page (`metaspace.cpp`, without large pages).
pub const PAGE_WORDS: usize = 512;

/// Mark of a sound header (`metaspace/metachunk.hpp`).
pub const SENTINEL: u32 = 0x4d45_54ef;
/// Mark of a header after its chunk was merged, split or unmapped.
pub const SENTINEL_DEAD: u32 = 0xfeee_eeef;
