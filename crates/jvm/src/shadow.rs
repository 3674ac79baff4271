//! The recorded metaspace, rebuilt from the recorded blocks and chunks. It does not model HotSpot's
//! decisions, only the contents of its chunks afterwards.
//!
//! A chunk that is taken is split off the free chunk it lies in, buddy by buddy; one that is given
//! back merges with its buddy as long as that is free and whole. So free chunks need no events of
//! their own. `committed_bytes` of a chunk is the length of its committed beginning as HotSpot's
//! chunk header has it: a split gives each half its part, a merge adds the follower's only where
//! the leader is committed whole, and the sum is rounded up to granules, so that a chunk smaller
//! than one is committed whole or not at all. Beside it stand the granules that are really
//! committed. Source: `metachunk.cpp`, `rootChunkArea.cpp`, `chunkManager.cpp`, `freeBlocks.cpp` of
//! JDK 17; a test compares the result with `jcmd VM.metaspace` of a running JVM.

use crate::ChunkOp;
use crate::Reclaim;
use crate::granules::Granules;
use hashbrown::HashMap;
use heaplab_trace::tables::{ChunkEvent, Tables};
use heaplab_trace::{Event, ObjectId, Op};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

type Map<K, V> = HashMap<K, V, Xxh3DefaultBuilder>;

/// Bytes of a root chunk.
pub const ROOT_BYTES: u64 = 16 << 20;
/// A block's rest up to this size is not kept (2 words), where the recording does not say
/// otherwise.
const REST_BYTES: u64 = 16;
/// The granule where the recording names none.
const GRANULE_BYTES: u64 = 64 << 10;
/// The smallest granule that is believed: a page. HotSpot's smallest is 16 KB.
const GRANULE_BYTES_MIN: u64 = 4 << 10;
/// Most nodes that are believed: 4 TB of address space.
const NODES_LIMIT: usize = 1 << 16;
/// Most class spaces; a JVM has one.
const CLASS_NODES_LIMIT: usize = 16;

/// One chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its size.
    pub bytes: u64,
    /// Bytes committed from its beginning, by its header.
    pub committed_bytes: u64,
    /// Up to where blocks were given.
    pub used_bytes: u64,
    /// The chunk's owner.
    pub owner: Owner,
}

/// The owner of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The chunk is in the free lists.
    Free,
    /// The arena of this row; 0: the JVM itself.
    Arena(u32),
}

/// An arena that lives.
#[derive(Clone, Debug, Default)]
pub struct LiveArena {
    /// Where its chunks begin, the oldest first: the last is the current one.
    pub chunks: Vec<u64>,
    /// Blocks that wait to be used again: where, and their bytes.
    pub free_blocks: BTreeMap<u64, u64>,
    /// Blocks given and not given back, and the bytes asked for.
    pub live_blocks: u64,
    /// Bytes asked for by these.
    pub live_bytes: u64,
    /// Blocks given in all.
    pub allocations: u64,
    /// Of the live ones, those that are classes by their type, whichever space they lie in.
    pub live_classes: u64,
    /// The same of all that were given.
    pub classes: u64,
    objects: Vec<ObjectId>,
}

impl LiveArena {
    /// The part of a free block from `address` on no longer belongs to it.
    fn cut_off(&mut self, address: u64) {
        if let Some((from, bytes)) = self.free_blocks.range_mut(..address).next_back() {
            *bytes = (*bytes).min(address - from);
        }
    }
}

/// A live block: its arena, its place, requested and usable bytes, its stack, and whether it is a
/// class.
#[derive(Clone, Copy, Debug)]
struct Live {
    owner: u32,
    stack: u32,
    address: u64,
    size: u64,
    usable: u64,
    class: bool,
}

