//! The places of the pool's own memory: committed, and in no chunk of an arena.

use super::Pool;
use super::shape::{GRANULE_LINES, REGION_GRANULES};
use std::ops::Range;

/// A range of offsets that no arena has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vacant {
    /// A region, with any content; the other ranges may lie in one.
    Region(Range<usize>),
    /// Free lines of a granule in use.
    Lines(Range<usize>),
    /// Free granules, committed; they may be on their way to the kernel.
    Granules(Range<usize>),
    /// The committed part of a large chunk that nobody uses.
    Chunk(Range<usize>),
}

impl Pool {
    /// All of the pool's memory, each region before its content.
    pub fn vacant(&self) -> Vec<Vacant> {
        let mut vacant = Vec::new();
        for (number, region) in self.regions.iter() {
            let first = number as u32 * REGION_GRANULES;
            vacant.push(Vacant::Region(self.shape.granules(first, REGION_GRANULES)));
            // Nobody uses a claimed granule, and it is still committed.
            let idle = region.warm;
            vacant.extend(
                runs(idle)
                    .map(|(bit, count)| Vacant::Granules(self.shape.granules(first + bit, count))),
            );
            for (bit, granule) in
                (0..).zip(&region.granules).filter(|(bit, _)| (region.free | idle) >> bit & 1 == 0)
            {
                let line = (first + bit) * GRANULE_LINES;
                let bytes = |(from, count): (u32, u32)| {
                    self.shape.line_offset(line + from)..self.shape.line_offset(line + from + count)
                };
                vacant.extend(runs(granule.free_lines).map(|run| Vacant::Lines(bytes(run))));
            }
        }
        vacant.extend(self.kept.iter().map(|(level, kept)| {
            let end = kept.start + self.shape.geometry.bytes(level);
            Vacant::Chunk(end - kept.committed_bytes..end)
        }));
        vacant
    }
}

/// Runs of ones: beginning and length of each.
fn runs(mut bits: u64) -> impl Iterator<Item = (u32, u32)> {
    let mut before = 0;
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let zeros = bits.trailing_zeros();
        let ones = (bits >> zeros).trailing_ones();
        let run = (before + zeros, ones);
        before += zeros + ones;
        bits = bits.checked_shr(zeros + ones).unwrap_or(0);
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn runs_are_whole() {
        assert_eq!(runs(0).count(), 0);
        assert_eq!(runs(u64::MAX).collect::<Vec<_>>(), [(0, 64)]);
        assert_eq!(
            runs(0b1011_0001 | 1 << 63).collect::<Vec<_>>(),
            [(0, 1), (4, 2), (7, 1), (63, 1)]
        );
    }
}
