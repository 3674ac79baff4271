//! The pool's invariants, and its contents counted from the books.

use super::Pool;
use super::bits::longest_run;
use super::shape::{GRANULE_LINES, REGION_GRANULES};
use std::collections::BTreeSet;

/// Where the committed bytes of a pool are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Granules in use, shared by small chunks.
    pub shared_granules: usize,
    /// Free lines in those.
    pub free_lines: usize,
    /// Granules that are free and committed.
    pub warm_granules: usize,
    /// Committed bytes of large chunks in use.
    pub large_bytes: usize,
    /// Committed bytes of large chunks that nobody uses.
    pub kept_bytes: usize,
    /// Bytes of the books themselves, about.
    pub table_bytes: usize,
    /// Roots in use or free.
    pub roots: usize,
}

impl Census {
    /// Both together.
    pub fn plus(self, other: Census) -> Census {
        Census {
            shared_granules: self.shared_granules + other.shared_granules,
            free_lines: self.free_lines + other.free_lines,
            warm_granules: self.warm_granules + other.warm_granules,
            large_bytes: self.large_bytes + other.large_bytes,
            kept_bytes: self.kept_bytes + other.kept_bytes,
            table_bytes: self.table_bytes + other.table_bytes,
            roots: self.roots + other.roots,
        }
    }
}

impl Pool {
    /// Counts everything.
    pub fn census(&self) -> Census {
        let mut census = Census {
            large_bytes: self.large_bytes,
            roots: self.chunks.areas(),
            ..Census::default()
        };
        for (_, region) in self.regions.iter() {
            census.warm_granules += (region.free & region.warm).count_ones() as usize;
            for (bit, granule) in region.granules.iter().enumerate() {
                if region.free >> bit & 1 == 0 && region.warm >> bit & 1 == 0 {
                    census.shared_granules += 1;
                    census.free_lines += granule.free_lines.count_ones() as usize;
                }
            }
        }
        census.kept_bytes = self.kept.iter().map(|(_, kept)| kept.committed_bytes).sum();
        census.table_bytes = size_of::<Pool>()
            + self.regions.table_bytes()
            + self.chunks.headers() * heaplab_buddy::Chunks::HEADER_BYTES
            + self.alone.table_bytes()
            + self.seeds.table_bytes();
        census
    }

    /// Free chunks by level, largest first: size, how many, how many of their bytes are committed.
    pub fn free_chunks(&self) -> Vec<(usize, usize, usize)> {
        let levels = self.shape.geometry.all();
        let kept = |level| self.kept.iter().filter(move |(of, _)| *of == level);
        levels
            .map(|level| {
                let committed = kept(level).map(|(_, kept)| kept.committed_bytes).sum();
                (
                    self.shape.geometry.bytes(level),
                    self.chunks.free_chunks_of(level) + kept(level).count(),
                    committed,
                )
            })
            .collect()
    }

    /// Checks every invariant; the error names the broken one. No claim may be under way.
    pub fn check_deep(&mut self) -> Result<(), String> {
        self.chunks.check_deep().map_err(|broken| broken.to_string())?;
        let numbers: Vec<usize> = self.regions.iter().map(|(number, _)| number).collect();
        let mut listed = BTreeSet::new();
        for (length, granule) in self.holes.walk(&mut self.regions) {
            let longest = longest_run(self.regions.free_lines(granule));
            if longest > length || !listed.insert(granule) {
                return Err(format!(
                    "granule {granule}: in the list of runs of {length}, longest run {longest}"
                ));
            }
        }
        for number in numbers {
            let region = self.regions.get(number).expect("listed");
            if region.warm & !region.free != 0 {
                return Err(format!(
                    "region {number}: a granule in use counts as free and committed"
                ));
            }
            if region.noted != (region.free != 0, region.free & region.warm != 0) {
                return Err(format!("region {number}: the sets of regions say {:?}", region.noted));
            }
            for (bit, granule) in region.granules.iter().enumerate() {
                let (free, id) =
                    (region.free >> bit & 1 == 1, number as u32 * REGION_GRANULES + bit as u32);
                let longest = longest_run(granule.free_lines);
                // Of a full one the list may not know yet.
                let wrong =
                    if free { listed.contains(&id) } else { longest != 0 && !listed.contains(&id) };
                if free != (longest == GRANULE_LINES) || wrong {
                    return Err(format!(
                        "granule {id}: free {free}, longest run {longest}, listed {}",
                        listed.contains(&id)
                    ));
                }
            }
        }
        let alone_bytes = self.alone.bytes(self.shape.line_bytes());
        if self.large_bytes == 0 && alone_bytes > 0 {
            return Err(format!("{} chunks have one block, and none is in use", self.alone.len()));
        }
        for (level, kept) in self.kept.iter() {
            let header = (self.chunks.level(kept.chunk), self.chunks.offset(kept.chunk) as usize);
            if header != (level, kept.start) {
                return Err(format!(
                    "a kept chunk of level {} at {}: its header says {header:?}",
                    level.0, kept.start
                ));
            }
        }
        let census = self.census();
        if self.claimed_bytes != 0 {
            return Err(format!("{} bytes are claimed, and nobody reclaims", self.claimed_bytes));
        }
        let idle = census.warm_granules * self.shape.granule_bytes() + census.kept_bytes;
        if idle != self.idle_bytes {
            return Err(format!("idle bytes: {idle} in the books, {} counted", self.idle_bytes));
        }
        Ok(())
    }

    /// Committed bytes by the books; equals the reservation's own count.
    pub fn committed_bytes(&self) -> usize {
        let census = self.census();
        (census.shared_granules + census.warm_granules) * self.shape.granule_bytes()
            + census.large_bytes
            + census.kept_bytes
    }
}
