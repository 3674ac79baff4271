//! A space: nodes, and the chunks in them. Non-class space grows by nodes; class space is one node.
//!
//! Does the work of HotSpot 17's `VirtualSpaceList` and `ChunkManager`: [`Space::take`] finds an
//! arena a chunk, [`Space::give_back`] takes it back, [`Space::purge`] returns memory of free
//! chunks.

use super::counters::Counters;
use super::facts::{LEVELS_SMALLER_FIRST, WORD_BYTES};
use super::node::{Node, Source};
use super::strategy::{Settings, Uncommit};
use heaplab_address_space::Error;
use heaplab_buddy::marks::mark;
use heaplab_buddy::{ChunkId, Chunks, Level};
use std::ptr::NonNull;

/// A decision about a chunk, for tests that compare ours with HotSpot's log. Offsets are in words
/// from the first node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// An arena asks: preferred level, smallest fitting level, words to commit.
    Asked(Level, Level, usize),
    /// It gets this chunk.
    HandedOut(Level, u64),
    /// A chunk comes back.
    Returned(Level, u64),
    /// With its free buddies it becomes this chunk.
    Merged(Level, u64),
}

/// A space.
#[derive(Debug)]
pub struct Space {
    settings: Settings,
    source: Source,
    chunks: Chunks,
    nodes: Vec<Node>,
    node_bytes: usize,
    expandable: bool,
    counters: Counters,
    decisions: Option<Vec<Decision>>,
}

impl Space {
    /// A space that reserves another node when its nodes are used up.
    pub fn expandable(settings: Settings, source: Source) -> Space {
        Space::new(settings, source, settings.node_bytes, true)
    }

    /// A space of one node of `bytes`, made of whole root chunks.
    pub fn fixed(settings: Settings, source: Source, bytes: usize) -> Result<Space, Error> {
        let mut space = Space::new(settings, source, bytes, false);
        space.add_node()?;
        Ok(space)
    }

    fn new(settings: Settings, source: Source, node_bytes: usize, expandable: bool) -> Space {
        let chunks = Chunks::new(settings.geometry, settings.granule_bytes);
        Space {
            settings,
            source,
            chunks,
            nodes: Vec::new(),
            node_bytes,
            expandable,
            counters: Counters::default(),
            decisions: None,
        }
    }

