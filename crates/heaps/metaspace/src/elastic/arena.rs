//! An arena: the chunks of one class loader in one space, and its returned blocks.
//!
//! An allocation tries the free blocks, then the current chunk (committing more of it, or enlarging
//! it in place), then a new chunk; only then the rest of the old chunk is salvaged. Free blocks
//! count as used, in HotSpot's counters and here (HotSpot 17, `MetaspaceArena`).

use super::facts::{REMAINDER_KEPT_ABOVE_WORDS, SMALLEST_BLOCK_WORDS, WORD_BYTES};
use super::free_blocks::FreeBlocks;
use super::space::Space;
use super::strategy;
use crate::plan::ArenaPlan;
use heaplab_buddy::ChunkId;
use heaplab_buddy::marks::mark;
use std::ptr::NonNull;

/// An arena. It belongs to the space of its chunks; every call names this space.
#[derive(Debug)]
pub struct Arena {
    plan: ArenaPlan,
    growth: &'static [usize],
    /// The newest chunk; the others follow by their links.
    current: Option<ChunkId>,
    chunks: usize,
    /// Made at the first returned block.
    blocks: Option<Box<FreeBlocks>>,
}

/// A block, and the growth of the arena's used words.
#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    /// Its address.
    pub block: NonNull<u64>,
    /// The chunk taken for it, if any.
    pub new_chunk: Option<ChunkId>,
    /// Growth of [`Arena::used_words`] in words.
    pub grown_words: usize,
}

/// The words taken by a request.
#[inline]
pub fn raw_words(words: usize) -> usize {
    words.max(SMALLEST_BLOCK_WORDS)
}

impl Arena {
    /// An arena without chunks.
    pub fn new(plan: ArenaPlan) -> Arena {
        Arena { plan, growth: strategy::growth(plan), current: None, chunks: 0, blocks: None }
    }

    /// Its kind and loader.
    pub fn plan(&self) -> ArenaPlan {
        self.plan
    }

    /// The newest chunk.
    pub fn current(&self) -> Option<ChunkId> {
        self.current
    }

