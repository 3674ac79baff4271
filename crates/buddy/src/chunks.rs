//! Chunk headers, apart from the chunks, so that a chunk's memory can be given back; splitting,
//! merging and enlarging.
//!
//! The headers of one root chunk's area are linked in the order of their offsets, and free chunks
//! of a level in its [`FreeList`]. Headers left over by a merge are pooled and reused. A chunk
//! knows its committed length from its beginning. This length moves in whole granules, or in whole
//! chunks smaller than one granule. It may lag behind the [`CommitMask`](crate::CommitMask): the
//! second of two chunks in one granule does not notice that the first committed it. HotSpot 17 does
//! the same (`RootChunkArea`, `ChunkHeaderPool`, `Metachunk`), and a heap's decisions depend on it.

use crate::free_list::FreeList;
use crate::geometry::{Geometry, Level};
use crate::marks::mark;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// A chunk's header. It stays the chunk's until the chunk is merged into its buddy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkId(NonZeroU32);

impl ChunkId {
    fn from_index(index: usize) -> ChunkId {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        ChunkId(
            number
                .expect("2^32 chunks are 4 TB of the smallest ones, more than any space reserves"),
        )
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A chunk's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In a free list, or on its way into or out of one.
    Free,
    /// In an arena.
    InUse,
    /// No chunk: a header in the pool.
    Pooled,
}

#[derive(Clone, Debug)]
pub(crate) struct Header {
    offset: u64,
    pub(crate) committed_bytes: usize,
    used_bytes: usize,
    level: Level,
    state: State,
    /// Neighbours in the chunk's list: a free list, its owner's, or (next only) the pool.
    pub(crate) prev: Option<ChunkId>,
    pub(crate) next: Option<ChunkId>,
    /// Neighbours in the area.
    before: Option<ChunkId>,
    after: Option<ChunkId>,
}

/// Every header, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers(Vec<Header>);

impl Index<ChunkId> for Headers {
    type Output = Header;
    #[inline]
    fn index(&self, chunk: ChunkId) -> &Header {
        &self.0[chunk.index()]
    }
}

impl IndexMut<ChunkId> for Headers {
    #[inline]
    fn index_mut(&mut self, chunk: ChunkId) -> &mut Header {
        &mut self.0[chunk.index()]
    }
}

/// Counts of chunk operations since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of [`Chunks::split`] that split.
    pub splits: u64,
    /// Calls of [`Chunks::merge`] that merged.
    pub merges: u64,
    /// Chunks enlarged in place.
    pub enlarged: u64,
}

/// The chunks of a space.
#[derive(Clone, Debug)]
pub struct Chunks {
    geometry: Geometry,
    granule_bytes: usize,
    headers: Headers,
    pool: Option<ChunkId>,
    pooled: usize,
    lists: Vec<FreeList>,
    /// The first header of each area; it never changes, because the first of two buddies survives a
    /// merge.
    roots: Vec<ChunkId>,
    counts: Counts,
}

