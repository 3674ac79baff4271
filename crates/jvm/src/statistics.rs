//! Counts the metaspace as `jcmd VM.metaspace` does, and also by kind of loader, which jcmd does
//! not.

use crate::Reclaim;
use crate::shadow::{Counters, Full, Owner, ROOT_BYTES, Shadow};
use heaplab_trace::tables::Tables;
use serde::Serialize;
use std::collections::BTreeMap;

/// Most loaders of a list.
pub const LOADERS_SHOWN: usize = 10;

/// Sizes of chunks, the largest first: 16 MB at level 0 to 1 KB at level 14.
pub const LEVELS: usize = 15;

/// Chunks in use, added up. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InUse {
    /// Chunks.
    pub chunks: u64,
    /// Their size.
    pub capacity_bytes: u64,
    /// Of these, committed bytes: used + free + waste.
    pub committed_bytes: u64,
    /// Up to where blocks were given.
    pub used_bytes: u64,
    /// The committed rest of current chunks, where the next blocks go.
    pub free_bytes: u64,
    /// The committed rest of retired chunks, where none will go.
    pub waste_bytes: u64,
}

impl InUse {
    /// Adds `other`.
    pub fn add(&mut self, other: &InUse) {
        self.chunks += other.chunks;
        self.capacity_bytes += other.capacity_bytes;
        self.committed_bytes += other.committed_bytes;
        self.used_bytes += other.used_bytes;
        self.free_bytes += other.free_bytes;
        self.waste_bytes += other.waste_bytes;
    }
}

/// Free chunks of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreeChunks {
    /// Chunks.
    pub chunks: u64,
    /// Their size.
    pub capacity_bytes: u64,
    /// Committed, as their headers say and `VM.metaspace` prints.
    pub committed_bytes: u64,
    /// Bytes in committed granules: the memory that these chunks cost.
    pub in_granules_bytes: u64,
}

/// Blocks in the free blocks of live arenas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreeBlocks {
    /// Blocks.
    pub blocks: u64,
    /// Bytes of these blocks; they count as used.
    pub bytes: u64,
}

/// One of the two spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Space {
    /// Address space reserved.
    pub reserved_bytes: u64,
    /// Committed granules.
    pub committed_bytes: u64,
    /// Nodes.
    pub nodes: u64,
    /// Chunks in use by level.
    pub in_use: [InUse; LEVELS],
    /// The sum over all levels.
    pub in_use_total: InUse,
    /// Free chunks by level.
    pub free: [FreeChunks; LEVELS],
    /// Deallocated blocks and leftovers.
    pub free_blocks: FreeBlocks,
}

/// The holdings of one kind of loader in one space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kind {
    /// `boot`, `standard`, `hidden`, `reflection`; empty: not known.
    pub loader: String,
    /// Class space or not.
    pub class: bool,
    /// Live arenas, those that have no chunk too.
    pub arenas: u64,
    /// Blocks that are live, and the bytes that they asked for.
    pub live_blocks: u64,
    /// Bytes that live blocks asked for.
    pub requested_bytes: u64,
    /// Their chunks.
    pub in_use: InUse,
    /// Their free blocks.
    pub free_blocks: FreeBlocks,
    /// Arenas of loaders that have made exactly one class.
    pub of_one_class: u64,
    /// The chunks of these arenas.
    pub of_one_class_in_use: InUse,
}

/// The holdings of one class loader in both spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loader {
    /// Its name in the recording (`loader 17`, numbered by birth), or that of its arena where its
    /// other one is not known.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Classes, without those of the CDS archive: blocks of the class arena, and blocks that the
    /// recording marks as classes elsewhere (JVMs without compressed class pointers have no class
    /// space, and JDK 24 and later keep interfaces out of it). `None`: the recording has neither.
    pub classes: Option<u64>,
    /// Its chunks.
    pub in_use: InUse,
    /// Granules with free chunks that stay committed because of its chunks, and perhaps others'.
    pub pinned_granules: u64,
    /// Of these, granules without a chunk of another loader.
    pub pinned_alone: u64,
    /// The free chunks' bytes in the latter: they could go if this loader did.
    pub pinned_alone_bytes: u64,
}