    /// The generation's choices.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its chunks.
    pub fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    /// Its chunks, mutable, for their owners.
    pub(super) fn chunks_mut(&mut self) -> &mut Chunks {
        &mut self.chunks
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Counts so far, except those of arenas.
    pub fn counters(&self) -> Counters {
        let counts = self.chunks.counts();
        Counters {
            num_chunk_merges: counts.merges,
            num_chunk_splits: counts.splits,
            num_chunks_enlarged: counts.enlarged,
            ..self.counters
        }
    }

    /// Reserved bytes.
    pub fn reserved_bytes(&self) -> usize {
        self.nodes.iter().map(Node::reserved_bytes).sum()
    }

    /// Committed bytes.
    pub fn committed_bytes(&self) -> usize {
        self.nodes.iter().map(Node::committed_bytes).sum()
    }

    /// Keeps every decision from now on until taken.
    pub fn watch(&mut self) {
        self.decisions = Some(Vec::new());
    }

    /// The decisions since the last call.
    pub fn decisions(&mut self) -> Vec<Decision> {
        self.decisions.as_mut().map(std::mem::take).unwrap_or_default()
    }

    #[inline]
    fn note(&mut self, decision: impl FnOnce(&Chunks) -> Decision) {
        if let Some(decisions) = &mut self.decisions {
            decisions.push(decision(&self.chunks));
        }
    }

    /// A chunk's node and its offset in the node.
    fn place(&self, chunk: ChunkId) -> (usize, usize) {
        let offset = self.chunks.offset(chunk) as usize;
        (offset / self.node_bytes, offset % self.node_bytes)
    }

    /// A chunk's first address.
    #[inline]
    pub fn address(&self, chunk: ChunkId) -> NonNull<u8> {
        let (node, offset) = self.place(chunk);
        self.nodes[node].at(offset)
    }

    /// The offset of an address in this space, nodes counted one after another; `None`: outside.
    pub fn offset_of(&self, address: usize) -> Option<usize> {
        let found = self
            .nodes
            .iter()
            .enumerate()
            .find_map(|(nth, node)| Some((nth, node.offset_of(address)?)));
        found.map(|(nth, offset)| nth * self.node_bytes + offset)
    }

    fn add_node(&mut self) -> Result<(), Error> {
        let node = Node::new(
            self.node_bytes,
            self.settings.geometry.root_bytes(),
            self.settings.granule_bytes,
            &self.source,
        )?;
        self.nodes.push(node);
        self.counters.num_vsnodes_births += 1;
        Ok(())
    }

    /// A new, uncommitted root chunk. `None`: a fixed space is used up, or the system reserves no
    /// more.
    fn add_root(&mut self) -> Option<ChunkId> {
        let root_bytes = self.settings.geometry.root_bytes();
        let mut taken = self.nodes.last_mut().and_then(|node| node.take_root(root_bytes));
        if taken.is_none() {
            if !self.expandable {
                mark("a fixed space is used up");
                return None;
            }
            self.add_node().ok()?;
            taken = self.nodes.last_mut().and_then(|node| node.take_root(root_bytes));
        }
        let offset = (self.nodes.len() - 1) * self.node_bytes + taken?;
        Some(self.chunks.add_root(offset as u64))
    }

    /// Takes a chunk for an arena: of level `preferred` if one is free or can be split off, else
    /// smaller, down to `smallest`. The chunk is in use, with its first `committed_bytes`
    /// committed. `None`: no address space, or the commit was refused. Then the chunks are
    /// unchanged, except that a root chunk may have been added.
    ///
    /// Committed chunks come first: those of the preferred size and slightly smaller, then larger
    /// ones, then the smallest that fit; then all of these in any commit state; then a new root
    /// chunk.
    pub fn take(
        &mut self,
        preferred: Level,
        smallest: Level,
        committed_bytes: usize,
    ) -> Option<ChunkId> {
        self.note(|_| Decision::Asked(preferred, smallest, committed_bytes / WORD_BYTES));
        let nearly = Level(preferred.0 + LEVELS_SMALLER_FIRST).min(smallest);
        let chunks = &mut self.chunks;
        let found = chunks
            .take_same_or_smaller(preferred, nearly, committed_bytes)
            .or_else(|| chunks.take_same_or_larger(preferred, committed_bytes))
            .or_else(|| chunks.take_same_or_smaller(preferred, smallest, committed_bytes))
            .or_else(|| chunks.take_same_or_smaller(preferred, smallest, 0))
            .or_else(|| chunks.take_same_or_larger(preferred, 0));
        let chunk = found.or_else(|| self.add_root())?;
        if self.chunks.level(chunk) < preferred {
            self.chunks.split(chunk, preferred);
        }
        let wanted = if self.settings.commit_whole_chunks {
            self.chunks.bytes(chunk)
        } else {
            committed_bytes
        };
        if !self.ensure_committed(chunk, wanted) {
            mark("a chunk goes back because it could not be committed");
            self.give_back(chunk);
            return None;
        }
        self.chunks.set_in_use(chunk);
        self.counters.num_chunks_taken_from_freelist += 1;
        self.note(|chunks| {
            Decision::HandedOut(chunks.level(chunk), chunks.offset(chunk) / WORD_BYTES as u64)
        });
        Some(chunk)
    }

    /// Moves the chunk's commit line, by whole granules, so that at least `bytes` from its
    /// beginning are committed. False, with nothing changed, if the limit or the system refuses.
    #[inline]
    pub fn ensure_committed(&mut self, chunk: ChunkId, bytes: usize) -> bool {
        bytes <= self.chunks.committed_bytes(chunk) || self.commit_up_to(chunk, bytes)
    }

    fn commit_up_to(&mut self, chunk: ChunkId, bytes: usize) -> bool {
        let from = self.chunks.committed_bytes(chunk);
        let to = bytes.next_multiple_of(self.settings.granule_bytes).min(self.chunks.bytes(chunk));
        let (node, offset) = self.place(chunk);
        let Some(grown) = self.nodes[node].commit(offset + from, to - from) else { return false };
        self.counters.num_space_committed += u64::from(grown > 0);
        self.chunks.set_committed_bytes(chunk, to);
        true
    }

    /// Doubles a chunk in use in place; false if its buddy is in use or split.
    pub fn enlarge(&mut self, chunk: ChunkId) -> bool {
        self.chunks.enlarge(chunk)
    }

    /// Takes a chunk back. It merges with its free buddies, and its memory goes back if the policy
    /// says so.
    pub fn give_back(&mut self, chunk: ChunkId) {
        self.note(|chunks| {
            Decision::Returned(chunks.level(chunk), chunks.offset(chunk) / WORD_BYTES as u64)
        });
        self.chunks.set_free(chunk);
        let merged = self.chunks.merge(chunk);
        if let Some(merged) = merged {
            self.note(|chunks| {
                Decision::Merged(chunks.level(merged), chunks.offset(merged) / WORD_BYTES as u64)
            });
        }
        let chunk = merged.unwrap_or(chunk);
        if self.settings.uncommit == Uncommit::AtReturn {
            self.uncommit(chunk);
        }
        self.chunks.add_free(chunk);
        self.counters.num_chunks_returned_to_freelist += 1;
    }

    /// Uncommits a free chunk of at least a granule.
    fn uncommit(&mut self, chunk: ChunkId) {
        let bytes = self.chunks.bytes(chunk);
        if bytes < self.settings.granule_bytes {
            return;
        }
        let (node, offset) = self.place(chunk);
        // SAFETY: the chunk is free, and a chunk of at least a granule shares no granule with
        // others.
        let Some(shrunk) = (unsafe { self.nodes[node].uncommit(offset, bytes) }) else { return };
        self.counters.num_space_uncommitted += u64::from(shrunk > 0);
        self.chunks.set_committed_bytes(chunk, 0);
    }

    /// Gives back the memory of every free chunk of at least a granule. Nodes stay reserved. Chunks
    /// keep their places in the free lists: within a list all become uncommitted, so its order
    /// still holds.
    pub fn purge(&mut self) {
        if self.settings.uncommit == Uncommit::Never {
            return;
        }
        let levels: Vec<Level> = self.settings.geometry.all().collect();
        for level in levels {
            if self.settings.geometry.bytes(level) < self.settings.granule_bytes {
                break;
            }
            let free: Vec<ChunkId> = self.chunks.free_of(level).collect();
            for chunk in free {
                self.uncommit(chunk);
            }
        }
    }
}