impl Chunks {
    /// No chunks yet. Memory will be committed in granules of `granule_bytes`.
    ///
    /// # Panics
    /// The granule is no power of two, or larger than a root chunk.
    pub fn new(geometry: Geometry, granule_bytes: usize) -> Chunks {
        assert!(
            granule_bytes.is_power_of_two() && granule_bytes <= geometry.root_bytes(),
            "a granule of {granule_bytes} bytes"
        );
        let lists = vec![FreeList::default(); geometry.levels()];
        Chunks {
            geometry,
            granule_bytes,
            headers: Headers::default(),
            pool: None,
            pooled: 0,
            lists,
            roots: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The sizes of chunks.
    #[inline]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Number of headers, pooled ones included.
    pub fn headers(&self) -> usize {
        self.headers.0.len()
    }

    /// Number of headers without a chunk.
    pub fn pooled_headers(&self) -> usize {
        self.pooled
    }

    /// Bytes of a header in memory.
    pub const HEADER_BYTES: usize = size_of::<Header>();

    /// A new root chunk at `offset`, a multiple of its size: free, in no list, uncommitted.
    pub fn add_root(&mut self, offset: u64) -> ChunkId {
        assert!(
            offset.is_multiple_of(self.geometry.root_bytes() as u64),
            "a root chunk at {offset:#x}"
        );
        let root = self.take_header(offset, Level::ROOT);
        self.roots.push(root);
        root
    }

    fn take_header(&mut self, offset: u64, level: Level) -> ChunkId {
        let header = Header {
            offset,
            committed_bytes: 0,
            used_bytes: 0,
            level,
            state: State::Free,
            prev: None,
            next: None,
            before: None,
            after: None,
        };
        match self.pool {
            Some(pooled) => {
                self.pool = self.headers[pooled].next;
                self.pooled -= 1;
                self.headers[pooled] = header;
                pooled
            }
            None => {
                self.headers.0.push(header);
                ChunkId::from_index(self.headers.0.len() - 1)
            }
        }
    }

    fn pool_header(&mut self, chunk: ChunkId) {
        let pool = self.pool.replace(chunk);
        let header = &mut self.headers[chunk];
        header.state = State::Pooled;
        header.next = pool;
        self.pooled += 1;
    }

    /// Its offset.
    #[inline]
    pub fn offset(&self, chunk: ChunkId) -> u64 {
        self.headers[chunk].offset
    }

    /// Its level.
    #[inline]
    pub fn level(&self, chunk: ChunkId) -> Level {
        self.headers[chunk].level
    }

    /// Its size.
    #[inline]
    pub fn bytes(&self, chunk: ChunkId) -> usize {
        self.geometry.bytes(self.headers[chunk].level)
    }

    /// Its committed length from its beginning, as far as it knows.
    #[inline]
    pub fn committed_bytes(&self, chunk: ChunkId) -> usize {
        self.headers[chunk].committed_bytes
    }

    /// Its length from its beginning that its owner has handed out.
    #[inline]
    pub fn used_bytes(&self, chunk: ChunkId) -> usize {
        self.headers[chunk].used_bytes
    }

    /// Whether it is in no arena.
    #[inline]
    pub fn is_free(&self, chunk: ChunkId) -> bool {
        self.headers[chunk].state == State::Free
    }

    /// Whether it is the first of its buddy pair, or a root chunk.
    #[inline]
    pub fn leads(&self, chunk: ChunkId) -> bool {
        let header = &self.headers[chunk];
        self.geometry.leads(header.offset, header.level)
    }

    /// Notes its committed length, rounded up to granules but not beyond its end.
    #[inline]
    pub fn set_committed_bytes(&mut self, chunk: ChunkId, bytes: usize) {
        let whole = bytes.next_multiple_of(self.granule_bytes).min(self.bytes(chunk));
        self.headers[chunk].committed_bytes = whole;
    }

    /// Notes its handed-out length.
    #[inline]
    pub fn set_used_bytes(&mut self, chunk: ChunkId, bytes: usize) {
        debug_assert!(bytes <= self.headers[chunk].committed_bytes);
        self.headers[chunk].used_bytes = bytes;
    }

    /// Hands it to an owner. It must be in no list.
    pub fn set_in_use(&mut self, chunk: ChunkId) {
        debug_assert!(self.is_free(chunk));
        self.headers[chunk].state = State::InUse;
    }

    /// Takes it from its owner, with nothing used.
    pub fn set_free(&mut self, chunk: ChunkId) {
        let header = &mut self.headers[chunk];
        header.state = State::Free;
        header.used_bytes = 0;
        header.next = None;
    }

    /// The next chunk in its list. An owner links its chunks with [`Chunks::set_next`].
    #[inline]
    pub fn next(&self, chunk: ChunkId) -> Option<ChunkId> {
        self.headers[chunk].next
    }

    /// Links a chunk in use in its owner's list.
    pub fn set_next(&mut self, chunk: ChunkId, next: Option<ChunkId>) {
        debug_assert!(!self.is_free(chunk));
        self.headers[chunk].next = next;
    }

    /// Splits a free chunk in no list down to `target`, a smaller level. Its offset stays; one
    /// splinter a level goes to the free lists. Committed memory stays committed: beyond the middle
    /// it counts for the splinter.
    pub fn split(&mut self, chunk: ChunkId, target: Level) {
        debug_assert!(
            self.is_free(chunk) && self.level(chunk) < target && target <= self.geometry.smallest()
        );
        while self.level(chunk) < target {
            let level = self.level(chunk).smaller();
            let half = self.geometry.bytes(level);
            let splinter = self.take_header(self.offset(chunk) + half as u64, level);
            let committed = self.headers[chunk].committed_bytes;
            if committed > half {
                mark("split a chunk committed beyond its middle");
            }
            self.headers[chunk].level = level;
            self.headers[chunk].committed_bytes = committed.min(half);
            self.set_committed_bytes(splinter, committed.saturating_sub(half));
            let after = self.headers[chunk].after.replace(splinter);
            self.headers[splinter].before = Some(chunk);
            self.headers[splinter].after = after;
            if let Some(after) = after {
                self.headers[after].before = Some(splinter);
            }
            self.add_free(splinter);
        }
        self.counts.splits += 1;
    }

    /// The chunk's buddy, if whole and free.
    fn free_buddy(&self, chunk: ChunkId) -> Option<ChunkId> {
        let header = &self.headers[chunk];
        let buddy = if self.leads(chunk) { header.after } else { header.before }?;
        let whole = header.level != Level::ROOT && self.headers[buddy].level == header.level;
        (whole && self.is_free(buddy)).then_some(buddy)
    }

    /// Merges a free chunk in no list with its buddy while the buddy is free and whole, and takes
    /// the buddies from their lists. Returns the merged chunk, in no list (`chunk` is gone unless
    /// it is the same one), or `None`.
    pub fn merge(&mut self, chunk: ChunkId) -> Option<ChunkId> {
        debug_assert!(self.is_free(chunk));
        let mut merged = None;
        while let Some(buddy) = self.free_buddy(merged.unwrap_or(chunk)) {
            let here = merged.unwrap_or(chunk);
            self.remove_free(buddy);
            let (leader, follower) = if self.leads(here) { (here, buddy) } else { (buddy, here) };
            self.absorb(leader, follower);
            merged = Some(leader);
        }
        if let Some(merged) = merged {
            self.counts.merges += 1;
            if self.level(merged) == Level::ROOT {
                mark("merged to a root chunk");
            }
        }
        merged
    }

    /// Doubles a chunk in use by the free, whole buddy behind it. False, with nothing changed,
    /// without such a buddy.
    pub fn enlarge(&mut self, chunk: ChunkId) -> bool {
        debug_assert!(!self.is_free(chunk));
        if !self.leads(chunk) {
            return false;
        }
        let Some(buddy) = self.free_buddy(chunk) else {
            mark("enlarging refused: the buddy is in use or split");
            return false;
        };
        self.remove_free(buddy);
        self.absorb(chunk, buddy);
        self.counts.enlarged += 1;
        true
    }

    /// The leader takes the follower's range. The follower's committed part counts only if the
    /// leader is committed to its end.
    fn absorb(&mut self, leader: ChunkId, follower: ChunkId) {
        let half = self.bytes(leader);
        let mut committed = self.headers[leader].committed_bytes;
        if committed == half {
            committed += self.headers[follower].committed_bytes;
        } else if self.headers[follower].committed_bytes > 0 {
            mark("merged behind an uncommitted end: the follower's committed part is forgotten");
        }
        let after = self.headers[follower].after;
        self.headers[leader].after = after;
        if let Some(after) = after {
            self.headers[after].before = Some(leader);
        }
        self.pool_header(follower);
        self.headers[leader].level = Level(self.level(leader).0 - 1);
        self.set_committed_bytes(leader, committed);
    }

    /// Puts a free chunk into the list of its level.
    pub fn add_free(&mut self, chunk: ChunkId) {
        debug_assert!(self.is_free(chunk));
        let level = self.level(chunk).index();
        self.lists[level].add(&mut self.headers, chunk);
    }

    /// Takes a free chunk out of the list of its level.
    pub fn remove_free(&mut self, chunk: ChunkId) {
        debug_assert!(self.is_free(chunk));
        let level = self.level(chunk).index();
        self.lists[level].remove(&mut self.headers, chunk);
    }

    /// Takes the first free chunk with at least `committed_bytes` committed, from `level` on to
    /// `smallest`.
    pub fn take_same_or_smaller(
        &mut self,
        level: Level,
        smallest: Level,
        committed_bytes: usize,
    ) -> Option<ChunkId> {
        self.take((level.0..=smallest.0).map(Level), committed_bytes)
    }

    /// Takes the first free chunk with at least `committed_bytes` committed, from `level` up to the
    /// root's.
    pub fn take_same_or_larger(&mut self, level: Level, committed_bytes: usize) -> Option<ChunkId> {
        self.take((0..=level.0).rev().map(Level), committed_bytes)
    }

    fn take(
        &mut self,
        levels: impl Iterator<Item = Level>,
        committed_bytes: usize,
    ) -> Option<ChunkId> {
        for level in levels {
            if let Some(chunk) = self.lists[level.index()].find(&self.headers, committed_bytes) {
                self.remove_free(chunk);
                return Some(chunk);
            }
        }
        None
    }

    /// The free chunks of `level`, in the order of the list.
    pub fn free_of(&self, level: Level) -> impl Iterator<Item = ChunkId> + '_ {
        std::iter::successors(self.lists[level.index()].first(), |chunk| self.next(*chunk))
    }

    /// Number of free chunks of `level`.
    pub fn free_chunks_of(&self, level: Level) -> usize {
        self.lists[level.index()].len()
    }

    /// Number of free chunks.
    pub fn free_chunks(&self) -> usize {
        self.lists.iter().map(FreeList::len).sum()
    }

    /// The chunks in the area of the n-th root chunk added, by offset.
    pub fn area(&self, nth: usize) -> impl Iterator<Item = ChunkId> + '_ {
        std::iter::successors(self.roots.get(nth).copied(), |chunk| self.headers[*chunk].after)
    }