/// Free memory in granules, by what keeps it committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pinned {
    /// Granules that free chunks share with chunks in use.
    pub granules: u64,
    /// The free chunks' bytes in them: they stay committed as long as one chunk in the granule is
    /// in use.
    pub free_bytes: u64,
    /// Chunks in use in them.
    pub chunks_in_use: u64,
    /// Bytes of these chunks.
    pub in_use_bytes: u64,
    /// The part of `free_bytes` in wholly free quarters of a granule: quarter-sized granules could
    /// be uncommitted.
    pub free_in_quarters_bytes: u64,
    /// Granules in which nothing is in use, although they are committed.
    pub idle_granules: u64,
    /// Bytes of idle granules: a purge uncommits them.
    pub idle_bytes: u64,
}

/// The whole metaspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Loaders that live: pairs of arenas.
    pub loaders: u64,
    /// Their classes together, where they are known: see [`Loader::classes`].
    pub classes: Option<u64>,
    /// Non-class space.
    pub non_class: Space,
    /// Class space.
    pub class: Space,
    /// By kind of loader.
    pub kinds: Vec<Kind>,
    /// The loaders that hold the most committed bytes, the largest first; at most
    /// [`LOADERS_SHOWN`].
    pub largest_loaders: Vec<Loader>,
    /// Those which alone keep the most free bytes committed, likewise.
    pub pinning_loaders: Vec<Loader>,
    /// What keeps free memory committed.
    pub pinned: Pinned,
    /// Bytes of a commit granule.
    pub granule_bytes: u64,
    /// What of the reclaim policy is known.
    pub reclaim: Reclaim,
    /// Headers of chunks, in use and free.
    pub chunk_headers: u64,
    /// What happened so far.
    pub counters: Counters,
    /// The metaspace when `MaxMetaspaceSize` last refused a request; `None`: it never did.
    pub full: Option<Full>,
}

impl Statistics {
    /// Counts.
    pub fn of(shadow: &Shadow, tables: &Tables) -> Statistics {
        let mut statistics = Statistics {
            granule_bytes: shadow.granule_bytes,
            reclaim: shadow.reclaim,
            chunk_headers: shadow.chunks.len() as u64,
            counters: shadow.counters,
            full: shadow.full,
            ..Statistics::default()
        };
        for (_, bytes, class) in &shadow.nodes {
            let space = statistics.space_mut(*class);
            space.nodes += 1;
            space.reserved_bytes = space.reserved_bytes.saturating_add(*bytes);
        }
        for granule in shadow.granules() {
            statistics.space_mut(shadow.is_class(granule)).committed_bytes += shadow.granule_bytes;
        }
        for (base, chunk) in &shadow.chunks {
            if chunk.owner == Owner::Free {
                let space = statistics.space_mut(shadow.is_class(*base));
                let free = &mut space.free[level(chunk.bytes)];
                free.chunks += 1;
                free.capacity_bytes += chunk.bytes;
                free.committed_bytes += chunk.committed_bytes;
                free.in_granules_bytes += in_granules(shadow, *base, chunk.bytes);
            }
        }
        let mut loaders = Loaders::default();
        statistics.arenas(shadow, tables, &mut loaders);
        statistics.pinned =
            pinned(shadow, |owners, free_bytes| loaders.pin(tables, owners, free_bytes));
        statistics.classes = loaders.classes();
        (statistics.largest_loaders, statistics.pinning_loaders) = loaders.top();
        statistics
    }

    /// Both spaces' committed bytes.
    pub fn committed_bytes(&self) -> u64 {
        self.non_class.committed_bytes + self.class.committed_bytes
    }

    /// Both spaces' chunks in use.
    pub fn in_use(&self) -> InUse {
        let mut both = self.non_class.in_use_total;
        both.add(&self.class.in_use_total);
        both
    }

    /// Free chunks' bytes in committed granules, both spaces.
    pub fn free_chunks_bytes(&self) -> u64 {
        [&self.non_class, &self.class]
            .iter()
            .flat_map(|space| &space.free)
            .map(|free| free.in_granules_bytes)
            .sum()
    }

    /// Free blocks of both spaces.
    pub fn free_blocks(&self) -> FreeBlocks {
        let (one, other) = (self.non_class.free_blocks, self.class.free_blocks);
        FreeBlocks { blocks: one.blocks + other.blocks, bytes: one.bytes + other.bytes }
    }

