//! One class loader's share of one space: a few chunks, with a bump pointer in the last, and free
//! blocks.
//!
//! Source: `metaspace/spaceManager.cpp`.

use super::blocks::Blocks;
use super::chunk::Chunk;
use super::facts::{
    BLOCK_WORDS_MIN, DICTIONARY_LIMIT_WORDS, HEADER_WORDS, SMALL_CHUNKS_MAX,
    SPECIALIZED_CHUNKS_MAX, SPECIALIZED_WORDS,
};
use super::piece::Piece;
use super::pool::Pool;
use super::strategy::{ChunkKind, Space};
use crate::plan::LoaderKind;
use heaplab_buddy::marks::mark;

/// One arena. [`Arena::die`] returns its chunks to the pool; dropping the arena instead loses them.
pub(super) struct Arena {
    pub space: Space,
    pub loader: LoaderKind,
    /// The last chunk added; the others follow its links.
    chunks: Option<Chunk>,
    current: Option<Chunk>,
    pub capacity_words: usize,
    /// Handed out, free blocks included.
    pub used_words: usize,
    pub chunks_by_kind: [u32; 4],
    blocks: Option<Box<Blocks>>,
    /// Requests served by a free block.
    pub from_blocks: u64,
}

impl Arena {
    /// A newborn arena gets its first chunk at once, or begins without one if none is available.
    pub fn new(pool: &mut Pool, loader: LoaderKind, allowed_words: usize) -> Arena {
        let mut arena = Arena {
            space: pool.space,
            loader,
            chunks: None,
            current: None,
            capacity_words: 0,
            used_words: 0,
            chunks_by_kind: [0; 4],
            blocks: None,
            from_blocks: 0,
        };
        if let Some(chunk) = pool.take_chunk(pool.space.first_chunk_words(loader), allowed_words) {
            arena.add(chunk, true);
        }
        arena
    }

    /// The words taken by a request of `words`: at least a free block's links.
    pub fn raw_words(words: usize) -> usize {
        words.max(BLOCK_WORDS_MIN)
    }

    /// A block of `words` (raw). `None`, with the arena unchanged: no chunk is available.
    pub fn allocate(
        &mut self,
        pool: &mut Pool,
        words: usize,
        allowed_words: usize,
    ) -> Option<usize> {
        if let Some(blocks) =
            self.blocks.as_mut().filter(|blocks| blocks.words() > DICTIONARY_LIMIT_WORDS)
            && let Some(block) = blocks.take(words)
        {
            self.from_blocks += 1;
            return Some(block);
        }
        let block = match self.current.and_then(|chunk| chunk.bump(words)) {
            Some(block) => block,
            None => self.grow_and_allocate(pool, words, allowed_words)?,
        };
        self.used_words += words;
        Some(block)
    }

    /// Hands out `words` of the current chunk.
    pub fn bump(&mut self, words: usize) -> Option<usize> {
        let block = self.current?.bump(words)?;
        self.used_words += words;
        Some(block)
    }

    fn grow_and_allocate(
        &mut self,
        pool: &mut Pool,
        words: usize,
        allowed_words: usize,
    ) -> Option<usize> {
        let chunk = pool.take_chunk(self.next_chunk_words(words), allowed_words)?;
        // A humongous chunk serves one request; the chunk in use stays in use.
        let make_current = chunk.kind() != ChunkKind::Humongous || self.current.is_none();
        if !make_current {
            mark("arena: humongous chunk beside the current one");
        }
        self.add(chunk, make_current);
        chunk.bump(words)
    }

    /// Words of the next chunk, for a request of `words`.
    fn next_chunk_words(&self, words: usize) -> usize {
        let with_header = words + HEADER_WORDS;
        let count = |kind: ChunkKind| self.chunks_by_kind[kind as usize];
        let micro = matches!(self.loader, LoaderKind::Hidden | LoaderKind::Reflection)
            && self.space == Space::NonClass;
        if micro
            && count(ChunkKind::Specialized) < SPECIALIZED_CHUNKS_MAX
            && with_header <= SPECIALIZED_WORDS
        {
            mark("arena: another specialized chunk");
            return SPECIALIZED_WORDS;
        }
        let still_small =
            count(ChunkKind::Medium) == 0 && count(ChunkKind::Small) < SMALL_CHUNKS_MAX;
        let fixed = if still_small && with_header <= self.space.small_words() {
            self.space.small_words()
        } else {
            self.space.medium_words()
        };
        fixed.max(with_header.next_multiple_of(SPECIALIZED_WORDS))
    }

    fn add(&mut self, chunk: Chunk, make_current: bool) {
        chunk.reset();
        if make_current {
            self.retire_current();
            self.current = Some(chunk);
        }
        chunk.0.set_next(self.chunks.map(|first| first.0));
        self.chunks = Some(chunk);
        self.capacity_words += chunk.words();
        self.chunks_by_kind[chunk.kind() as usize] += 1;
    }

    /// Turns the rest of the current chunk into a free block, which counts as used from then on.
    fn retire_current(&mut self) {
        let Some(chunk) = self.current else { return };
        let rest = chunk.free_words();
        if rest < BLOCK_WORDS_MIN {
            return;
        }
        if let Some(block) = chunk.bump(rest) {
            // SAFETY: the block was just cut from the arena's own chunk.
            unsafe { self.deallocate(block, rest) };
            self.used_words += rest;
        }
    }

    /// Keeps a block for later requests of this arena.
    ///
    /// # Safety
    /// The `words` (raw) at `block` came from this arena, and nobody uses them.
    pub unsafe fn deallocate(&mut self, block: usize, words: usize) {
        // SAFETY: the caller's promise; memory handed out by an arena stays committed while the
        // arena lives.
        unsafe { self.blocks.get_or_insert_with(|| Box::new(Blocks::new())).put(block, words) };
    }

    /// Gives all chunks back, the last one first.
    pub fn die(self, pool: &mut Pool) {
        let mut next = self.chunks.map(|chunk| chunk.0);
        while let Some(piece) = next {
            next = piece.next();
            pool.return_chunk(Chunk(piece));
        }
    }

    /// Its chunks, the last one first.
    pub fn chunks(&self) -> impl Iterator<Item = Chunk> {
        std::iter::successors(self.chunks.map(|chunk| chunk.0), |piece: &Piece| piece.next())
            .map(Chunk)
    }

    /// The chunk with the bump pointer.
    pub fn current(&self) -> Option<Chunk> {
        self.current
    }

    /// Words in free blocks, and the number of blocks.
    pub fn free_blocks(&self) -> (usize, usize) {
        self.blocks.as_ref().map_or((0, 0), |blocks| (blocks.words(), blocks.count()))
    }

    /// Its free blocks.
    pub fn blocks(&self) -> Option<&Blocks> {
        self.blocks.as_deref()
    }
}