    /// Number of its chunks.
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// Its chunks, the newest first.
    pub fn each_chunk<'a>(&self, space: &'a Space) -> impl Iterator<Item = ChunkId> + 'a {
        std::iter::successors(self.current, |chunk| space.chunks().next(*chunk))
    }

    /// Its returned blocks.
    pub fn blocks(&self) -> Option<&FreeBlocks> {
        self.blocks.as_deref()
    }

    /// Allocates. `None`: larger than a root chunk, or no memory; the arena has not changed then,
    /// except that its current chunk may have been enlarged before the commit failed.
    pub fn allocate(&mut self, space: &mut Space, words: usize) -> Option<Allocated> {
        let words = raw_words(words);
        if words > space.settings().geometry.root_bytes() / WORD_BYTES {
            return None;
        }
        if let Some(block) = self.blocks.as_mut().and_then(|blocks| blocks.take(words)) {
            return Some(Allocated { block, new_chunk: None, grown_words: 0 });
        }
        let bytes = words * WORD_BYTES;
        if let Some(current) = self.current
            && self.make_room(space, current, bytes)
        {
            let block = bump(space, current, bytes);
            return Some(Allocated { block, new_chunk: None, grown_words: words });
        }
        let new = self.take_chunk(space, bytes)?;
        let salvaged = self.current.map_or(0, |old| self.salvage(space, old));
        space.chunks_mut().set_next(new, self.current);
        self.current = Some(new);
        self.chunks += 1;
        let block = bump(space, new, bytes);
        Some(Allocated { block, new_chunk: Some(new), grown_words: words + salvaged })
    }

    /// Whether the current chunk, enlarged if needed and committed far enough, has `bytes` left.
    #[inline]
    fn make_room(&self, space: &mut Space, current: ChunkId, bytes: usize) -> bool {
        let used = space.chunks().used_bytes(current);
        let fits =
            space.chunks().bytes(current) - used >= bytes || self.enlarge(space, current, bytes);
        if fits && !space.ensure_committed(current, used + bytes) {
            mark("the current chunk could not be committed further");
            return false;
        }
        fits
    }

    /// Enlarges the current chunk by HotSpot's rule: by one level, if this is enough, the next
    /// chunk would be at least as large as this one, and the buddy is free.
    fn enlarge(&self, space: &mut Space, current: ChunkId, bytes: usize) -> bool {
        let settings = *space.settings();
        let level = space.chunks().level(current);
        let Some(larger) = level.larger() else {
            mark("enlarging refused: a root chunk");
            return false;
        };
        let Some(needed) =
            settings.geometry.level_fitting(space.chunks().used_bytes(current) + bytes)
        else {
            mark("enlarging refused: above a root chunk");
            return false;
        };
        if needed < larger {
            mark("enlarging refused: more than twice as large");
            return false;
        }
        if !space.chunks().leads(current) {
            mark("enlarging refused: the second of its pair");
            return false;
        }
        if settings.wanted_level(self.growth, self.chunks) > level {
            mark("enlarging refused: the next chunk is to be smaller");
            return false;
        }
        let enlarged = space.enlarge(current);
        if enlarged {
            mark("enlarged in place");
        }
        enlarged
    }

    /// A chunk for `bytes`, of the size that the growth policy wants or the request needs.
    fn take_chunk(&self, space: &mut Space, bytes: usize) -> Option<ChunkId> {
        let settings = *space.settings();
        let smallest = settings.geometry.level_fitting(bytes)?;
        let preferred = smallest.min(settings.wanted_level(self.growth, self.chunks));
        space.take(preferred, smallest, bytes)
    }

    /// Keeps the committed rest of a retiring chunk as a block; returns its words.
    fn salvage(&mut self, space: &mut Space, old: ChunkId) -> usize {
        let left = space.chunks().committed_bytes(old) - space.chunks().used_bytes(old);
        let words = left / WORD_BYTES;
        if words <= REMAINDER_KEPT_ABOVE_WORDS {
            return 0;
        }
        mark("salvaged a retired chunk");
        let block = bump(space, old, left);
        // SAFETY: the block lies in the committed part of a chunk of this arena, behind everything
        // handed out.
        unsafe { self.blocks.get_or_insert_default().add(block, words) };
        words
    }

    /// Takes a block back before the arena dies. It still counts as used.
    ///
    /// # Safety
    /// The block was allocated here with the same words, and nobody uses it any more.
    pub unsafe fn deallocate(&mut self, block: NonNull<u64>, words: usize) {
        // SAFETY: the caller's promise; an allocation has at least the words of a free block.
        unsafe { self.blocks.get_or_insert_default().add(block, raw_words(words)) };
    }

    /// Used words: handed out, salvaged, or in free blocks.
    pub fn used_words(&self, space: &Space) -> usize {
        self.each_chunk(space).map(|chunk| space.chunks().used_bytes(chunk)).sum::<usize>()
            / WORD_BYTES
    }

    /// Ends the arena: its chunks go back, the newest first. Returns the words that were used.
    pub fn die(self, space: &mut Space) -> usize {
        let mut used_bytes = 0;
        let mut at = self.current;
        while let Some(chunk) = at {
            at = space.chunks().next(chunk);
            used_bytes += space.chunks().used_bytes(chunk);
            space.give_back(chunk);
        }
        used_bytes / WORD_BYTES
    }
}

/// Hands out the next `bytes` of a chunk, which must be committed.
#[inline]
fn bump(space: &mut Space, chunk: ChunkId, bytes: usize) -> NonNull<u64> {
    let used = space.chunks().used_bytes(chunk);
    let address = space.address(chunk);
    space.chunks_mut().set_used_bytes(chunk, used + bytes);
    // SAFETY: the used part ends within the chunk, whose addresses are those of its node.
    unsafe { address.add(used) }.cast()
}
