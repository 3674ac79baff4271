//! The sources of chunks: a node's committed part, more of it, or another node.
//!
//! Nothing is ever uncommitted; a node goes as a whole or not at all. Sources:
//! `VirtualSpaceList::get_new_chunk` and `expand_by`, `VirtualSpaceNode::take_from_committed` and
//! `retire`. Deviation: the caller sets the limit of committing; HotSpot asks its garbage
//! collection threshold here.

use super::chunk::{Chunk, Origin};
use super::facts::{
    COMMIT_MEDIUM_CHUNKS, FIRST_NODE_WORDS, NODE_WORDS, PAGE_WORDS, SPECIALIZED_WORDS, WORD,
};
use super::node::Node;
use super::pool::Pool;
use super::strategy::{ChunkKind, Space};
use heaplab_address_space::Faults;
use heaplab_buddy::marks::mark;
use std::sync::Arc;

/// The making of a space's nodes.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    /// Words of the class space's only node.
    pub class_space_words: usize,
    /// Distance of the n-th node's base above a multiple of 64 KB, in bytes; zero beyond. HotSpot
    /// takes the addresses that the system gives, which decide where padding chunks are needed:
    /// this field rebuilds a recorded JVM's nodes.
    pub offsets_bytes: Vec<usize>,
    /// Commits that fail, for tests.
    pub faults: Option<Arc<Faults>>,
}

impl Pool {
    /// A chunk from the current node; the node grows, or another follows, if necessary.
    pub(super) fn cut_or_grow(&mut self, words: usize, allowed_words: usize) -> Option<Chunk> {
        if self.order.is_empty() {
            let reserved = if self.space == Space::Class {
                self.growth.class_space_words
            } else {
                FIRST_NODE_WORDS
            };
            self.add_node(reserved)?;
        }
        if let Some(chunk) = self.cut(words, Origin::Normal) {
            return Some(chunk);
        }
        // Room for the chunk and for its alignment's padding.
        let padding = if self.space.kind_of(words) == ChunkKind::Humongous {
            0
        } else {
            words - SPECIALIZED_WORDS
        };
        let least = (words + padding).next_multiple_of(PAGE_WORDS);
        let preferred = (self.space.medium_words() * COMMIT_MEDIUM_CHUNKS)
            .next_multiple_of(PAGE_WORDS)
            .max(least);
        if !self.expand(least, preferred, allowed_words) {
            return None;
        }
        self.cut(words, Origin::Normal)
    }

    /// Commits `preferred` more words, as far as allowed but at least `least`, in this node or in
    /// the next.
    fn expand(&mut self, least: usize, preferred: usize, allowed_words: usize) -> bool {
        let current = self.current().expect("a pool that grows has a node");
        if self.space == Space::Class
            && self.node(current).committed_words + least > self.growth.class_space_words
        {
            mark("grow: class space is full");
            return false;
        }
        if allowed_words < least {
            mark("grow: refused by the limit");
            return false;
        }
        let wanted = preferred.min(allowed_words);
        if self.commit(current, least, wanted) {
            return true;
        }
        self.retire_current();
        if self.space == Space::Class {
            return false;
        }
        match self.add_node(preferred.max(NODE_WORDS)) {
            Some(number) => self.commit(number, least, wanted),
            None => false,
        }
    }

    fn commit(&mut self, number: usize, least: usize, wanted: usize) -> bool {
        let before = self.node(number).committed_words;
        let done = self.node_mut(number).commit(least, wanted);
        self.committed_words += self.node(number).committed_words - before;
        self.counters.expansions += u64::from(done);
        done
    }

    fn add_node(&mut self, reserved_words: usize) -> Option<usize> {
        let serial = self.counters.nodes_born as usize;
        let offset = self.growth.offsets_bytes.get(serial).copied().unwrap_or(0);
        let node = Node::reserve(serial, reserved_words, offset, self.growth.faults.clone())?;
        let number = self.nodes.iter().position(Option::is_none).unwrap_or(self.nodes.len());
        if number == self.nodes.len() {
            self.nodes.push(None);
        }
        self.nodes[number] = Some(node);
        self.order.push(number);
        self.counters.nodes_born += 1;
        Some(number)
    }

    /// Cuts a chunk from the uncut committed part of the current node.
    fn cut(&mut self, words: usize, origin: Origin) -> Option<Chunk> {
        let number = self.current()?;
        let (top, limit) = (self.node(number).top, self.node(number).committed_end());
        let aligned = top.next_multiple_of(self.space.chunk_alignment_bytes(words));
        if limit.checked_sub(aligned)? < words * WORD {
            return None;
        }
        self.pad(number, aligned);
        Some(self.carve(number, words, origin))
    }

    /// Fills the current node up to `target` with free chunks: specialized ones up to the first
    /// small chunk's alignment, then small ones.
    fn pad(&mut self, number: usize, target: usize) {
        while self.node(number).top < target {
            mark("grow: padding chunk");
            let small = self.space.small_words();
            let words = if self.node(number).top.is_multiple_of(small * WORD) {
                small
            } else {
                SPECIALIZED_WORDS
            };
            self.counters.padding_chunks += 1;
            let chunk = self.carve(number, words, Origin::Padding);
            self.return_chunk(chunk);
        }
    }

    /// The next `words` of a node become a chunk in use.
    fn carve(&mut self, number: usize, words: usize, origin: Origin) -> Chunk {
        let space = self.space;
        let node = self.node_mut(number);
        let address = node.top;
        node.top += words * WORD;
        node.chunks_in_use += 1;
        node.map.set_start(address);
        // SAFETY: the caller saw that these words are committed; nothing lies above a node's top.
        let chunk = unsafe { Chunk::create(address, space, words, number, origin) };
        self.set_in_use(chunk, true);
        chunk
    }

    /// Leaves the current node: its uncut committed part becomes free chunks, the largest that fit.
    fn retire_current(&mut self) {
        mark("grow: node retired");
        for kind in ChunkKind::FIXED.into_iter().rev() {
            let words = self.space.words_of(kind).expect("of fixed size");
            while self.current().is_some_and(|number| self.node(number).uncut_words() >= words) {
                let Some(chunk) = self.cut(words, Origin::Leftover) else { break };
                self.return_chunk(chunk);
            }
        }
    }
}
