//! Both spaces with their arenas: a JVM's view of the old metaspace.

use super::arena::Arena;
use super::chunk::Chunk;
use super::facts::WORD;
use super::grow::Growth;
use super::pool::Pool;
use super::strategy::Space;
use crate::plan::LoaderKind;
use crate::spec::Spec;
use heaplab_address_space::Faults;
use std::ptr::NonNull;
use std::sync::Arc;

/// ReservationOptions of the metaspace.
#[derive(Clone, Debug)]
pub struct Options11 {
    /// MaxMetaspaceSize: most bytes that both spaces together may commit.
    pub limit_bytes: Option<u64>,
    /// CompressedClassSpaceSize.
    pub class_space_bytes: u64,
    /// Distance of the n-th non-class node's base above a multiple of 64 KB, in bytes; zero beyond.
    /// Rebuilds a JVM from a log with its nodes' addresses.
    pub node_offsets_bytes: Vec<usize>,
    /// Commits and reservations that fail, for tests.
    pub faults: Option<Arc<Faults>>,
}

impl Default for Options11 {
    fn default() -> Self {
        Options11 {
            limit_bytes: None,
            class_space_bytes: 1 << 30,
            node_offsets_bytes: Vec::new(),
            faults: None,
        }
    }
}

impl From<&Spec> for Options11 {
    fn from(spec: &Spec) -> Options11 {
        Options11 {
            limit_bytes: spec.limit_bytes,
            class_space_bytes: spec.class_space_bytes,
            ..Options11::default()
        }
    }
}

/// An arena of a [`Metaspace11`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArenaId(usize);

/// The old metaspace.
///
/// ```
/// use heaplab_metaspace::old::{Metaspace11, Options11, Space};
/// use heaplab_metaspace::plan::LoaderKind;
/// let mut metaspace = Metaspace11::new(Options11::default());
/// let arena = metaspace.birth(Space::NonClass, LoaderKind::Standard);
/// let block = metaspace.allocate(arena, 11).unwrap();
/// // SAFETY: the block is live and has eleven words.
/// unsafe { block.as_ptr().write_bytes(0x5a, 88) };
/// metaspace.death(arena);
/// assert_eq!(metaspace.committed_bytes(), 256 << 10);
/// ```
pub struct Metaspace11 {
    /// Non-class, class.
    pub(super) pools: [Pool; 2],
    pub(super) arenas: Vec<Option<Arena>>,
    vacant: Vec<usize>,
    limit_words: usize,
}

impl Metaspace11 {
    /// Reserves nothing until the first arena is born.
    pub fn new(options: Options11) -> Metaspace11 {
        let growth = |offsets_bytes: Vec<usize>| Growth {
            class_space_words: options.class_space_bytes as usize / WORD,
            offsets_bytes,
            faults: options.faults.clone(),
        };
        Metaspace11 {
            pools: [
                Pool::new(Space::NonClass, growth(options.node_offsets_bytes.clone())),
                Pool::new(Space::Class, growth(Vec::new())),
            ],
            arenas: Vec::new(),
            vacant: Vec::new(),
            limit_words: options
                .limit_bytes
                .map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
                / WORD,
        }
    }

    /// Words that may still be committed, in both spaces together.
    fn allowed_words(&self) -> usize {
        self.limit_words.saturating_sub(self.committed_words())
    }

    fn committed_words(&self) -> usize {
        self.pools.iter().map(|pool| pool.committed_words).sum()
    }

