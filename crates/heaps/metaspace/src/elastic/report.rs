//! The metaspace's content as in `jcmd VM.metaspace`, for programs;
//! [`report_text`](super::report_text) prints it.
//!
//! Bytes of chunks in use are counted once: `committed = used + free + waste`. Used bytes were
//! handed out, including returned blocks (listed as `deallocated`). Free bytes are the committed
//! rest of each arena's current chunk, waste the same in retired chunks.

use super::arena::Arena;
use super::counters::Counters;
use super::facts::WORD_BYTES;
use super::heap::{CLASS, ElasticMetaspace};
use super::space::Space;
use super::strategy::Uncommit;
use crate::listing::{Listing, LoaderUsage};
use crate::plan::LoaderKind;
use heaplab_buddy::Chunks;
use heaplab_heap::Footprint;
use serde::{Deserialize, Serialize};

/// The metaspace at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The generation: "jdk17", with its parameters.
    pub metaspace: String,
    /// The non-class space, and the class space if there is one.
    pub spaces: Vec<SpaceReport>,
    /// Chunk headers, free ones in the pool included.
    pub headers: u64,
    /// Their bytes, outside of the spaces.
    pub header_bytes: u64,
    /// Counts so far.
    pub counters: Counters,
    /// `MaxMetaspaceSize`; `None`: unlimited.
    pub limit_bytes: Option<u64>,
    /// The settings of the generation and policy.
    pub settings: SettingsReport,
}

/// The settings that `VM.metaspace` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsReport {
    /// `MetaspaceReclaimPolicy`.
    pub reclaim_policy: String,
    /// Bytes committed at a time.
    pub commit_granule_bytes: u64,
    /// Words of a non-class node.
    pub node_words: u64,
    /// New chunks are committed whole.
    pub new_chunks_are_fully_committed: bool,
    /// Free chunks are uncommitted when they return, or at a purge.
    pub uncommit_free_chunks: bool,
}

/// One space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceReport {
    /// Class space; else non-class.
    pub class: bool,
    /// The arenas, by kind of loader; kinds without arenas are left out.
    pub kinds: Vec<KindReport>,
    /// Reserved address space.
    pub reserved_bytes: u64,
    /// Its committed part.
    pub committed_bytes: u64,
    /// Nodes.
    pub nodes: u64,
    /// Free chunks of each level, the largest first.
    pub free_chunks: Vec<FreeChunks>,
}

/// The arenas of one kind of loader in one space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindReport {
    /// "boot", "standard", "hidden" or "reflection".
    pub loader: String,
    /// Number of arenas.
    pub arenas: u64,
    /// Bytes of the arenas, by use.
    pub usage: Usage,
}

/// Bytes of a set of arenas, by use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Chunks in use of each level, the largest first.
    pub levels: Vec<LevelUsage>,
    /// Blocks returned before their arena's death, leftovers of retired chunks included.
    pub deallocated_blocks: u64,
    /// Their bytes.
    pub deallocated_bytes: u64,
}

/// Chunks in use of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelUsage {
    /// Size of a chunk at this level.
    pub chunk_bytes: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Their total size.
    pub capacity_bytes: u64,
    /// Their committed part.
    pub committed_bytes: u64,
    /// Handed out.
    pub used_bytes: u64,
    /// Committed and left, in current chunks.
    pub free_bytes: u64,
    /// Committed and left, in retired chunks.
    pub waste_bytes: u64,
}

/// Free chunks of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeChunks {
    /// Size of a chunk at this level.
    pub chunk_bytes: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Their total size.
    pub capacity_bytes: u64,
    /// Their committed part, as far as the chunks know.
    pub committed_bytes: u64,
}

impl LevelUsage {
    fn add(&mut self, other: &LevelUsage) {
        self.chunks += other.chunks;
        self.capacity_bytes += other.capacity_bytes;
        self.committed_bytes += other.committed_bytes;
        self.used_bytes += other.used_bytes;
        self.free_bytes += other.free_bytes;
        self.waste_bytes += other.waste_bytes;
    }
}