/// A block that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The object.
    pub object: ObjectId,
    /// Row of its arena.
    pub arena: u32,
    /// Row of `stacks`: its type.
    pub stack: u32,
    /// Where it lies.
    pub address: u64,
    /// Bytes asked for.
    pub size: u64,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Arenas born.
    pub arena_births: u64,
    /// Arenas that died.
    pub arena_deaths: u64,
    /// Blocks given.
    pub allocations: u64,
    /// Of these, from the free blocks of the arena.
    pub from_free_blocks: u64,
    /// Requests refused by a limit.
    pub refused: u64,
    /// Commits refused because `MaxMetaspaceSize` was reached; a request may try two.
    pub commits_refused_at_max: u64,
    /// Commits refused because the threshold was reached at which the JVM collects first.
    pub commits_refused_at_threshold: u64,
    /// Blocks given back early.
    pub deallocations: u64,
    /// Rests of retired chunks and of blocks that were kept for use.
    pub leftovers: u64,
    /// Ranges committed.
    pub commits: u64,
    /// Uncommitted ranges with a committed part (`VirtualSpaceNode::uncommit_range` counts no
    /// others).
    pub uncommits: u64,
    /// Chunks taken.
    pub chunks_taken: u64,
    /// Chunks given back.
    pub chunks_returned: u64,
    /// Chunks that grew in place.
    pub chunks_enlarged: u64,
    /// Free chunks split for one that was wanted, once each, however many levels
    /// (`ChunkManager::split_chunk_and_add_splinters`).
    pub splits: u64,
    /// Chunks given back that merged, once each, with however many buddies
    /// (`ChunkManager::return_chunk_locked`).
    pub merges: u64,
    /// Purges.
    pub purges: u64,
}

/// The metaspace when it had reached its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Full {
    /// The limit: the committed bytes, and those that could have been committed beyond.
    pub limit_bytes: u64,
    /// Committed bytes.
    pub committed_bytes: u64,
    /// Of these, bytes in blocks.
    pub used_bytes: u64,
}

/// The metaspace at one moment.
#[derive(Clone, Debug)]
pub struct Shadow {
    /// All chunks, by where they begin.
    pub chunks: BTreeMap<u64, Chunk>,
    /// Reserved address space: start, bytes, whether it is class space.
    pub nodes: Vec<(u64, u64, bool)>,
    /// Live arenas by row.
    pub arenas: BTreeMap<u32, LiveArena>,
    /// What happened so far.
    pub counters: Counters,
    /// Bytes of a commit granule.
    pub granule_bytes: u64,
    /// What of the reclaim policy is known.
    pub reclaim: Reclaim,
    /// Bytes of blocks in chunks in use.
    pub used_bytes: u64,
    /// When a commit was refused last because of `MaxMetaspaceSize`.
    pub full: Option<Full>,
    /// What blocks that are classes have as their stack.
    class_stacks: Vec<bool>,
    granules: Granules,
    class_nodes: Vec<(u64, u64)>,
    objects: Map<ObjectId, Live>,
    partners: Vec<Option<u32>>,
}

impl Shadow {
    /// Nothing happened yet.
    pub fn new(tables: &Tables) -> Shadow {
        Shadow {
            chunks: BTreeMap::new(),
            nodes: Vec::new(),
            arenas: BTreeMap::new(),
            counters: Counters::default(),
            granule_bytes: GRANULE_BYTES,
            reclaim: Reclaim::Unknown,
            used_bytes: 0,
            full: None,
            class_stacks: class_stacks(tables),
            granules: Granules::default(),
            class_nodes: Vec::new(),
            objects: Map::default(),
            partners: tables.arenas.iter().map(|arena| arena.partner).collect(),
        }
    }

    /// Whether the recording marks blocks that are classes.
    pub fn knows_classes(&self) -> bool {
        self.class_stacks.contains(&true)
    }

