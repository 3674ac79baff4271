//! The numbers of `jcmd VM.metaspace` for the old metaspace.

use super::facts::WORD;
use super::metaspace::Metaspace11;
use super::pool::PoolCounters;
use super::strategy::{ChunkKind, Space};
use crate::listing::{Listing, LoaderUsage};
use crate::plan::LoaderKind;
use serde::Serialize;

/// The chunks of one kind in arenas. `capacity = used + free + waste + overhead`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindRow {
    /// Number of chunks.
    pub chunks: u64,
    /// Their size.
    pub capacity_bytes: u64,
    /// Handed out; free blocks count as used.
    pub used_bytes: u64,
    /// Still to be handed out, in arenas' current chunks.
    pub free_bytes: u64,
    /// Never to be handed out, in retired chunks.
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

/// Bytes of the arenas of one kind of loader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoaderRow {
    /// Arenas.
    pub arenas: u64,
    /// Their chunks of all kinds; none is free.
    pub chunks: KindRow,
}

/// One space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpaceStatistics {
    /// Arenas alive.
    pub arenas: u64,
    /// By kind: specialized, small, medium, humongous.
    pub kinds: [KindRow; 4],
    /// The arenas of each kind of loader, in the order of [`LoaderKind::ALL`].
    pub loaders: [LoaderRow; 4],
    /// Free blocks in arenas.
    pub free_blocks: u64,
    /// Their size; part of `used_bytes`.
    pub free_block_bytes: u64,
    /// Requests that free blocks served, in live arenas.
    pub from_free_blocks: u64,
    /// Address space.
    pub reserved_bytes: u64,
    /// Its committed part.
    pub committed_bytes: u64,
    /// Committed and not cut into chunks yet.
    pub uncut_bytes: u64,
    /// Nodes mapped.
    pub nodes: u64,
    /// Counts so far.
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

    /// Both spaces as one.
    pub fn both(&self) -> SpaceStatistics {
        let (mut both, class) = (self.non_class.clone(), &self.class);
        both.arenas += class.arenas;
        both.kinds.iter_mut().zip(&class.kinds).for_each(|(row, other)| row.add(other));
        for (row, other) in both.loaders.iter_mut().zip(&class.loaders) {
            row.arenas += other.arenas;
            row.chunks.add(&other.chunks);
        }
        both.free_blocks += class.free_blocks;
        both.free_block_bytes += class.free_block_bytes;
        both.from_free_blocks += class.from_free_blocks;
        both.reserved_bytes += class.reserved_bytes;
        both.committed_bytes += class.committed_bytes;
        both.uncut_bytes += class.uncut_bytes;
        both.nodes += class.nodes;
        both
    }

    /// In the terms of all designs; `name`: the generation.
    pub fn listing(&self, name: &str) -> Listing {
        let both = self.both();
        let mut loaders = Vec::new();
        for (class, space) in [(false, &self.non_class), (true, &self.class)] {
            for ((_, loader), row) in
                LoaderKind::ALL.iter().zip(&space.loaders).filter(|(_, row)| row.arenas > 0)
            {
                loaders.push(LoaderUsage {
                    loader: (*loader).into(),
                    class,
                    arenas: row.arenas,
                    chunks: row.chunks.chunks,
                    committed_bytes: row.chunks.capacity_bytes,
                    used_bytes: row.chunks.used_bytes,
                    free_bytes: row.chunks.free_bytes,
                    waste_bytes: row.chunks.waste_bytes,
                    overhead_bytes: row.chunks.overhead_bytes,
                });
            }
        }
        Listing {
            metaspace: name.into(),
            loaders,
            committed_bytes: both.committed_bytes,
            free_chunks_bytes: both.total().free_chunk_bytes,
            uncut_bytes: both.uncut_bytes,
            free_blocks: both.free_blocks,
            free_block_bytes: both.free_block_bytes,
        }
    }

    /// Committed in both.
    pub fn committed_bytes(&self) -> u64 {
        self.spaces().iter().map(|space| space.committed_bytes).sum()
    }

    /// Handed out in both, as counted by the JVM's beans.
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
            let mut held = KindRow::default();
            for chunk in arena.chunks() {
                let mut one = KindRow {
                    chunks: 1,
                    capacity_bytes: bytes(chunk.words()),
                    used_bytes: bytes(chunk.used_words()),
                    overhead_bytes: bytes(super::facts::HEADER_WORDS),
                    ..KindRow::default()
                };
                let rest = if arena.current() == Some(chunk) {
                    &mut one.free_bytes
                } else {
                    &mut one.waste_bytes
                };
                *rest = bytes(chunk.free_words());
                space.kinds[chunk.kind() as usize].add(&one);
                held.add(&one);
            }
            let loader = &mut space.loaders[arena.loader as usize];
            loader.arenas += 1;
            loader.chunks.add(&held);
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