impl Usage {
    fn empty(sizes: &[u64]) -> Usage {
        let level = |size: &u64| LevelUsage { chunk_bytes: *size, ..LevelUsage::default() };
        Usage { levels: sizes.iter().map(level).collect(), ..Usage::default() }
    }

    /// Adds the bytes of other arenas, in a space with the same levels.
    pub fn add(&mut self, other: &Usage) {
        if self.levels.is_empty() {
            self.levels = other
                .levels
                .iter()
                .map(|level| LevelUsage { chunk_bytes: level.chunk_bytes, ..LevelUsage::default() })
                .collect();
        }
        for (mine, theirs) in self.levels.iter_mut().zip(&other.levels) {
            mine.add(theirs);
        }
        self.deallocated_blocks += other.deallocated_blocks;
        self.deallocated_bytes += other.deallocated_bytes;
    }

    /// All levels together.
    pub fn total(&self) -> LevelUsage {
        self.levels.iter().fold(LevelUsage::default(), |mut sum, level| {
            sum.add(level);
            sum
        })
    }

    fn add_arena(&mut self, arena: &Arena, space: &Space) {
        let chunks = space.chunks();
        for chunk in arena.each_chunk(space) {
            let level = &mut self.levels[chunks.level(chunk).index()];
            let (committed, used) =
                (chunks.committed_bytes(chunk) as u64, chunks.used_bytes(chunk) as u64);
            level.chunks += 1;
            level.capacity_bytes += chunks.bytes(chunk) as u64;
            level.committed_bytes += committed;
            level.used_bytes += used;
            let left = if arena.current() == Some(chunk) {
                &mut level.free_bytes
            } else {
                &mut level.waste_bytes
            };
            *left += committed - used;
        }
        if let Some(blocks) = arena.blocks() {
            self.deallocated_blocks += blocks.blocks() as u64;
            self.deallocated_bytes += (blocks.words() * WORD_BYTES) as u64;
        }
    }
}

impl SpaceReport {
    /// All its arenas together.
    pub fn usage(&self) -> Usage {
        self.kinds.iter().fold(Usage::default(), |mut sum, kind| {
            sum.add(&kind.usage);
            sum
        })
    }

    /// Number of its arenas.
    pub fn arenas(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.arenas).sum()
    }

    /// Committed bytes of its free chunks.
    pub fn free_chunks_committed_bytes(&self) -> u64 {
        self.free_chunks.iter().map(|level| level.committed_bytes).sum()
    }
}

/// Unused committed bytes, as summed in `VM.metaspace`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waste {
    /// Committed in all.
    pub committed_bytes: u64,
    /// In retired chunks.
    pub waste_bytes: u64,
    /// In current chunks.
    pub free_bytes: u64,
    /// In free chunks.
    pub free_chunks_bytes: u64,
    /// In returned blocks.
    pub deallocated_bytes: u64,
    /// Number of returned blocks.
    pub deallocated_blocks: u64,
}

impl Waste {
    /// The sum.
    pub fn total_bytes(&self) -> u64 {
        self.waste_bytes + self.free_bytes + self.free_chunks_bytes + self.deallocated_bytes
    }
}

impl Report {
    /// All arenas of both spaces together.
    pub fn usage(&self) -> Usage {
        self.spaces.iter().fold(Usage::default(), |mut sum, space| {
            sum.add(&space.usage());
            sum
        })
    }

    /// Committed bytes of both spaces.
    pub fn committed_bytes(&self) -> u64 {
        self.spaces.iter().map(|space| space.committed_bytes).sum()
    }

    /// Unused committed bytes.
    pub fn waste(&self) -> Waste {
        let (usage, free_chunks) =
            (self.usage(), self.spaces.iter().map(SpaceReport::free_chunks_committed_bytes).sum());
        let total = usage.total();
        Waste {
            committed_bytes: self.committed_bytes(),
            waste_bytes: total.waste_bytes,
            free_bytes: total.free_bytes,
            free_chunks_bytes: free_chunks,
            deallocated_bytes: usage.deallocated_bytes,
            deallocated_blocks: usage.deallocated_blocks,
        }
    }

