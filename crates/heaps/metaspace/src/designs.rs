//! The contents of HotSpot's metaspace designs in common terms: bytes by use and by kind of loader.

use crate::elastic::ElasticMetaspace;
use crate::listing::Listing;
use crate::old::{self, Heap11};

/// Free chunks above this size count as "large" in comparisons: the old design's medium chunk.
pub const LARGE_BYTES: u64 = 64 << 10;

/// Bytes of a design, by use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Handed out by live arenas, their free blocks included.
    pub used: u64,
    /// Backed by memory, by the design's own count.
    pub committed: u64,
    /// Committed, in free chunks.
    pub free_chunks: u64,
    /// In current chunks of arenas, still to be handed out.
    pub free: u64,
    /// In retired chunks, never to be handed out.
    pub waste: u64,
    /// Chunk headers within the committed memory.
    pub overhead: u64,
    /// Free blocks of arenas.
    pub deallocated: u64,
    /// Size of all free chunks, committed or not.
    pub free_capacity: u64,
    /// Free chunks larger than [`LARGE_BYTES`].
    pub free_capacity_large: u64,
}

/// A metaspace that counts its contents as HotSpot does.
pub trait Design {
    /// Its bytes, by use.
    fn usage(&self) -> Usage;
    /// The same by kind of loader.
    fn listing(&self, name: &str) -> Listing;
}

impl Design for Heap11 {
    fn usage(&self) -> Usage {
        usage_of(&self.statistics())
    }

    fn listing(&self, name: &str) -> Listing {
        self.statistics().listing(name)
    }
}

/// The old design's statistics in common terms.
pub fn usage_of(statistics: &old::Statistics) -> Usage {
    let mut usage = Usage { committed: statistics.committed_bytes(), ..Usage::default() };
    for space in statistics.spaces() {
        let total = space.total();
        usage.used += total.used_bytes;
        usage.free_chunks += total.free_chunk_bytes;
        usage.free += total.free_bytes;
        usage.waste += total.waste_bytes;
        usage.overhead += total.overhead_bytes;
        usage.deallocated += space.free_block_bytes;
        usage.free_capacity += total.free_chunk_bytes;
        // Only humongous chunks are larger than a medium one.
        usage.free_capacity_large +=
            space.kinds[old::ChunkKind::Humongous as usize].free_chunk_bytes;
    }
    usage
}

impl Design for ElasticMetaspace {
    fn usage(&self) -> Usage {
        let report = self.report();
        let mut usage = Usage { committed: report.committed_bytes(), ..Usage::default() };
        for space in &report.spaces {
            let (held, total) = (space.usage(), space.usage().total());
            usage.used += total.used_bytes;
            usage.free_chunks += space.free_chunks_committed_bytes();
            usage.free += total.free_bytes;
            usage.waste += total.waste_bytes;
            usage.deallocated += held.deallocated_bytes;
            for level in &space.free_chunks {
                usage.free_capacity += level.capacity_bytes;
                usage.free_capacity_large +=
                    if level.chunk_bytes > LARGE_BYTES { level.capacity_bytes } else { 0 };
            }
        }
        usage
    }

    fn listing(&self, name: &str) -> Listing {
        Listing { metaspace: name.into(), ..self.report().listing() }
    }
}
