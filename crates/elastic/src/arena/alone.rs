//! Large blocks: each has its chunk to itself, which goes back to the space when the block does, so that a trim or the reclaim policy gives
//! its pages back while the arena lives.
//!
//! Blocks in shared chunks cannot do that: a chunk is committed from its end down to one line, without holes. An arena that
//! kept the holes' bounds would have to commit again what it reuses, and could be refused.

use super::Arena;
use super::grow::return_chunks;
use super::head::Chunk;
use heaplab_buddy::marks::mark;
use std::ptr::NonNull;

/// A block of this size or more has a chunk of its own, which goes back to the space when the block does, whether its arena lives or not.
pub(super) const ALONE_BYTES: usize = 512 << 10;

impl Arena {
    /// The chunk that was taken for this block alone, with the one before it in the list. Looks through the arena's chunks, the latest
    /// first; there are as many as blocks of this kind, and a few.
    fn alone(&self, block: NonNull<u8>) -> Option<(Chunk, Chunk)> {
        let line = self.shared().shape.lines_for(block.addr().get() - self.shared().reservation.base().addr().get()) as u32;
        let mut before = self.chunk(self.head().current.get());
        while before.other != 0 {
            let chunk = self.chunk(before.other);
            if chunk.alone && (chunk.top - chunk.lines..chunk.top).contains(&line) {
                return Some((before, chunk));
            }
            before = chunk;
        }
        None
    }

    /// Gives the chunk of a block back that has it alone; false where the block shares one.
    pub(super) fn return_alone(&self, block: NonNull<u8>) -> bool {
        let Some((before, chunk)) = self.alone(block) else { return false };
        mark("a large block goes back with its chunk");
        self.write_chunk(&Chunk { other: chunk.other, ..before });
        self.write_chunk(&Chunk { other: 0, ..chunk.clone() });
        let (shared, owned) = (self.shared(), &self.head().owned_lines);
        owned.set(owned.get().saturating_sub(chunk.lines));
        shared.after_return(return_chunks(shared, [chunk.top, 0]));
        true
    }

    /// Before a part of a large block becomes a free block: its chunk is one like others from now on.
    pub(super) fn share_chunk(&self, block: NonNull<u8>) {
        if let Some((_, chunk)) = self.alone(block) {
            mark("a large block that has its chunk alone shrinks");
            self.write_chunk(&Chunk { alone: false, ..chunk });
        }
    }
}