    /// The same in the terms of all designs.
    pub fn listing(&self) -> Listing {
        let mut loaders = Vec::new();
        for space in &self.spaces {
            for kind in &space.kinds {
                let total = kind.usage.total();
                loaders.push(LoaderUsage {
                    loader: kind.loader.clone(),
                    class: space.class,
                    arenas: kind.arenas,
                    chunks: total.chunks,
                    committed_bytes: total.committed_bytes,
                    used_bytes: total.used_bytes,
                    free_bytes: total.free_bytes,
                    waste_bytes: total.waste_bytes,
                    overhead_bytes: 0,
                });
            }
        }
        let waste = self.waste();
        Listing {
            metaspace: self.metaspace.clone(),
            loaders,
            committed_bytes: waste.committed_bytes,
            free_chunks_bytes: waste.free_chunks_bytes,
            uncut_bytes: 0,
            free_blocks: waste.deallocated_blocks,
            free_block_bytes: waste.deallocated_bytes,
        }
    }

    /// The same in the terms of every heap; `live_bytes` are in live blocks. A remainder too small
    /// for any list is the used bytes less live and free blocks.
    pub fn footprint(&self, live_bytes: u64) -> Footprint {
        let waste = self.waste();
        Footprint {
            header_bytes: Some(self.header_bytes),
            used_bytes: Some(live_bytes),
            free_reusable_bytes: Some(
                waste.free_bytes + waste.free_chunks_bytes + waste.deallocated_bytes,
            ),
            free_too_small_bytes: Some(waste.waste_bytes),
            committed_bytes: Some(waste.committed_bytes),
            ..Footprint::default()
        }
    }
}

impl ElasticMetaspace {
    /// The current state. Walks all arenas and free chunks.
    pub fn report(&self) -> Report {
        let settings = self.spaces[0].settings();
        let (name, _) = self.spec.reclaim_name();
        Report {
            metaspace: self.spec.to_string(),
            spaces: (0..self.spaces.len()).map(|at| self.space_report(at)).collect(),
            headers: self.spaces.iter().map(|space| space.chunks().headers() as u64).sum(),
            header_bytes: self
                .spaces
                .iter()
                .map(|space| (space.chunks().headers() * Chunks::HEADER_BYTES) as u64)
                .sum(),
            counters: self.counters(),
            limit_bytes: self.spec.limit_bytes,
            settings: SettingsReport {
                reclaim_policy: name.into(),
                commit_granule_bytes: settings.granule_bytes as u64,
                node_words: (settings.node_bytes / WORD_BYTES) as u64,
                new_chunks_are_fully_committed: settings.commit_whole_chunks,
                uncommit_free_chunks: settings.uncommit != Uncommit::Never,
            },
        }
    }

    fn space_report(&self, at: usize) -> SpaceReport {
        let space = &self.spaces[at];
        let (chunks, geometry) = (space.chunks(), space.settings().geometry);
        let sizes: Vec<u64> = geometry.all().map(|level| geometry.bytes(level) as u64).collect();
        let mut kinds: Vec<KindReport> = LoaderKind::ALL
            .iter()
            .map(|(_, name)| KindReport {
                loader: (*name).into(),
                arenas: 0,
                usage: Usage::empty(&sizes),
            })
            .collect();
        for arena in self.arenas.iter().flatten() {
            let here = arena.plan().class && self.spaces.len() > CLASS;
            if here == (at == CLASS) {
                let kind = &mut kinds[arena.plan().loader as usize];
                kind.arenas += 1;
                kind.usage.add_arena(arena, space);
            }
        }
        kinds.retain(|kind| kind.arenas > 0);
        let free = |level| FreeChunks {
            chunk_bytes: geometry.bytes(level) as u64,
            chunks: chunks.free_chunks_of(level) as u64,
            capacity_bytes: (chunks.free_chunks_of(level) * geometry.bytes(level)) as u64,
            committed_bytes: chunks
                .free_of(level)
                .map(|chunk| chunks.committed_bytes(chunk) as u64)
                .sum(),
        };
        SpaceReport {
            class: at == CLASS,
            kinds,
            reserved_bytes: space.reserved_bytes() as u64,
            committed_bytes: space.committed_bytes() as u64,
            nodes: space.nodes().len() as u64,
            free_chunks: geometry.all().map(free).collect(),
        }
    }
}
