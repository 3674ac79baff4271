//! What an arena has and uses, counted on demand, so that allocating counts nothing.

use super::Arena;
use std::iter::Sum;
use std::ops::AddAssign;

/// An arena's bytes, all 0 before its first allocation. `owned = committed + uncommitted`,
/// `committed = used + free + deallocated + overhead`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(test, feature = "serde"), derive(serde::Serialize, serde::Deserialize))]
pub struct ArenaStatistics {
    /// Chunks.
    pub chunks: usize,
    /// Of all chunks.
    pub owned_bytes: usize,
    /// Of these, committed bytes.
    pub committed_bytes: usize,
    /// In blocks, rounding and alignment included; blocks too small to be kept when they were given
    /// back too.
    pub used_bytes: usize,
    /// Still to be bumped through: in the current chunk, and in chunks kept by a reset.
    pub free_bytes: usize,
    /// In free blocks: given back, or left over in retired chunks.
    pub deallocated_bytes: usize,
    /// How many free blocks those are.
    pub deallocated_blocks: usize,
    /// The arena's head, its chunks' links, and the table of its free blocks.
    pub overhead_bytes: usize,
}

impl AddAssign for ArenaStatistics {
    fn add_assign(&mut self, other: ArenaStatistics) {
        let ArenaStatistics {
            chunks,
            owned_bytes,
            committed_bytes,
            used_bytes,
            free_bytes,
            deallocated_bytes,
            deallocated_blocks,
            overhead_bytes,
        } = other;
        self.chunks += chunks;
        self.owned_bytes += owned_bytes;
        self.committed_bytes += committed_bytes;
        self.used_bytes += used_bytes;
        self.free_bytes += free_bytes;
        self.deallocated_bytes += deallocated_bytes;
        self.deallocated_blocks += deallocated_blocks;
        self.overhead_bytes += overhead_bytes;
    }
}

impl Sum for ArenaStatistics {
    fn sum<I: Iterator<Item = ArenaStatistics>>(all: I) -> ArenaStatistics {
        all.fold(ArenaStatistics::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

impl Arena {
    /// Counts the arena's bytes; takes time in proportion to its chunks and free blocks.
    pub fn statistics(&self) -> ArenaStatistics {
        let head = self.head();
        if head.debug() {
            return self.statistics_checked();
        }
        if head.is_empty() {
            return ArenaStatistics::default();
        }
        let line_bytes = self.shared().shape.line_bytes();
        let mut statistics =
            ArenaStatistics { overhead_bytes: size_of_val(head), ..ArenaStatistics::default() };
        for (list, first) in [head.current.get(), head.spare.get()].into_iter().enumerate() {
            let mut top = first;
            while top != 0 {
                let chunk = self.chunk(top);
                let committed = chunk.committed_lines() as usize * line_bytes;
                statistics.chunks += 1;
                statistics.owned_bytes += chunk.lines as usize * line_bytes;
                statistics.committed_bytes += committed;
                statistics.overhead_bytes += chunk.link_bytes();
                if list == 1 {
                    statistics.free_bytes += committed - chunk.link_bytes();
                } else if top == first {
                    statistics.free_bytes +=
                        head.cursor.get().addr() - self.true_floor(&chunk).addr();
                }
                top = chunk.other;
            }
        }
        statistics.overhead_bytes += head.free.table_bytes();
        head.free.each(|(_, bytes)| {
            statistics.deallocated_blocks += 1;
            statistics.deallocated_bytes += bytes;
        });
        let elsewhere =
            statistics.free_bytes + statistics.deallocated_bytes + statistics.overhead_bytes;
        statistics.used_bytes = statistics.committed_bytes - elsewhere;
        statistics
    }
}