    /// A class loader gets its arena in one space, and the arena its first chunk.
    pub fn birth(&mut self, space: Space, loader: LoaderKind) -> ArenaId {
        let allowed = self.allowed_words();
        let arena = Arena::new(&mut self.pools[space as usize], loader, allowed);
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.arenas.push(None);
            self.arenas.len() - 1
        });
        self.arenas[index] = Some(arena);
        ArenaId(index)
    }

    /// The arena's class loader is unloaded: its chunks become free. Its blocks must not be used
    /// any more.
    ///
    /// # Panics
    /// The arena is dead already.
    pub fn death(&mut self, id: ArenaId) {
        let arena = self.arenas[id.0].take().expect("an arena dies once");
        let space = arena.space as usize;
        arena.die(&mut self.pools[space]);
        self.vacant.push(id.0);
    }

    /// A block of `words`, aligned to 8 bytes, with unspecified content. `None`, with the arena
    /// unchanged: the limit, the class space or the system refuses.
    pub fn allocate(&mut self, id: ArenaId, words: usize) -> Option<NonNull<u8>> {
        // No node could hold such a request; beyond it sums of words could overflow.
        if words > isize::MAX as usize / (4 * WORD) {
            return None;
        }
        let allowed = self.allowed_words();
        let arena = self.arenas[id.0].as_mut().expect("the arena is alive");
        let block = arena.allocate(
            &mut self.pools[arena.space as usize],
            Arena::raw_words(words),
            allowed,
        )?;
        NonNull::new(std::ptr::with_exposed_provenance_mut(block))
    }

    /// Frees a block before its arena dies.
    ///
    /// # Safety
    /// `block` was allocated from this arena with `words`, has not been given back since and is not
    /// used any more.
    pub unsafe fn deallocate(&mut self, id: ArenaId, block: NonNull<u8>, words: usize) {
        let arena = self.arenas[id.0].as_mut().expect("the arena is alive");
        // SAFETY: the caller's promise.
        unsafe { arena.deallocate(block.as_ptr().expose_provenance(), Arena::raw_words(words)) };
    }

    /// Words of an arena that are handed out or in its free blocks; none once it is dead.
    pub fn used_words(&self, id: ArenaId) -> usize {
        self.arenas[id.0].as_ref().map_or(0, |arena| arena.used_words)
    }

    /// After class unloading: unmaps the nodes without chunks in use. Returns their number.
    pub fn purge(&mut self) -> usize {
        self.pools.iter_mut().map(Pool::purge).sum()
    }

    /// Bytes committed in both spaces.
    pub fn committed_bytes(&self) -> u64 {
        (self.committed_words() * WORD) as u64
    }

    /// Place of the arena's last chunk, for comparison with a JVM's log.
    pub fn newest_chunk(&self, id: ArenaId) -> Option<ChunkPlace> {
        let arena = self.arenas[id.0].as_ref()?;
        let chunk: Chunk = arena.chunks().next()?;
        let node = self.pools[arena.space as usize].node(chunk.node());
        Some(ChunkPlace {
            node: node.serial,
            offset_bytes: chunk.address() - node.base,
            words: chunk.words(),
        })
    }

    /// As [`Metaspace11::allocate`], but only from the arena's current chunk and with exactly
    /// `words`; for the sum of several requests.
    pub(super) fn bump(&mut self, id: ArenaId, words: usize) -> Option<NonNull<u8>> {
        let block = self.arenas[id.0].as_mut()?.bump(words)?;
        NonNull::new(std::ptr::with_exposed_provenance_mut(block))
    }

    /// Node and words from its base, of a block of this arena.
    pub(super) fn place_of(&self, id: ArenaId, block: NonNull<u8>) -> Option<(usize, usize)> {
        let (arena, address) = (self.arenas[id.0].as_ref()?, block.as_ptr() as usize);
        let chunk =
            arena.chunks().find(|chunk| (chunk.address()..chunk.end()).contains(&address))?;
        let node = self.pools[arena.space as usize].node(chunk.node());
        Some((node.serial, (address - node.base) / WORD))
    }

    /// The arena, if alive.
    pub(super) fn arena(&self, id: ArenaId) -> Option<&Arena> {
        self.arenas.get(id.0)?.as_ref()
    }

    pub(super) fn living(&self) -> impl Iterator<Item = &Arena> {
        self.arenas.iter().flatten()
    }
}

/// A chunk's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    /// Its node, numbered in the order of mapping within its space; numbers are never reused.
    pub node: usize,
    /// From the node's base.
    pub offset_bytes: usize,
    /// Its size.
    pub words: usize,
}