    /// The blocks that live, in no order.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        self.objects.iter().map(|(object, live)| {
            let Live { owner: arena, stack, address, size, .. } = *live;
            Block { object: *object, arena, stack, address, size }
        })
    }

    /// Bytes that are committed.
    pub fn committed_bytes(&self) -> u64 {
        self.granules.count() * self.granule_bytes
    }

    /// Whether the granule that holds `address` is committed.
    pub fn is_committed(&self, address: u64) -> bool {
        self.granules.contains(address / self.granule_bytes)
    }

    /// What of a range of whole granules lies in committed ones.
    pub fn committed_within(&self, from: u64, bytes: u64) -> u64 {
        let first = from / self.granule_bytes;
        self.granules.count_within(first, first + bytes / self.granule_bytes) * self.granule_bytes
    }

    /// The committed granules' addresses, in order.
    pub fn granules(&self) -> impl Iterator<Item = u64> + '_ {
        self.granules.iter().map(|granule| granule * self.granule_bytes)
    }

    /// Whether `address` is in class space.
    pub fn is_class(&self, address: u64) -> bool {
        self.class_nodes.iter().any(|(from, bytes)| address >= *from && address - from < *bytes)
    }

    /// What became of blocks and arenas.
    pub fn event(&mut self, event: &Event) {
        match event.op {
            Op::Alloc if !event.counts() => self.counters.refused += 1,
            Op::Alloc => self.allocated(event),
            Op::Free if event.counts() => {
                self.counters.deallocations += 1;
                let Some(Live { owner, size, usable, class, .. }) =
                    self.objects.remove(&event.object)
                else {
                    return;
                };
                if let Some(arena) = self.arenas.get_mut(&owner) {
                    arena.live_classes = arena.live_classes.saturating_sub(u64::from(class));
                    // A damaged recording may bear an arena twice.
                    arena.live_blocks = arena.live_blocks.saturating_sub(1);
                    arena.live_bytes = arena.live_bytes.saturating_sub(size);
                }
                if let Some(arena) =
                    self.arenas.get_mut(&event.arena).filter(|_| event.address != 0)
                {
                    arena.free_blocks.insert(event.address, usable);
                }
            }
            Op::ArenaBirth => {
                self.counters.arena_births += 1;
                self.arenas.insert(event.arena, LiveArena::default());
            }
            Op::ArenaDeath => {
                self.counters.arena_deaths += 1;
                if let Some(arena) = self.arenas.remove(&event.arena) {
                    for object in arena.objects {
                        if self.objects.get(&object).is_some_and(|live| live.owner == event.arena) {
                            self.objects.remove(&object);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn allocated(&mut self, event: &Event) {
        self.counters.allocations += 1;
        let bytes = event.usable.max(event.size);
        let class = self.class_stacks.get(event.stack as usize).copied().unwrap_or(false);
        let Event { arena: owner, stack, address, size, .. } = *event;
        self.objects
            .insert(event.object, Live { owner, stack, address, size, usable: bytes, class });
        let arena = self.arenas.entry(event.arena).or_default();
        arena.allocations += 1;
        arena.live_classes += u64::from(class);
        arena.classes += u64::from(class);
        arena.live_blocks += 1;
        arena.live_bytes += event.size;
        arena.objects.push(event.object);
        // If two threads take parts of one block, the log may name the second first. Its address
        // then lies behind the block's beginning, which is the first's.
        let around = arena
            .free_blocks
            .range(..=event.address)
            .next_back()
            .map(|(from, block)| (*from, *block));
        if let Some((from, block)) = around.filter(|(from, block)| event.address - from < *block) {
            self.counters.from_free_blocks += 1;
            arena.free_blocks.remove(&from);
            let before = event.address - from;
            if before > 0 {
                arena.free_blocks.insert(from, before);
            }
            if (block - before).saturating_sub(bytes) > REST_BYTES {
                arena
                    .free_blocks
                    .insert(event.address.saturating_add(bytes), block - before - bytes);
            }
        }
        self.raise(event.address, bytes);
    }

    /// The chunk that holds this block is used up to its end.
    fn raise(&mut self, address: u64, bytes: u64) {
        let Some((base, chunk)) = self.chunks.range_mut(..=address).next_back() else { return };
        let end = (address - base).saturating_add(bytes);
        if end <= chunk.bytes && end > chunk.used_bytes && chunk.owner != Owner::Free {
            self.used_bytes += end - chunk.used_bytes;
            chunk.used_bytes = end;
        }
    }

    /// Applies an event of a chunk, a node or committed memory.
    pub fn chunk(&mut self, event: &ChunkEvent) {
        let (address, bytes) = (event.address, event.bytes);
        let Some(op) = ChunkOp::of(event) else { return };
        match op {
            ChunkOp::Granule => {
                self.reclaim = Reclaim::from_code(address);
                if bytes.is_power_of_two()
                    && (GRANULE_BYTES_MIN..=ROOT_BYTES).contains(&bytes)
                    && self.granules.is_empty()
                {
                    self.granule_bytes = bytes;
                }
            }
            ChunkOp::Node | ChunkOp::NodeApart => {
                self.node(address, bytes, op == ChunkOp::NodeApart)
            }
            ChunkOp::Root if !is_chunk(address, ROOT_BYTES) => {}
            ChunkOp::Root => {
                let free = Chunk {
                    bytes: ROOT_BYTES,
                    committed_bytes: 0,
                    used_bytes: 0,
                    owner: Owner::Free,
                };
                self.chunks.entry(address).or_insert(free);
            }
            ChunkOp::Take => self.take(event),
            ChunkOp::Line => {
                if let Some(chunk) = self.chunks.get_mut(&address) {
                    chunk.committed_bytes = chunk.committed_bytes.max(bytes).min(chunk.bytes);
                }
            }
            ChunkOp::Enlarge => self.enlarge(address, bytes),
            ChunkOp::Return => self.give_back(address),
            ChunkOp::Refused => {
                let is_in_use =
                    self.chunks.get(&address).is_some_and(|chunk| chunk.owner != Owner::Free);
                if !is_in_use && self.split_off(event).is_some() {
                    self.give_back(address);
                }
            }
            ChunkOp::Commit => {
                self.counters.commits += 1;
                if let Some((from, to)) = self.granules_of(address, bytes) {
                    self.granules.insert(from, to);
                }
            }
            ChunkOp::Uncommit => self.uncommit(address, bytes),
            ChunkOp::Leftover => self.leftover(event),
            ChunkOp::Purge => self.counters.purges += 1,
            // If the size limit leaves no more than the threshold does, the limit is the one that
            // refused.
            ChunkOp::Limit if bytes <= address => {
                self.counters.commits_refused_at_max += 1;
                let committed_bytes = self.committed_bytes();
                let limit_bytes = committed_bytes.saturating_add(bytes);
                self.full =
                    Some(Full { limit_bytes, committed_bytes, used_bytes: self.used_bytes });
            }
            ChunkOp::Limit => self.counters.commits_refused_at_threshold += 1,
        }
    }

    /// A node of the space, within the limits; `of_classes`: of the class space.
    fn node(&mut self, address: u64, bytes: u64, of_classes: bool) {
        if self.nodes.len() >= NODES_LIMIT
            || (of_classes && self.class_nodes.len() >= CLASS_NODES_LIMIT)
        {
            return;
        }
        self.nodes.push((address, bytes, of_classes));
        if of_classes {
            self.class_nodes.push((address, bytes));
        }
    }

    fn uncommit(&mut self, address: u64, bytes: u64) {
        if let Some((from, to)) = self.granules_of(address, bytes) {
            self.counters.uncommits += u64::from(self.granules.count_within(from, to) > 0);
            self.granules.remove(from, to);
        }
        let chunk = self.chunks.get_mut(&address);
        if let Some(chunk) = chunk.filter(|chunk| chunk.owner == Owner::Free) {
            chunk.committed_bytes = 0;
        }
    }

    /// The rest of a block or a chunk goes to an arena's free blocks.
    fn leftover(&mut self, event: &ChunkEvent) {
        let (address, bytes) = (event.address, event.bytes);
        self.counters.leftovers += 1;
        self.raise(address, bytes);
        // JDK 24 and later give the rest of a class-space block to the non-class arena.
        let partner = self.partners.get(event.arena as usize).copied().flatten();
        for row in [Some(event.arena), partner].into_iter().flatten() {
            if let Some(arena) = self.arenas.get_mut(&row) {
                arena.cut_off(address);
            }
        }
        if let Some(arena) = self.arenas.get_mut(&event.arena) {
            // No block is larger than the chunk it lies in.
            arena.free_blocks.insert(address, bytes.min(ROOT_BYTES));
        }
    }

    /// The granules of a range. One commit covers at most a root chunk, so a row with more is
    /// damaged.
    fn granules_of(&self, address: u64, bytes: u64) -> Option<(u64, u64)> {
        address.checked_add(bytes)?;
        let first = address / self.granule_bytes;
        Some((first, first + bytes.min(ROOT_BYTES) / self.granule_bytes))
    }

    /// A chunk's committed beginning, which is whole granules, or all of a chunk that is smaller
    /// (`Metachunk::set_committed_words`).
    fn rounded(&self, committed_bytes: u64, chunk_bytes: u64) -> u64 {
        committed_bytes.next_multiple_of(self.granule_bytes).min(chunk_bytes)
    }

    fn take(&mut self, event: &ChunkEvent) {
        if self.split_off(event).is_none() {
            return;
        }
        self.counters.chunks_taken += 1;
        if event.arena != 0 {
            self.arenas.entry(event.arena).or_default().chunks.push(event.address);
        }
    }

    /// A chunk is taken from the free one that begins where it does: `None` where there can be
    /// none.
    fn split_off(&mut self, event: &ChunkEvent) -> Option<()> {
        if !is_chunk(event.address, event.bytes) {
            return None;
        }
        let owner = Owner::Arena(event.arena);
        // Where the beginning of the recording is missing, the chunk may lie in nothing that is
        // known.
        let mut chunk = match self.chunks.remove(&event.address) {
            Some(chunk) if chunk.owner == Owner::Free && chunk.bytes >= event.bytes => chunk,
            _ => Chunk { bytes: event.bytes, committed_bytes: 0, used_bytes: 0, owner },
        };
        self.counters.splits += u64::from(chunk.bytes > event.bytes);
        while chunk.bytes > event.bytes {
            chunk.bytes /= 2;
            let rest_bytes =
                self.rounded(chunk.committed_bytes.saturating_sub(chunk.bytes), chunk.bytes);
            chunk.committed_bytes = chunk.committed_bytes.min(chunk.bytes);
            self.chunks.insert(
                event.address + chunk.bytes,
                Chunk { committed_bytes: rest_bytes, ..chunk },
            );
        }
        self.chunks.insert(event.address, Chunk { owner, ..chunk });
        Some(())
    }

    fn enlarge(&mut self, address: u64, bytes: u64) {
        let Some(chunk) = self
            .chunks
            .get(&address)
            .copied()
            .filter(|chunk| chunk.bytes * 2 == bytes && is_chunk(address, bytes))
        else {
            return;
        };
        self.counters.chunks_enlarged += 1;
        let follower = self.chunks.remove(&(address + chunk.bytes));
        let whole = chunk.committed_bytes == chunk.bytes;
        let added = follower.map_or(0, |follower| if whole { follower.committed_bytes } else { 0 });
        let committed_bytes = self.rounded(chunk.committed_bytes + added, bytes);
        self.chunks.insert(address, Chunk { bytes, committed_bytes, ..chunk });
    }

    fn give_back(&mut self, address: u64) {
        let Some(mut chunk) = self.chunks.remove(&address) else { return };
        self.counters.chunks_returned += 1;
        if let Owner::Arena(row) = chunk.owner {
            if let Some(arena) = self.arenas.get_mut(&row) {
                arena.chunks.retain(|base| *base != address);
            }
            self.used_bytes -= chunk.used_bytes;
        }
        (chunk.owner, chunk.used_bytes) = (Owner::Free, 0);
        let (mut base, given_bytes) = (address, chunk.bytes);
        while chunk.bytes < ROOT_BYTES {
            let buddy = base ^ chunk.bytes;
            let fits = |other: &&Chunk| other.owner == Owner::Free && other.bytes == chunk.bytes;
            let Some(other) = self.chunks.get(&buddy).filter(fits).copied() else { break };
            self.chunks.remove(&buddy);
            let (leader, follower) = if base < buddy { (chunk, other) } else { (other, chunk) };
            let added =
                if leader.committed_bytes == leader.bytes { follower.committed_bytes } else { 0 };
            base = base.min(buddy);
            let bytes = leader.bytes * 2;
            chunk = Chunk {
                bytes,
                committed_bytes: self.rounded(leader.committed_bytes + added, bytes),
                ..leader
            };
        }
        self.counters.merges += u64::from(chunk.bytes > given_bytes);
        self.chunks.insert(base, chunk);
    }
}

/// Whether a chunk can lie there: a power of two from 1 KB to a root chunk, at a multiple of its
/// size.
fn is_chunk(address: u64, bytes: u64) -> bool {
    bytes.is_power_of_two()
        && (1024..=ROOT_BYTES).contains(&bytes)
        && address.is_multiple_of(bytes)
        && address.checked_add(bytes).is_some()
}

/// By row of the stacks: whether its innermost frame is the type of classes.
fn class_stacks(tables: &Tables) -> Vec<bool> {
    let is_class = |frame: u32| {
        tables
            .frames
            .get(frame as usize)
            .is_some_and(|frame| frame.function.as_deref() == Some("Class"))
    };
    tables.stacks.iter().enumerate().map(|(row, node)| row > 0 && is_class(node.frame)).collect()
}
