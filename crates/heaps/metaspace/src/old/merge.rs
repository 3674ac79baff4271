//! Free neighbours become a larger chunk.
//!
//! Around a returned chunk of 1 KB or small size lies one area for a possible medium chunk, and one
//! for a small chunk. If chunks begin at its start and end and nothing in it is in use, they all
//! become one. Medium chunks never merge. Source: `ChunkManager::attempt_to_coalesce_around_chunk`
//! (JDK-8198423).

use super::chunk::{Chunk, Origin};
use super::facts::WORD;
use super::pool::Pool;
use super::strategy::ChunkKind;
use heaplab_buddy::marks::mark;

impl Pool {
    /// Tries to make one chunk of `target` around the free `chunk`; returns whether it did. `chunk`
    /// is then gone.
    pub(super) fn merge_around(&mut self, chunk: Chunk, target: ChunkKind) -> bool {
        let number = chunk.node();
        let words = self.space.words_of(target).expect("humongous chunks are not merged");
        let start = chunk.address() - chunk.address() % (words * WORD);
        let end = start + words * WORD;
        let node = self.node(number);
        if start < node.base || end > node.top {
            mark("merge: refused, area leaves the node");
            return false;
        }
        if !node.map.starts_at(start) || end < node.top && !node.map.starts_at(end) {
            mark("merge: refused, a humongous chunk straddles");
            return false;
        }
        if node.map.any_in_use(start, words) {
            mark("merge: refused, a neighbour is in use");
            return false;
        }
        mark(if target == ChunkKind::Medium { "merge: to medium" } else { "merge: to small" });
        self.counters.merges += 1;
        let mut at = start;
        while at < end {
            let part = self.node(number).chunk_at(at);
            at = part.end();
            self.delist(part);
            part.invalidate();
        }
        let map = &mut self.node_mut(number).map;
        map.wipe_starts(start, words);
        map.set_start(start);
        // SAFETY: free chunks covered the area, and all were just taken off their lists.
        let merged = unsafe { Chunk::create(start, self.space, words, number, Origin::Merged) };
        merged.set_free(true);
        self.enlist(merged);
        true
    }
}
