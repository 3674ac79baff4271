//! The committed granules, as ranges. A row of a recording costs the same for a range of any
//! length, so a damaged or crafted recording costs no more memory than it has rows.

use std::collections::BTreeMap;

/// Most granules accepted as committed at a time: 256 GB at HotSpot's 64 KB.
pub const GRANULES_LIMIT: u64 = 1 << 22;

/// Granules by number: address over size.
#[derive(Clone, Debug, Default)]
pub struct Granules {
    /// Where ranges begin, and where they end. They neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
    count: u64,
}

impl Granules {
    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether this one is among them.
    pub fn contains(&self, granule: u64) -> bool {
        self.ranges.range(..=granule).next_back().is_some_and(|(_, end)| granule < *end)
    }

    /// How many there are from `from` to before `to`.
    pub fn count_within(&self, from: u64, to: u64) -> u64 {
        let first = self.ranges.range(..=from).next_back().map_or(from, |(start, _)| *start);
        self.ranges
            .range(first..to.max(first))
            .map(|(start, end)| (*end).min(to).saturating_sub((*start).max(from)))
            .sum()
    }

    /// All ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges.iter().flat_map(|(start, end)| *start..*end)
    }

    /// Those from `from` to before `to` are committed; false, and nothing is done, where there
    /// would be too many.
    pub fn insert(&mut self, from: u64, to: u64) -> bool {
        if from >= to || to - from > GRANULES_LIMIT - self.count {
            return from >= to;
        }
        self.remove(from, to);
        self.count += to - from;
        let (mut from, mut to) = (from, to);
        if let Some((start, _)) =
            self.ranges.range(..from).next_back().filter(|(_, end)| **end == from)
        {
            from = *start;
        }
        if let Some(end) = self.ranges.remove(&to) {
            to = end;
        }
        self.ranges.insert(from, to);
        true
    }

    /// Those from `from` to before `to` are not.
    pub fn remove(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let first = self.ranges.range(..=from).next_back().map_or(from, |(start, _)| *start);
        let touched: Vec<(u64, u64)> = self
            .ranges
            .range(first..to)
            .filter(|(_, end)| **end > from)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (start, end) in touched {
            self.ranges.remove(&start);
            self.count -= end.min(to) - start.max(from);
            if start < from {
                self.ranges.insert(start, from);
            }
            if end > to {
                self.ranges.insert(to, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_are_sets(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..60)) {
            let (mut granules, mut set) = (Granules::default(), BTreeSet::new());
            for (insert, from, length) in steps {
                if insert {
                    prop_assert!(granules.insert(from, from + length));
                    set.extend(from..from + length);
                } else {
                    granules.remove(from, from + length);
                    set.retain(|granule| !(from..from + length).contains(granule));
                }
                prop_assert_eq!(granules.iter().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!((granules.count(), granules.is_empty()), (set.len() as u64, set.is_empty()));
                prop_assert_eq!(granules.count_within(from, from + length), set.range(from..from + length).count() as u64);
                prop_assert!((0..80).all(|granule| granules.contains(granule) == set.contains(&granule)));
                // Touching ranges are one.
                prop_assert!(granules.ranges.iter().zip(granules.ranges.iter().skip(1)).all(|((_, end), (start, _))| end < start));
            }
        }
    }

    #[test]
    fn there_is_a_limit() {
        let mut granules = Granules::default();
        assert!(granules.insert(0, GRANULES_LIMIT) && !granules.insert(1 << 40, (1 << 40) + 1));
        assert_eq!(granules.count(), GRANULES_LIMIT);
    }
}
