//! The pool: the owners of lines, granules and chunks. It keeps books and touches no memory, so it
//! runs under Miri and loom. Its holder carries out the commits and uncommits that it decides.
//!
//! Two sizes of chunks: up to a granule, runs of lines in shared granules ([`region`]); above,
//! buddy chunks of whole granules, committed from the top downwards as the arena grows
//! ([`Pool::take_large`]). The buddy tree holds only uncommitted chunks. A chunk that comes back
//! with memory waits in `kept` until it is used again or uncommitted.
//!
//! A space has several pools, each with roots of its own: [`shards`].
//!
//! Giving memory back takes three steps, so that no system call is made under the pool's lock:
//! [`Pool::claim`] takes free committed ranges out of circulation, the holder uncommits them,
//! [`Pool::settle`] puts them back.

pub mod anchor;
pub mod bits;
pub mod check;
pub mod large;
pub mod places;
pub mod reclaim;
pub mod region;
pub mod shape;
pub mod shards;

use crate::arena::seeds::Seeds;
use crate::error::Error;
use anchor::Anchor;
use bits::{Set, span};
use heaplab_buddy::marks::mark;
use heaplab_buddy::{ChunkId, Chunks};
use large::{Alone, Kept, KeptChunk};
use region::{Hole, Holes, Region, Regions, free_below};
use shape::{GRANULE_LINES, REGION_GRANULES, Shape};
use std::ops::Range;

/// What commits memory: the reservation, or a test's stand-in.
pub trait Memory {
    /// Commits a range of offsets of which no part is committed. An error changes nothing.
    fn commit(&self, range: Range<usize>) -> Result<(), Error>;

    /// Gives a range back; after an error the range is still committed.
    ///
    /// # Safety
    /// The range is committed, and nobody has any part of it.
    unsafe fn uncommit(&self, range: Range<usize>) -> Result<(), Error>;
}

/// A run of lines within one granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The lowest one, counted from the reservation's base.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// A free range on its way to the kernel.
#[derive(Clone, Debug)]
pub enum Claim {
    /// Granules of a region: its number, and one bit each.
    Granules(usize, u64),
    /// A chunk and its committed bytes, counted from its end.
    Chunk(ChunkId, usize),
}

impl Claim {
    /// Splits the claim: the uncommitted part, and the rest.
    pub fn split(&self, uncommitted: &[Range<usize>], shape: Shape) -> Vec<(Claim, bool)> {
        match *self {
            Claim::Chunk(..) => vec![(self.clone(), !uncommitted.is_empty())],
            Claim::Granules(number, granules) => {
                let base = number * REGION_GRANULES as usize;
                let bits = |range: &Range<usize>| {
                    span(
                        (range.start / shape.granule_bytes() - base) as u32,
                        (range.len() / shape.granule_bytes()) as u32,
                    )
                };
                let gone = uncommitted.iter().map(bits).fold(0, |all, bits| all | bits);
                let parts = [(gone, true), (granules & !gone, false)];
                parts
                    .into_iter()
                    .filter(|part| part.0 != 0)
                    .map(|(bits, gone)| (Claim::Granules(number, bits), gone))
                    .collect()
            }
        }
    }
}

/// Counts of the pool's operations since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "serde"), derive(serde::Serialize, serde::Deserialize))]
pub struct Counts {
    /// Chunks handed out.
    pub chunks_taken: u64,
    /// Chunks that came back.
    pub chunks_returned: u64,
    /// Chunks enlarged in place.
    pub chunks_enlarged: u64,
    /// Granules handed out that were still committed.
    pub warm_granules: u64,
    /// Granules that had to be committed first.
    pub cold_granules: u64,
    /// Regions begun.
    pub regions_begun: u64,
    /// Regions that went back to the buddy tree.
    pub regions_ended: u64,
}

impl Counts {
    /// Both together.
    pub(crate) fn plus(self, other: Counts) -> Counts {
        Counts {
            chunks_taken: self.chunks_taken + other.chunks_taken,
            chunks_returned: self.chunks_returned + other.chunks_returned,
            chunks_enlarged: self.chunks_enlarged + other.chunks_enlarged,
            warm_granules: self.warm_granules + other.warm_granules,
            cold_granules: self.cold_granules + other.cold_granules,
            regions_begun: self.regions_begun + other.regions_begun,
            regions_ended: self.regions_ended + other.regions_ended,
        }
    }
}

/// All of the pool's books.
#[derive(Debug)]
pub struct Pool {
    shape: Shape,
    chunks: Chunks,
    regions: Regions,
    holes: Holes,
    /// Regions with a free granule, and those with a committed free granule.
    open: Set,
    warm: Set,
    kept: Kept,
    alone: Alone,
    /// Living arenas that were born here, and their count of the space.
    pub anchor: Anchor,
    /// The shared head and growth of arenas that have allocated nothing.
    pub seeds: Seeds,
    /// Committed bytes that nobody uses.
    idle_bytes: usize,
    /// Of claims that are not settled.
    claimed_bytes: usize,
    /// Committed bytes of large chunks in use.
    large_bytes: usize,
    counts: Counts,
}