    fn space_mut(&mut self, class: bool) -> &mut Space {
        if class { &mut self.class } else { &mut self.non_class }
    }

    fn arenas(&mut self, shadow: &Shadow, tables: &Tables, loaders: &mut Loaders) {
        for (row, arena) in &shadow.arenas {
            let Some(known) = tables.arenas.get(*row as usize) else { continue };
            let class = known.kind == "class";
            let mut in_use = InUse::default();
            for (index, base) in arena.chunks.iter().enumerate() {
                let Some(chunk) = shadow.chunks.get(base) else { continue };
                let rest = chunk.committed_bytes.saturating_sub(chunk.used_bytes);
                let is_current = index + 1 == arena.chunks.len();
                let one = InUse {
                    chunks: 1,
                    capacity_bytes: chunk.bytes,
                    committed_bytes: chunk.committed_bytes,
                    used_bytes: chunk.used_bytes,
                    free_bytes: if is_current { rest } else { 0 },
                    waste_bytes: if is_current { 0 } else { rest },
                };
                in_use.add(&one);
                self.space_mut(class).in_use[level(chunk.bytes)].add(&one);
            }
            let loader = loaders.of(tables, *row);
            loader.in_use.add(&in_use);
            // A class-space block of unknown type is a class as well.
            let classes = if class { arena.live_blocks } else { arena.live_classes };
            if class || shadow.knows_classes() {
                loader.classes = Some(loader.classes.unwrap_or(0) + classes);
            }
            let blocks = FreeBlocks {
                blocks: arena.free_blocks.len() as u64,
                bytes: arena.free_blocks.values().sum(),
            };
            let space = self.space_mut(class);
            space.in_use_total.add(&in_use);
            space.free_blocks.blocks += blocks.blocks;
            space.free_blocks.bytes += blocks.bytes;
            self.loaders += u64::from(!class);
            let other = known.partner.and_then(|row| shadow.arenas.get(&row));
            let (in_class, in_other) =
                if class { (Some(arena), other) } else { (other, Some(arena)) };
            let made = in_class.map_or(0, |arena| arena.allocations)
                + in_other.map_or(0, |arena| arena.classes);
            let of_one_class = made == 1;
            let kind = self.kind(&known.growth_policy, class);
            kind.arenas += 1;
            kind.live_blocks += arena.live_blocks;
            kind.requested_bytes += arena.live_bytes;
            kind.in_use.add(&in_use);
            kind.free_blocks.blocks += blocks.blocks;
            kind.free_blocks.bytes += blocks.bytes;
            if of_one_class {
                kind.of_one_class += 1;
                kind.of_one_class_in_use.add(&in_use);
            }
        }
        self.kinds.sort_by(|one, other| {
            (one.class, other.in_use.committed_bytes)
                .cmp(&(other.class, one.in_use.committed_bytes))
        });
    }

    fn kind(&mut self, loader: &str, class: bool) -> &mut Kind {
        let index = self
            .kinds
            .iter()
            .position(|kind| kind.loader == loader && kind.class == class)
            .unwrap_or_else(|| {
                self.kinds.push(Kind { loader: loader.into(), class, ..Kind::default() });
                self.kinds.len() - 1
            });
        &mut self.kinds[index]
    }
}

/// Loaders, by the lower row of their two arenas.
#[derive(Default)]
struct Loaders(BTreeMap<u32, Loader>);

