//! Large blocks: each has its chunk to itself, which goes back to the space when the block does, so
//! that a trim or the reclaim policy gives its pages back while the arena lives.
//!
//! Blocks in shared chunks cannot do that: a chunk is committed from its end down to one line,
//! without holes. An arena that kept the holes' bounds would have to commit reused bytes again,
//! and could be refused.

use super::Arena;
use super::chunks::return_and_reclaim;
use super::head::Chunk;
use heaplab_buddy::marks::mark;
use std::ptr::NonNull;

/// A block of this size or more has a chunk of its own. The chunk returns to the space with the
/// block, even while the arena lives.
pub(super) const ALONE_BYTES: usize = 512 << 10;

impl Arena {
    /// Tells the pool of a chunk that is taken for one block, so that the block's address leads to
    /// it. Without that, the list of chunks would be walked, in quadratic time when many such
    /// blocks are given back oldest first.
    pub(super) fn note_alone(&self, chunk: Chunk) -> Chunk {
        let first = chunk.top - chunk.lines;
        self.shared().shards.of(first).lock().note_alone(first, chunk.top);
        // Linking the chunk sets its place in the list.
        Chunk { alone: Some(0), ..chunk }
    }

    /// The chunk that was taken for this block alone.
    fn alone(&self, block: NonNull<u8>) -> Option<Chunk> {
        let shared = self.shared();
        let line = ((block.addr().get() - shared.reservation.base().addr().get())
            >> shared.shape.line_log2()) as u32;
        let top = shared.shards.of(line).lock().alone_at(line)?;
        Some(self.chunk(top))
    }

    /// If the chunk that ends at `top` is for one block alone, tells it which chunk links to it.
    pub(super) fn set_newer(&self, top: u32, newer: u32) {
        if top == 0 {
            return;
        }
        let chunk = self.chunk(top);
        if chunk.alone.is_some() {
            self.write_chunk(&Chunk { alone: Some(newer), ..chunk });
        }
    }

    /// Gives the chunk of a block back that has it alone; false where the block shares one.
    pub(super) fn return_alone(&self, block: NonNull<u8>) -> bool {
        let Some((chunk, newer)) =
            self.alone(block).and_then(|chunk| chunk.alone.map(|newer| (chunk, newer)))
        else {
            return false;
        };
        mark("a large block goes back with its chunk");
        let before = self.chunk(newer);
        debug_assert_eq!(before.other, chunk.top);
        self.write_chunk(&Chunk { other: chunk.other, ..before });
        self.set_newer(chunk.other, newer);
        self.write_chunk(&Chunk { other: 0, ..chunk.clone() });
        let (shared, owned) = (self.shared(), &self.head().owned_lines);
        owned.set(owned.get().saturating_sub(chunk.lines));
        return_and_reclaim(shared, chunk.top);
        true
    }

    /// Before a part of a large block becomes a free block: its chunk is one like others from now
    /// on.
    pub(super) fn share_chunk(&self, block: NonNull<u8>) {
        if let Some(chunk) = self.alone(block) {
            mark("a large block that has its chunk alone shrinks");
            self.shared().shards.of(chunk.top - chunk.lines).lock().forget_alone(chunk.top);
            self.write_chunk(&Chunk { alone: None, ..chunk });
        }
    }
}