    /// Number of root chunks added.
    pub fn areas(&self) -> usize {
        self.roots.len()
    }
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}")]
pub struct Broken {
    /// The chunk or list.
    pub place: String,
    /// The invariant of a sound space.
    pub expected: String,
    /// The actual state.
    pub found: String,
}

fn expect(
    holds: bool,
    place: impl FnOnce() -> String,
    expected: &str,
    found: impl FnOnce() -> String,
) -> Result<(), Broken> {
    if holds {
        Ok(())
    } else {
        Err(Broken { place: place(), expected: expected.into(), found: found() })
    }
}

impl Chunks {
    /// Checks every invariant, in time proportional to the chunks. Between operations no chunk is
    /// free outside of a list.
    pub fn check_deep(&self) -> Result<(), Broken> {
        let mut chunks = self.pooled;
        for area in 0..self.areas() {
            chunks += self.check_area(area)?;
        }
        expect(
            chunks == self.headers(),
            || "the headers".into(),
            "each in an area or pooled",
            || format!("{chunks} of {}", self.headers()),
        )?;
        self.geometry.all().try_for_each(|level| self.check_list(level))
    }

    fn check_area(&self, area: usize) -> Result<usize, Broken> {
        let (mut chunks, mut before) = (0, None);
        let mut offset = self.roots.get(area).map_or(0, |root| self.offset(*root));
        let end = offset + self.geometry.root_bytes() as u64;
        for chunk in self.area(area) {
            let header = &self.headers[chunk];
            let place = || format!("{:?} at {:#x} of {:?}", chunk, header.offset, header.level);
            expect(header.offset == offset, place, "the end of the chunk before it", || {
                format!("{offset:#x}")
            })?;
            let aligned = header.offset.is_multiple_of(self.bytes(chunk) as u64);
            expect(
                aligned && header.before == before,
                place,
                "aligned, linked to the chunk before it",
                || format!("{:?}", header.before),
            )?;
            let used = header.used_bytes <= header.committed_bytes
                && header.committed_bytes <= self.bytes(chunk);
            expect(used, place, "used <= committed <= size", || format!("{header:?}"))?;
            let unit = self.granule_bytes.min(self.bytes(chunk));
            let whole = header.committed_bytes.is_multiple_of(unit);
            expect(whole, place, "committed in whole granules", || {
                header.committed_bytes.to_string()
            })?;
            expect(header.state != State::Pooled, place, "a chunk", || "a pooled header".into())?;
            let merged = !self.is_free(chunk) || self.free_buddy(chunk).is_none();
            expect(merged, place, "free chunks merged with their buddies", || {
                "a free buddy".into()
            })?;
            offset += self.bytes(chunk) as u64;
            before = Some(chunk);
            chunks += 1;
        }
        expect(
            offset == end,
            || format!("area {area}"),
            "chunks to its end",
            || format!("{offset:#x} of {end:#x}"),
        )?;
        Ok(chunks)
    }

    fn check_list(&self, level: Level) -> Result<(), Broken> {
        let list = &self.lists[level.index()];
        let place = || format!("the free list of {level:?}");
        let (mut chunks, mut before) = (0, None);
        for chunk in self.free_of(level) {
            let header = &self.headers[chunk];
            let sound = header.state == State::Free
                && header.level == level
                && header.used_bytes == 0
                && header.prev == before;
            expect(sound, place, "free, unused chunks of this level, linked both ways", || {
                format!("{header:?}")
            })?;
            before = Some(chunk);
            chunks += 1;
        }
        expect(
            chunks == list.len() && before == list.last(),
            place,
            "as many chunks as counted, ending at the last",
            || chunks.to_string(),
        )
    }
}

#[cfg(test)]
#[path = "chunks_tests.rs"]
mod tests;