impl Loaders {
    fn of(&mut self, tables: &Tables, row: u32) -> &mut Loader {
        let arena = tables.arenas.get(row as usize);
        let first = arena.and_then(|arena| arena.partner).map_or(row, |partner| partner.min(row));
        self.0.entry(first).or_insert_with(|| {
            let name = arena
                .map(|arena| arena.loader.clone())
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| format!("arena {row}"));
            Loader {
                name,
                kind: arena.map_or(String::new(), |arena| arena.growth_policy.clone()),
                ..Loader::default()
            }
        })
    }

    /// A granule with free chunks is committed because of these arenas.
    fn pin(&mut self, tables: &Tables, owners: &[u32], free_bytes: u64) {
        let first = |row: &u32| {
            tables
                .arenas
                .get(*row as usize)
                .and_then(|arena| arena.partner)
                .map_or(*row, |partner| partner.min(*row))
        };
        let mut rows: Vec<u32> = owners.iter().filter(|row| **row != 0).map(first).collect();
        rows.sort_unstable();
        rows.dedup();
        for row in &rows {
            let loader = self.of(tables, *row);
            loader.pinned_granules += 1;
            if rows.len() == 1 && !owners.contains(&0) {
                loader.pinned_alone += 1;
                loader.pinned_alone_bytes += free_bytes;
            }
        }
    }

    /// The sum of all loaders' classes; `None`: no loader's are known.
    fn classes(&self) -> Option<u64> {
        self.0.values().filter_map(|loader| loader.classes).reduce(|sum, classes| sum + classes)
    }

    /// The largest, and those that pin most.
    fn top(self) -> (Vec<Loader>, Vec<Loader>) {
        let mut all: Vec<Loader> = self.0.into_values().collect();
        // Stable: of equal ones the older comes first.
        all.sort_by_key(|loader| std::cmp::Reverse(loader.in_use.committed_bytes));
        let largest = all
            .iter()
            .filter(|loader| loader.in_use.committed_bytes > 0)
            .take(LOADERS_SHOWN)
            .cloned()
            .collect();
        all.retain(|loader| loader.pinned_alone > 0);
        all.sort_by_key(|loader| std::cmp::Reverse(loader.pinned_alone_bytes));
        all.truncate(LOADERS_SHOWN);
        (largest, all)
    }
}

/// The level of a chunk of this size.
fn level(bytes: u64) -> usize {
    ((ROOT_BYTES / bytes.max(1)).max(1).trailing_zeros() as usize).min(LEVELS - 1)
}

/// What of a range lies in committed granules.
pub fn in_granules(shadow: &Shadow, from: u64, bytes: u64) -> u64 {
    let granule = shadow.granule_bytes;
    if bytes <= granule {
        return if shadow.is_committed(from) { bytes } else { 0 };
    }
    shadow.committed_within(from, bytes)
}

/// Calls `each` with every pinned granule: the rows of the arenas with chunks in it, and its free
/// bytes.
fn pinned(shadow: &Shadow, mut each: impl FnMut(&[u32], u64)) -> Pinned {
    let (granule, mut pinned) = (shadow.granule_bytes, Pinned::default());
    for base in shadow.granules() {
        let before = shadow.chunks.range(..=base).next_back().map(|(base, chunk)| (*base, *chunk));
        // A chunk of a granule or more: if in use, the granule belongs to its owner; if free, it is
        // idle.
        if let Some((_, chunk)) =
            before.filter(|(start, chunk)| chunk.bytes >= granule && base - start < chunk.bytes)
        {
            if chunk.owner == Owner::Free {
                pinned.idle_granules += 1;
                pinned.idle_bytes += granule;
            }
            continue;
        }
        let inside: Vec<_> = shadow.chunks.range(base..base + granule).collect();
        let in_use: Vec<_> =
            inside.iter().filter(|(_, chunk)| chunk.owner != Owner::Free).collect();
        let free: u64 = inside
            .iter()
            .filter(|(_, chunk)| chunk.owner == Owner::Free)
            .map(|(_, chunk)| chunk.bytes)
            .sum();
        if free == 0 {
            continue;
        }
        let owner = |chunk: &crate::shadow::Chunk| {
            if let Owner::Arena(row) = chunk.owner { row } else { 0 }
        };
        each(&in_use.iter().map(|(_, chunk)| owner(chunk)).collect::<Vec<_>>(), free);
        pinned.granules += 1;
        pinned.free_bytes += free;
        pinned.chunks_in_use += in_use.len() as u64;
        pinned.in_use_bytes += in_use.iter().map(|(_, chunk)| chunk.bytes).sum::<u64>();
        let quarter = granule / 4;
        for from in (base..base + granule).step_by(quarter as usize) {
            let is_touched = |(start, chunk): &&&(&u64, &crate::shadow::Chunk)| {
                **start < from + quarter && **start + chunk.bytes > from
            };
            if in_use.iter().filter(is_touched).count() == 0 {
                pinned.free_in_quarters_bytes += quarter;
            }
        }
    }
    pinned
}
