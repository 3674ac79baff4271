//! The designs of HotSpot's metaspace, each behind HotSpot's own operations: requests in words,
//! arenas by number.

use crate::elastic::{self, ElasticMetaspace};
use crate::listing::Listing;
use crate::old::{self, Metaspace11, Options11, Space};
use crate::plan::{ArenaPlan, Plan};
use crate::spec::{Generation, Spec};
use std::ptr::NonNull;

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

/// A metaspace for replaying a recording.
pub trait Design {
    /// An arena is born; returns its number.
    fn birth(&mut self, plan: ArenaPlan) -> usize;
    /// A block; `None`: refused.
    fn allocate(&mut self, arena: usize, words: usize) -> Option<NonNull<u8>>;
    /// Gives a block back.
    ///
    /// # Safety
    /// It was allocated from this arena with the same words, not given back since, and nobody uses
    /// it.
    unsafe fn deallocate(&mut self, arena: usize, block: NonNull<u8>, words: usize);
    /// An arena dies; nobody uses its blocks any more.
    ///
    /// # Safety
    /// Nobody uses its blocks.
    unsafe fn death(&mut self, arena: usize);
    /// The end of a collection that unloaded classes.
    fn purge(&mut self);
    /// Words of a living arena that are handed out or in its free blocks.
    fn used_words(&self, arena: usize) -> usize;
    /// Its bytes, by use.
    fn usage(&self) -> Usage;
    /// The same by kind of loader.
    fn listing(&self, name: &str) -> Listing;
}

/// The design of this spec, empty.
///
/// # Errors
/// The address space of its class space cannot be reserved.
pub fn design(spec: Spec) -> Result<Box<dyn Design>, heaplab_address_space::Error> {
    Ok(match spec.generation {
        Generation::Jdk11 => Box::new(Old {
            metaspace: Metaspace11::new(Options11::from(&spec)),
            arenas: Vec::new(),
        }),
        _ => {
            let metaspace = ElasticMetaspace::new(spec, Plan::default())?;
            Box::new(Elastic { metaspace, arenas: Vec::new() })
        }
    })
}

struct Old {
    metaspace: Metaspace11,
    arenas: Vec<old::ArenaId>,
}

impl Design for Old {
    fn birth(&mut self, plan: ArenaPlan) -> usize {
        let space = if plan.class { Space::Class } else { Space::NonClass };
        self.arenas.push(self.metaspace.birth(space, plan.loader));
        self.arenas.len() - 1
    }

    fn allocate(&mut self, arena: usize, words: usize) -> Option<NonNull<u8>> {
        self.metaspace.allocate(self.arenas[arena], words)
    }

    unsafe fn deallocate(&mut self, arena: usize, block: NonNull<u8>, words: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.metaspace.deallocate(self.arenas[arena], block, words) };
    }

    unsafe fn death(&mut self, arena: usize) {
        self.metaspace.death(self.arenas[arena]);
    }

    fn purge(&mut self) {
        self.metaspace.purge();
    }

    fn used_words(&self, arena: usize) -> usize {
        self.metaspace.used_words(self.arenas[arena])
    }

    fn usage(&self) -> Usage {
        usage_of(&self.metaspace.statistics())
    }

    fn listing(&self, name: &str) -> Listing {
        self.metaspace.statistics().listing(name)
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

struct Elastic {
    metaspace: ElasticMetaspace,
    arenas: Vec<elastic::ArenaId>,
}

impl Design for Elastic {
    fn birth(&mut self, plan: ArenaPlan) -> usize {
        self.arenas.push(self.metaspace.birth(plan));
        self.arenas.len() - 1
    }

    fn allocate(&mut self, arena: usize, words: usize) -> Option<NonNull<u8>> {
        self.metaspace.allocate_words(self.arenas[arena], words).map(NonNull::cast)
    }

    unsafe fn deallocate(&mut self, arena: usize, block: NonNull<u8>, words: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.metaspace.deallocate_words(self.arenas[arena], block.cast(), words) };
    }

    unsafe fn death(&mut self, arena: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.metaspace.death(self.arenas[arena]) };
    }

    fn purge(&mut self) {
        self.metaspace.purge();
    }

    fn used_words(&self, arena: usize) -> usize {
        let arena = self.metaspace.arena(self.arenas[arena]);
        arena.map_or(0, |arena| {
            arena.used_words(&self.metaspace.spaces()[usize::from(arena.plan().class)])
        })
    }

    fn usage(&self) -> Usage {
        let report = self.metaspace.report();
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
        Listing { metaspace: name.into(), ..self.metaspace.report().listing() }
    }
}
