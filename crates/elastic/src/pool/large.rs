//! Large chunks: buddy chunks of whole granules, and runs of whole roots for blocks that no root
//! holds.
//!
//! A large chunk is committed from its end downwards, because arenas allocate downwards. Its owner
//! knows how far; without an owner, [`Kept`] does.

use super::{Memory, Pool};
use crate::error::Error;
use heaplab_buddy::marks::mark;
use heaplab_buddy::{ChunkId, Level};
use std::collections::BTreeMap;
use std::ops::Range;

/// Chunks that came back committed and wait for the next owner: by level, the last one first. Where
/// they lie stands here, too, because their headers are out of the cache by then.
#[derive(Debug, Default)]
pub struct Kept(Vec<Vec<KeptChunk>>);

/// A free chunk with memory.
#[derive(Clone, Copy, Debug)]
pub struct KeptChunk {
    /// Its header.
    pub chunk: ChunkId,
    /// Its first offset.
    pub start: usize,
    /// Committed, counted from its end.
    pub committed_bytes: usize,
}

impl Kept {
    /// Adds a chunk.
    pub fn put(&mut self, level: Level, kept: KeptChunk) {
        if self.0.len() <= level.index() {
            self.0.resize_with(level.index() + 1, Vec::new);
        }
        self.0[level.index()].push(kept);
    }

    /// Takes a chunk of `level`, or of at most two levels larger: address space is cheaper than
    /// page faults.
    pub fn take(&mut self, level: Level) -> Option<(Level, KeptChunk)> {
        (level.0.saturating_sub(2)..=level.0)
            .rev()
            .find_map(|level| Some((Level(level), self.0.get_mut(usize::from(level))?.pop()?)))
    }

    /// Takes one of the largest.
    pub fn take_largest(&mut self) -> Option<KeptChunk> {
        self.0.iter_mut().find_map(Vec::pop)
    }

    /// All kept chunks, with their levels.
    pub fn iter(&self) -> impl Iterator<Item = (Level, KeptChunk)> + '_ {
        let levels = self.0.iter().enumerate();
        levels
            .flat_map(|(level, chunks)| chunks.iter().map(move |kept| (Level(level as u8), *kept)))
    }
}

/// Chunks in use that have one block and nothing else, so that the block's address leads to its
/// chunk: from their last line to their first one.
#[derive(Debug, Default)]
pub struct Alone(BTreeMap<u32, u32>);

impl Alone {
    /// There is one from line `first` to `top`.
    pub fn note(&mut self, first: u32, top: u32) {
        let before = self.0.insert(top - 1, first);
        debug_assert!(before.is_none(), "a chunk has one owner");
    }

    /// Where the one ends that has this line.
    pub fn at(&self, line: u32) -> Option<u32> {
        self.0.range(line..).next().filter(|(_, first)| **first <= line).map(|(last, _)| last + 1)
    }

    /// The one that ends at `top` is one like others.
    pub fn forget(&mut self, top: u32) {
        let before = self.0.remove(&(top - 1));
        debug_assert!(before.is_some(), "it was noted");
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes of these books, about.
    pub fn table_bytes(&self) -> usize {
        self.0.len() * 2 * size_of::<(u32, u32)>()
    }

    /// Bytes of all these chunks, for lines of this size.
    pub fn bytes(&self, line_bytes: usize) -> usize {
        self.0.iter().map(|(last, first)| (last + 1 - first) as usize * line_bytes).sum()
    }
}

/// A large chunk in an owner's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Large {
    /// Its offsets.
    pub range: Range<usize>,
    /// Committed, counted from its end.
    pub committed_bytes: usize,
    /// Its header; of a run of roots, that of the first one.
    pub chunk: ChunkId,
}

impl Pool {
    /// A free chunk of `level`, uncommitted, in use from now on.
    pub(super) fn take_chunk(&mut self, level: Level) -> Option<ChunkId> {
        let chunk = match self.chunks.take_same_or_larger(level, 0) {
            Some(chunk) => chunk,
            None => {
                let root = self.chunks.areas();
                if root == self.shape.roots {
                    mark("address space exhausted");
                    return None;
                }
                self.chunks.add_root((root * self.shape.root_bytes()) as u64)
            }
        };
        if self.chunks.level(chunk) < level {
            self.chunks.split(chunk, level);
        }
        self.chunks.set_in_use(chunk);
        Some(chunk)
    }

    /// An uncommitted chunk comes back and merges.
    pub(super) fn return_chunk(&mut self, chunk: ChunkId) {
        self.chunks.set_free(chunk);
        let whole = self.chunks.merge(chunk).unwrap_or(chunk);
        self.chunks.add_free(whole);
    }

