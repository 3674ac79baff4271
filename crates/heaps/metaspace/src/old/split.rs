//! A larger free chunk becomes smaller ones.
//!
//! The wanted chunk comes first. The largest chunks that are aligned at their place fill the rest,
//! so a medium chunk split for 1 KB leaves three of 1 KB and fifteen small ones. Source:
//! `ChunkManager::split_chunk`.

use super::chunk::{Chunk, Origin};
use super::facts::WORD;
use super::pool::Pool;
use super::strategy::ChunkKind;
use heaplab_buddy::marks::mark;

impl Pool {
    /// Cuts the free chunk `larger`. Returns the first piece, a free chunk of `target` on its list.
    pub(super) fn split(&mut self, larger: Chunk, target: ChunkKind) -> Chunk {
        mark("pool: split");
        self.counters.splits += 1;
        let (node, larger_kind, start, end) =
            (larger.node(), larger.kind(), larger.address(), larger.end());
        self.delist(larger);
        larger.invalidate();
        let first = self.plant(start, target, node);
        let mut at = first.end();
        while at < end {
            at = self.plant(at, self.largest_aligned(at, larger_kind), node).end();
        }
        first
    }

    /// A free chunk of `kind` at `address`, an unowned place.
    fn plant(&mut self, address: usize, kind: ChunkKind, node: usize) -> Chunk {
        let words = self.space.words_of(kind).expect("only chunks of fixed size are split");
        // SAFETY: the area belongs to a chunk just taken off its list, and earlier planted chunks
        // lie below.
        let chunk = unsafe { Chunk::create(address, self.space, words, node, Origin::Split) };
        self.node_mut(node).map.set_start(address);
        self.set_in_use(chunk, false);
        self.enlist(chunk);
        chunk
    }

    /// The largest kind below `limit` with chunks that may start at `address`.
    fn largest_aligned(&self, address: usize, limit: ChunkKind) -> ChunkKind {
        let mut kind = limit;
        while let Some(below) = kind.below() {
            kind = below;
            if self.space.words_of(kind).is_some_and(|words| address.is_multiple_of(words * WORD)) {
                break;
            }
        }
        kind
    }
}
