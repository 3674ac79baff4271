//! One space's chunks: their nodes, the free ones by size, and handing them out.
//!
//! Sources: `metaspace/chunkManager.cpp` (free lists), `virtualSpaceList.cpp` and
//! `virtualSpaceNode.cpp` (nodes). The rest is in `split`, `merge` and `grow`.

use super::chunk::Chunk;
use super::facts;
use super::grow::Growth;
use super::node::Node;
use super::piece::PieceList;
use super::size_tree::SizeTree;
use super::strategy::{ChunkKind, Space};
use heaplab_buddy::marks::mark;

/// Counts of a pool since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PoolCounters {
    /// Nodes reserved.
    pub nodes_born: u64,
    /// Nodes unmapped.
    pub nodes_purged: u64,
    /// Times that a node's committed part grew.
    pub expansions: u64,
    /// Chunks cut up.
    pub splits: u64,
    /// Areas merged into one chunk.
    pub merges: u64,
    /// Chunks made to fill a gap before an aligned one.
    pub padding_chunks: u64,
    /// Chunks handed to arenas.
    pub chunks_handed_out: u64,
}

/// The chunks of one space.
pub(super) struct Pool {
    pub space: Space,
    /// By number, as in chunk headers; an unmapped node leaves a gap for reuse.
    pub nodes: Vec<Option<Node>>,
    /// Numbers of the nodes, oldest first. Chunks are cut from the last.
    pub order: Vec<usize>,
    pub free: [PieceList; 3],
    pub humongous: SizeTree,
    /// Words of all free chunks.
    pub free_words: usize,
    pub counters: PoolCounters,
    pub growth: Growth,
    /// Committed words of all nodes; cached, because every request asks for them.
    pub committed_words: usize,
}

impl Pool {
    /// A space without nodes.
    pub fn new(space: Space, growth: Growth) -> Pool {
        Pool {
            space,
            nodes: Vec::new(),
            order: Vec::new(),
            free: Default::default(),
            humongous: SizeTree::new(facts::HEADER_WORDS),
            free_words: 0,
            counters: PoolCounters::default(),
            growth,
            committed_words: 0,
        }
    }

    pub fn node(&self, number: usize) -> &Node {
        self.nodes[number].as_ref().expect("a chunk's node is mapped")
    }

    pub fn node_mut(&mut self, number: usize) -> &mut Node {
        self.nodes[number].as_mut().expect("a chunk's node is mapped")
    }

    /// The node from which chunks are cut.
    pub fn current(&self) -> Option<usize> {
        self.order.last().copied()
    }

    /// The mapped nodes, oldest first.
    pub fn mapped(&self) -> impl Iterator<Item = &Node> {
        self.order.iter().map(|number| self.node(*number))
    }

    pub fn reserved_words(&self) -> usize {
        self.mapped().map(|node| node.reserved_words).sum()
    }

    /// Number of free chunks of a kind.
    pub fn free_count(&self, kind: ChunkKind) -> usize {
        self.free.get(kind as usize).map_or(self.humongous.count(), PieceList::count)
    }

    /// Words of the free chunks of a kind.
    pub fn free_words_of(&self, kind: ChunkKind) -> usize {
        self.space
            .words_of(kind)
            .map_or(self.humongous.words(), |words| words * self.free_count(kind))
    }

    /// Adds a chunk to its list and to the counts.
    pub fn enlist(&mut self, chunk: Chunk) {
        match self.free.get_mut(chunk.kind() as usize) {
            Some(list) => list.push(chunk.0),
            None => self.humongous.insert(chunk.0),
        }
        self.free_words += chunk.words();
    }

    /// Removes a free chunk from its list and from the counts.
    pub fn delist(&mut self, chunk: Chunk) {
        match self.free.get_mut(chunk.kind() as usize) {
            Some(list) => list.remove(chunk.0),
            None => self.humongous.remove(chunk.0),
        }
        self.free_words -= chunk.words();
    }

    /// Marks a chunk as in use or free, in its header and in the node's map.
    pub fn set_in_use(&mut self, chunk: Chunk, in_use: bool) {
        chunk.set_free(!in_use);
        self.node_mut(chunk.node()).map.set_in_use(chunk.address(), chunk.words(), in_use);
    }

    /// A chunk of `words` (or more, if humongous) for an arena: a free one, else a larger free one
    /// split, else from a node. `allowed_words`: how much more may be committed. `None`: not within
    /// this limit, or the system refuses.
    pub fn take_chunk(&mut self, words: usize, allowed_words: usize) -> Option<Chunk> {
        let chunk = match self.take_free(words) {
            Some(chunk) => {
                self.set_in_use(chunk, true);
                self.node_mut(chunk.node()).chunks_in_use += 1;
                chunk
            }
            None => self.cut_or_grow(words, allowed_words)?,
        };
        chunk.count_use();
        self.counters.chunks_handed_out += 1;
        Some(chunk)
    }

    fn take_free(&mut self, words: usize) -> Option<Chunk> {
        let kind = self.space.kind_of(words);
        if kind == ChunkKind::Humongous {
            let chunk = Chunk(self.humongous.take(words)?);
            self.free_words -= chunk.words();
            mark(if chunk.words() > words {
                "pool: humongous chunk larger than asked"
            } else {
                "pool: humongous chunk reused"
            });
            return Some(chunk);
        }
        let chunk = match self.free[kind as usize].head() {
            Some(head) => Chunk(head),
            None => {
                let mut larger = ChunkKind::FIXED.into_iter().filter(|larger| *larger > kind);
                let victim = larger.find_map(|larger| self.free[larger as usize].head())?;
                self.split(Chunk(victim), kind)
            }
        };
        self.delist(chunk);
        Some(chunk)
    }

    /// An arena, or the pool itself, gives a chunk back.
    pub fn return_chunk(&mut self, chunk: Chunk) {
        let kind = chunk.kind();
        self.enlist(chunk);
        self.node_mut(chunk.node()).chunks_in_use -= 1;
        self.set_in_use(chunk, false);
        if matches!(kind, ChunkKind::Specialized | ChunkKind::Small)
            && !self.merge_around(chunk, ChunkKind::Medium)
            && kind == ChunkKind::Specialized
        {
            self.merge_around(chunk, ChunkKind::Small);
        }
    }

    /// Unmaps every node without chunks in use, except the one from which chunks are cut. So class
    /// space, which has one node, never shrinks. Returns their number.
    pub fn purge(&mut self) -> usize {
        let current = self.current();
        let (dead, alive): (Vec<usize>, Vec<usize>) = self.order.iter().partition(|number| {
            Some(**number) != current && self.node(**number).chunks_in_use == 0
        });
        for number in &dead {
            for chunk in self.node(*number).chunks() {
                self.delist(chunk);
                chunk.invalidate();
            }
            mark("pool: node unmapped");
            self.committed_words -= self.node(*number).committed_words;
            self.nodes[*number] = None;
        }
        self.order = alive;
        self.counters.nodes_purged += dead.len() as u64;
        dead.len()
    }
}
