//! What `jcmd VM.metaspace` prints of the old metaspace, as numbers.

use super::facts::WORD;
use super::geometry::{ChunkKind, Space};
use super::metaspace::Metaspace11;
use super::pool::PoolCounters;
use serde::Serialize;

/// The chunks of one kind that arenas have. `capacity = used + free + waste + overhead`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindRow {
    /// How many.
    pub chunks: u64,
    /// Their size.
    pub capacity_bytes: u64,
    /// Handed out; free blocks count as used.
    pub used_bytes: u64,
    /// Still to be handed out, in chunks that an arena bumps through.
    pub free_bytes: u64,
    /// Never to be handed out, in chunks that an arena is done with.
    pub waste_bytes: u64,
    /// Headers.
    pub overhead_bytes: u64,
    /// Free chunks of this kind, in the pool.
    pub free_chunks: u64,
    /// Their size.
    pub free_chunk_bytes: u64,
}

impl KindRow {
    fn add(&mut self, other: &KindRow) {
        self.chunks += other.chunks;
        self.capacity_bytes += other.capacity_bytes;
        self.used_bytes += other.used_bytes;
        self.free_bytes += other.free_bytes;
        self.waste_bytes += other.waste_bytes;
        self.overhead_bytes += other.overhead_bytes;
        self.free_chunks += other.free_chunks;
        self.free_chunk_bytes += other.free_chunk_bytes;
    }
}

/// One space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpaceStatistics {
    /// Arenas alive.
    pub arenas: u64,
    /// By kind: specialized, small, medium, humongous.
    pub kinds: [KindRow; 4],
    /// Free blocks in arenas.
    pub free_blocks: u64,
    /// Their size; part of `used_bytes`.
    pub free_block_bytes: u64,
    /// Requests that free blocks served, in arenas alive.
    pub from_free_blocks: u64,
    /// Address space.
    pub reserved_bytes: u64,
    /// Of it, backed by memory.
    pub committed_bytes: u64,
    /// Committed and not cut into chunks yet.
    pub uncut_bytes: u64,
    /// Nodes mapped.
    pub nodes: u64,
    /// What happened so far.
    pub counters: PoolCounters,
}

impl SpaceStatistics {
    /// All kinds together.
    pub fn total(&self) -> KindRow {
        let mut total = KindRow::default();
        self.kinds.iter().for_each(|row| total.add(row));
        total
    }
}

/// Both spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Everything but class structures.
    pub non_class: SpaceStatistics,
    /// Class structures.
    pub class: SpaceStatistics,
}

impl Statistics {
    /// Non-class, class.
    pub fn spaces(&self) -> [&SpaceStatistics; 2] {
        [&self.non_class, &self.class]
    }

    /// Chunks of both, all kinds together.
    pub fn total(&self) -> KindRow {
        let mut total = self.non_class.total();
        total.add(&self.class.total());
        total
    }

    /// Committed in both.
    pub fn committed_bytes(&self) -> u64 {
        self.spaces().iter().map(|space| space.committed_bytes).sum()
    }

    /// Handed out in both, as the JVM's beans count it.
    pub fn used_bytes(&self) -> u64 {
        self.spaces().iter().map(|space| space.total().used_bytes).sum()
    }

    /// In free chunks of both.
    pub fn free_chunk_bytes(&self) -> u64 {
        self.spaces().iter().map(|space| space.total().free_chunk_bytes).sum()
    }
}

fn bytes(words: usize) -> u64 {
    (words * WORD) as u64
}

impl Metaspace11 {
    /// Walks every arena's chunks.
    pub fn statistics(&self) -> Statistics {
        let mut spaces = Space::ALL.map(|space| self.pool_statistics(space));
        for arena in self.living() {
            let space = &mut spaces[arena.space as usize];
            space.arenas += 1;
            let (words, count) = arena.free_blocks();
            space.free_blocks += count as u64;
            space.free_block_bytes += bytes(words);
            space.from_free_blocks += arena.from_blocks;
            for chunk in arena.chunks() {
                let row = &mut space.kinds[chunk.kind() as usize];
                row.chunks += 1;
                row.capacity_bytes += bytes(chunk.words());
                row.used_bytes += bytes(chunk.used_words());
                row.overhead_bytes += bytes(super::facts::HEADER_WORDS);
                let rest = if arena.current() == Some(chunk) { &mut row.free_bytes } else { &mut row.waste_bytes };
                *rest += bytes(chunk.free_words());
            }
        }
        let [non_class, class] = spaces;
        Statistics { non_class, class }
    }

    fn pool_statistics(&self, space: Space) -> SpaceStatistics {
        let pool = &self.pools[space as usize];
        SpaceStatistics {
            kinds: ChunkKind::ALL.map(|kind| KindRow {
                free_chunks: pool.free_count(kind) as u64,
                free_chunk_bytes: bytes(pool.free_words_of(kind)),
                ..KindRow::default()
            }),
            reserved_bytes: bytes(pool.reserved_words()),
            committed_bytes: bytes(pool.committed_words),
            uncut_bytes: bytes(pool.mapped().map(|node| node.uncut_words()).sum()),
            nodes: pool.order.len() as u64,
            counters: pool.counters,
            ..SpaceStatistics::default()
        }
    }
}