impl Pool {
    /// Everything free and uncommitted.
    pub fn new(shape: Shape) -> Pool {
        Pool {
            shape,
            chunks: Chunks::new(shape.geometry, shape.granule_bytes()),
            regions: Regions::default(),
            holes: Holes::default(),
            open: Set::default(),
            warm: Set::default(),
            kept: Kept::default(),
            alone: Alone::default(),
            anchor: Anchor::default(),
            seeds: Seeds::default(),
            idle_bytes: 0,
            claimed_bytes: 0,
            large_bytes: 0,
            counts: Counts::default(),
        }
    }

    /// Committed bytes that nobody uses.
    pub fn idle_bytes(&self) -> usize {
        self.idle_bytes
    }

    /// Committed bytes that are on their way to the kernel.
    pub fn claimed_bytes(&self) -> usize {
        self.claimed_bytes
    }

    /// Counts of the operations so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes `need` to `want` lines in one granule: from the granule whose longest free run is the
    /// shortest of at least `hole` lines, or from a new one. With a `hole` of 0 the wanted length
    /// is tried first, so that what comes next may fit too. Then any hole of `need` lines will do,
    /// and a new granule is the last choice.
    pub fn take_lines(
        &mut self,
        need: u32,
        want: u32,
        hole: u32,
        memory: &impl Memory,
    ) -> Result<Lines, Error> {
        debug_assert!(0 < need && need <= want.min(GRANULE_LINES));
        let found = if hole == 0 {
            self.best(want).or_else(|| self.best(need))
        } else {
            self.best(hole.max(need))
        };
        let hole = match found {
            Some(found) => found,
            None => match self.take_granule(memory) {
                Ok(granule) => Hole::whole(granule),
                // There is no new granule to be had, but there may be a smaller hole.
                Err(error) => match self.best(need) {
                    Some(found) => {
                        mark("no new granule: a chunk in a smaller hole");
                        found
                    }
                    None => return Err(error),
                },
            },
        };
        let count = want.min(hole.run);
        let line = hole.top(count);
        self.holes.take(&mut self.regions, hole.granule, span(line, count));
        self.counts.chunks_taken += 1;
        Ok(Lines { first: hole.granule * GRANULE_LINES + line, count })
    }

    #[inline]
    fn best(&mut self, lines: u32) -> Option<Hole> {
        self.holes.best(&mut self.regions, lines)
    }

    /// Takes up to `want` free lines directly below `first`, if its granule has `need` of them.
    /// Returns the count.
    pub fn take_below(&mut self, first: u32, need: u32, want: u32) -> Option<u32> {
        let (granule, line) = (first / GRANULE_LINES, first % GRANULE_LINES);
        let free_lines = self.regions.free_lines(granule);
        let free = free_below(free_lines, line);
        if free < need {
            return None;
        }
        let count = want.min(free);
        self.holes.take(&mut self.regions, granule, span(line - count, count));
        self.counts.chunks_enlarged += 1;
        Some(count)
    }

    /// Takes a small chunk back.
    pub fn return_small(&mut self, lines: Lines) {
        self.counts.chunks_returned += 1;
        self.return_lines(lines);
    }

    /// Takes lines back. Their granule becomes free when they were its last.
    fn return_lines(&mut self, lines: Lines) {
        let (granule, line) = (lines.first / GRANULE_LINES, lines.first % GRANULE_LINES);
        if self.holes.give(&mut self.regions, granule, line, lines.count) {
            self.return_granule(granule);
        }
    }

    /// A granule of its own, preferably a committed one.
    fn take_granule(&mut self, memory: &impl Memory) -> Result<u32, Error> {
        if let Some(number) = self.warm.first() {
            let region = self.regions.region(number);
            let bit = (region.free & region.warm).trailing_zeros();
            region.free &= !(1 << bit);
            region.warm &= !(1 << bit);
            note(&mut self.open, &mut self.warm, number, region);
            self.idle_bytes -= self.shape.granule_bytes();
            self.counts.warm_granules += 1;
            return Ok(number as u32 * REGION_GRANULES + bit);
        }
        let number = match self.open.first() {
            Some(number) => number,
            None => self.begin_region()?,
        };
        let bit = self.regions.region(number).free.trailing_zeros();
        let granule = number as u32 * REGION_GRANULES + bit;
        if let Err(error) = memory.commit(self.shape.granules(granule, 1)) {
            self.end_region_if_empty(number);
            return Err(error);
        }
        self.regions.region(number).free &= !(1 << bit);
        self.counts.cold_granules += 1;
        self.note(number);
        Ok(granule)
    }

