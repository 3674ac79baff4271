//! By what the groups of a list are sorted.

use crate::{Blocks, DarkMatter};
use std::cmp::Reverse;

/// What is the largest of the first group of each list: the choices of `dmd.py --sort-by`, under
/// its names too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum SortBy {
    /// Usable bytes: with slop.
    #[default]
    Usable,
    /// Requested bytes.
    #[cfg_attr(feature = "clap", value(alias = "req"))]
    Requested,
    /// Usable bytes beyond the requested ones.
    Slop,
    /// Number of blocks.
    #[cfg_attr(feature = "clap", value(alias = "num-blocks"))]
    Blocks,
}

impl DarkMatter {
    /// Sorts the groups of each list; those of a difference by what changed most, whatever its
    /// sign.
    #[must_use]
    pub fn sorted_by(mut self, by: SortBy) -> DarkMatter {
        for list in [&mut self.unreported, &mut self.once, &mut self.twice] {
            list.groups.sort_by_key(|group| {
                Reverse((by.of(group.blocks), SortBy::Usable.of(group.blocks)))
            });
        }
        self.of_nothing.sort_by_key(|(times, _)| Reverse(times.unsigned_abs()));
        self
    }
}

impl SortBy {
    fn of(self, blocks: Blocks) -> u64 {
        let amount = match self {
            SortBy::Usable => blocks.usable_bytes,
            SortBy::Requested => blocks.usable_bytes.saturating_sub(blocks.slop_bytes),
            SortBy::Slop => blocks.slop_bytes,
            SortBy::Blocks => blocks.count,
        };
        amount.unsigned_abs()
    }
}