    /// A chunk of at least `bytes`, with at least its last `committed_bytes` (whole granules)
    /// committed.
    pub fn take_large(
        &mut self,
        bytes: usize,
        committed_bytes: usize,
        memory: &impl Memory,
    ) -> Result<Large, Error> {
        let Some(level) = self.shape.geometry.level_fitting(bytes) else {
            return self.take_roots(bytes, committed_bytes, memory);
        };
        let (level, KeptChunk { chunk, start, committed_bytes: kept_bytes }) =
            match self.kept.take(level) {
                Some(kept) => kept,
                None => {
                    let exhausted = Error::AddressSpace {
                        asked_bytes: bytes,
                        reserved_bytes: self.shape.reserved_bytes(),
                    };
                    let chunk = self.take_chunk(level).ok_or(exhausted)?;
                    (
                        level,
                        KeptChunk {
                            chunk,
                            start: self.chunks.offset(chunk) as usize,
                            committed_bytes: 0,
                        },
                    )
                }
            };
        let mut large = Large {
            range: start..start + self.shape.geometry.bytes(level),
            committed_bytes: kept_bytes,
            chunk,
        };
        self.idle_bytes -= kept_bytes;
        self.large_bytes += kept_bytes;
        self.counts.chunks_taken += 1;
        if let Err(error) = self.commit_large(&mut large, committed_bytes, memory) {
            self.return_large(large);
            return Err(error);
        }
        Ok(large)
    }

    /// Commits a large chunk as far as `committed_bytes` from its end, whole granules; a no-op
    /// where that is so already.
    pub fn commit_large(
        &mut self,
        large: &mut Large,
        committed_bytes: usize,
        memory: &impl Memory,
    ) -> Result<(), Error> {
        debug_assert!(
            committed_bytes <= large.range.len()
                && committed_bytes.is_multiple_of(self.shape.granule_bytes())
        );
        if committed_bytes > large.committed_bytes {
            memory.commit(
                large.range.end - committed_bytes..large.range.end - large.committed_bytes,
            )?;
            self.large_bytes += committed_bytes - large.committed_bytes;
            large.committed_bytes = committed_bytes;
        }
        Ok(())
    }

    /// Takes a large chunk back. Its committed part waits for the next owner, or for
    /// [`Pool::claim`].
    pub fn return_large(&mut self, large: Large) {
        self.large_bytes -= large.committed_bytes;
        self.counts.chunks_returned += 1;
        let root_bytes = self.shape.root_bytes();
        if large.range.len() > root_bytes {
            self.return_roots(large);
        } else if large.committed_bytes == 0 {
            self.return_chunk(large.chunk);
        } else {
            self.idle_bytes += large.committed_bytes;
            // Chunks are as large as their level, which need not be looked up.
            let level =
                self.shape.geometry.level_fitting(large.range.len()).expect("no more than a root");
            let Large { range, committed_bytes, chunk } = large;
            self.kept.put(level, KeptChunk { chunk, start: range.start, committed_bytes });
        }
    }

    /// Neighbouring whole roots for a block that no root holds.
    fn take_roots(
        &mut self,
        bytes: usize,
        committed_bytes: usize,
        memory: &impl Memory,
    ) -> Result<Large, Error> {
        let root_bytes = self.shape.root_bytes();
        let count = bytes.div_ceil(root_bytes);
        let exhausted =
            Error::AddressSpace { asked_bytes: bytes, reserved_bytes: self.shape.reserved_bytes() };
        let free = |pool: &Pool, root: usize| {
            let chunk = pool.chunks.area(root).next();
            // A root that was never added is free too.
            chunk.is_none_or(|chunk| {
                pool.chunks.is_free(chunk) && pool.chunks.level(chunk) == Level::ROOT
            })
        };
        let mut run = 0;
        let last = (0..self.shape.roots).find(|root| {
            run = if free(self, *root) { run + 1 } else { 0 };
            run == count
        });
        let first = last.ok_or(exhausted)? + 1 - count;
        mark("a block larger than a root chunk");
        for root in self.chunks.areas()..first {
            let chunk = self.chunks.add_root((root * root_bytes) as u64);
            self.chunks.add_free(chunk);
        }
        for root in first..first + count {
            let added = self.chunks.area(root).next();
            let chunk = match added {
                Some(chunk) => {
                    self.chunks.remove_free(chunk);
                    chunk
                }
                None => self.chunks.add_root((root * root_bytes) as u64),
            };
            self.chunks.set_in_use(chunk);
        }
        let chunk = self.chunks.area(first).next().expect("added above");
        let start = first * root_bytes;
        let mut large =
            Large { range: start..start + count * root_bytes, committed_bytes: 0, chunk };
        self.counts.chunks_taken += 1;
        if let Err(error) = self.commit_large(&mut large, committed_bytes, memory) {
            self.return_large(large);
            return Err(error);
        }
        Ok(large)
    }

    /// Each root of a run comes back by itself.
    fn return_roots(&mut self, large: Large) {
        let root_bytes = self.shape.root_bytes();
        let first_committed = large.range.end - large.committed_bytes;
        for start in large.range.clone().step_by(root_bytes) {
            let chunk = self.chunks.area(start / root_bytes).next().expect("a root in use");
            let committed = (start + root_bytes).saturating_sub(first_committed.max(start));
            if committed == 0 {
                self.return_chunk(chunk);
            } else {
                self.idle_bytes += committed;
                self.kept.put(Level::ROOT, KeptChunk { chunk, start, committed_bytes: committed });
            }
        }
    }
}