    fn return_granule(&mut self, granule: u32) {
        let (number, bit) = ((granule / REGION_GRANULES) as usize, granule % REGION_GRANULES);
        let region = self.regions.region(number);
        region.free |= 1 << bit;
        region.warm |= 1 << bit;
        note(&mut self.open, &mut self.warm, number, region);
        self.idle_bytes += self.shape.granule_bytes();
    }

    /// Updates the sets of regions for one region.
    fn note(&mut self, number: usize) {
        note(&mut self.open, &mut self.warm, number, self.regions.region(number));
    }

    fn begin_region(&mut self) -> Result<usize, Error> {
        let level = self
            .shape
            .geometry
            .level_fitting(self.shape.region_bytes())
            .expect("a root holds a region");
        let chunk = self.take_chunk(level).ok_or(Error::AddressSpace {
            asked_bytes: self.shape.region_bytes(),
            reserved_bytes: self.shape.reserved_bytes(),
        })?;
        let number = self.chunks.offset(chunk) as usize / self.shape.region_bytes();
        self.regions.insert(number, Region::new(chunk));
        self.counts.regions_begun += 1;
        self.note(number);
        Ok(number)
    }

    /// A region with everything free and nothing committed becomes a buddy chunk again.
    fn end_region_if_empty(&mut self, number: usize) {
        let region = self.regions.region(number);
        if region.free != u64::MAX || region.warm != 0 {
            return;
        }
        let chunk = self.regions.remove(number).chunk;
        self.open.put(number, false);
        self.warm.put(number, false);
        self.counts.regions_ended += 1;
        self.return_chunk(chunk);
        mark("a region went back to the buddy tree");
    }

    /// Takes something out of circulation that is committed and free, at most one region's granules
    /// or one chunk.
    pub fn claim(&mut self) -> Option<Claim> {
        if let Some(KeptChunk { chunk, committed_bytes: committed, .. }) = self.kept.take_largest()
        {
            self.idle_bytes -= committed;
            self.claimed_bytes += committed;
            return Some(Claim::Chunk(chunk, committed));
        }
        let number = self.warm.first()?;
        let region = self.regions.region(number);
        let granules = region.free & region.warm;
        region.free &= !granules;
        let bytes = granules.count_ones() as usize * self.shape.granule_bytes();
        self.idle_bytes -= bytes;
        self.claimed_bytes += bytes;
        self.note(number);
        Some(Claim::Granules(number, granules))
    }

    /// The ranges of offsets that a claim is about.
    pub fn ranges(&self, claim: &Claim) -> Vec<Range<usize>> {
        match *claim {
            Claim::Chunk(chunk, committed) => {
                let end = self.chunks.offset(chunk) as usize + self.chunks.bytes(chunk);
                std::iter::once(end - committed..end).collect()
            }
            Claim::Granules(number, mut granules) => {
                let mut ranges = Vec::new();
                while granules != 0 {
                    let first = granules.trailing_zeros();
                    let count = (granules >> first).trailing_ones();
                    ranges
                        .push(self.shape.granules(number as u32 * REGION_GRANULES + first, count));
                    granules &= !span(first, count);
                }
                ranges
            }
        }
    }

    /// Puts a claim back: uncommitted, or as before if the kernel refused.
    pub fn settle(&mut self, claim: Claim, uncommitted: bool) {
        if !uncommitted {
            mark("the kernel refused to take memory back");
        }
        self.claimed_bytes -= match claim {
            Claim::Chunk(_, committed) => committed,
            Claim::Granules(_, granules) => {
                granules.count_ones() as usize * self.shape.granule_bytes()
            }
        };
        match claim {
            Claim::Chunk(chunk, _) if uncommitted => self.return_chunk(chunk),
            Claim::Chunk(chunk, committed) => {
                self.idle_bytes += committed;
                let start = self.chunks.offset(chunk) as usize;
                self.kept.put(
                    self.chunks.level(chunk),
                    KeptChunk { chunk, start, committed_bytes: committed },
                );
            }
            Claim::Granules(number, granules) => {
                let region = self.regions.region(number);
                region.free |= granules;
                if uncommitted {
                    region.warm &= !granules;
                } else {
                    self.idle_bytes += granules.count_ones() as usize * self.shape.granule_bytes();
                }
                self.note(number);
                self.end_region_if_empty(number);
            }
        }
    }
}

/// [`Pool::note`] for a caller that has the region.
#[inline]
fn note(open_set: &mut Set, warm_set: &mut Set, number: usize, region: &mut Region) {
    let (open, warm) = (region.free != 0, region.free & region.warm != 0);
    let (was_open, was_warm) = std::mem::replace(&mut region.noted, (open, warm));
    if open != was_open {
        open_set.put(number, open);
    }
    if warm != was_warm {
        warm_set.put(number, warm);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
