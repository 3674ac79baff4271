//! A chunk: its header of 64 bytes, then the memory that an arena hands out by bumping a pointer.
//!
//! The header lies in the chunk (source: `metaspace/metachunk.hpp`), so a free chunk can never be
//! uncommitted: its free list runs through it. So the elastic design had to move headers out.

use super::facts::{HEADER_WORDS, SENTINEL, SENTINEL_DEAD, WORD};
use super::piece::Piece;
use super::strategy::{ChunkKind, Space};

/// Words of the header behind size and links. The last is unused padding, as in HotSpot's header.
const NODE: usize = 3;
const TOP: usize = 4;
const IDENTITY: usize = 5;
const USES: usize = 6;

/// The origin of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Origin {
    /// Cut from a node's committed part.
    Normal = 1,
    /// Fills the gap before an aligned chunk.
    Padding = 2,
    /// From the rest of an abandoned node.
    Leftover = 3,
    /// From smaller chunks.
    Merged = 4,
    /// From a larger chunk.
    Split = 5,
}

/// A chunk of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk(pub Piece);

impl Chunk {
    /// Writes a header at `address`: an empty chunk in use.
    ///
    /// # Safety
    /// The `words` at `address` are committed in node `node`, and neither chunk nor block lies
    /// there any longer.
    pub unsafe fn create(
        address: usize,
        space: Space,
        words: usize,
        node: usize,
        origin: Origin,
    ) -> Chunk {
        // SAFETY: the caller's promise covers the header.
        let piece = unsafe { Piece::at(address) };
        piece.set_words(words);
        piece.set_next(None);
        piece.set_previous(None);
        piece.set(NODE, node);
        piece.set(USES, 0);
        let chunk = Chunk(piece);
        chunk.set_identity(SENTINEL, space.kind_of(words), origin, false);
        chunk.reset();
        chunk
    }

    /// Sentinel, kind, origin, free: one word, as in the original.
    fn set_identity(self, sentinel: u32, kind: ChunkKind, origin: Origin, free: bool) {
        let word = u64::from(sentinel) << 32
            | (kind as u64) << 16
            | (origin as u64) << 8
            | u64::from(free);
        self.0.set(IDENTITY, word as usize);
    }

    pub fn address(self) -> usize {
        self.0.address()
    }

    pub fn words(self) -> usize {
        self.0.words()
    }

    /// One past its last byte.
    pub fn end(self) -> usize {
        self.address() + self.words() * WORD
    }

    /// Number of its node.
    pub fn node(self) -> usize {
        self.0.get(NODE)
    }

    pub fn kind(self) -> ChunkKind {
        ChunkKind::ALL[self.0.get(IDENTITY) >> 16 & 3]
    }

    pub fn is_free(self) -> bool {
        self.0.get(IDENTITY) & 1 == 1
    }

    pub fn set_free(self, free: bool) {
        self.0.set(IDENTITY, self.0.get(IDENTITY) & !1 | usize::from(free));
    }

    /// Whether this is a living chunk's header.
    pub fn is_sound(self) -> bool {
        self.0.get(IDENTITY) >> 32 == SENTINEL as usize
    }

    /// Marks the chunk as gone; its header lies in another chunk or in nothing.
    pub fn invalidate(self) {
        self.0.set(IDENTITY, (SENTINEL_DEAD as usize) << 32 | self.0.get(IDENTITY) & 0xffff_ffff);
    }

    /// Counts a use by an arena.
    pub fn count_use(self) {
        self.0.set(USES, self.0.get(USES) + 1);
    }

    /// Number of arenas that have used it since it was made.
    pub fn uses(self) -> usize {
        self.0.get(USES)
    }

    /// Empties it.
    pub fn reset(self) {
        self.0.set(TOP, self.address() + HEADER_WORDS * WORD);
        self.0.set_next(None);
        self.0.set_previous(None);
    }

    /// First byte not handed out yet.
    pub fn top(self) -> usize {
        self.0.get(TOP)
    }

    /// Words still to hand out.
    pub fn free_words(self) -> usize {
        (self.end() - self.top()) / WORD
    }

    /// Words handed out, without the header.
    pub fn used_words(self) -> usize {
        (self.top() - self.address()) / WORD - HEADER_WORDS
    }

    /// Hands out `words`; `None` if they do not fit.
    pub fn bump(self, words: usize) -> Option<usize> {
        if self.free_words() < words {
            return None;
        }
        let block = self.top();
        self.0.set(TOP, block + words * WORD);
        Some(block)
    }
}
