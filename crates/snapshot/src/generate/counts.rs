//! How many references each object has, between the phases: a byte an object, because nearly all
//! have few.

/// A count that does not fit a byte stands in a list beside.
const ELSEWHERE: u8 = u8::MAX;

/// Counts by ordinal.
#[derive(Debug, Default)]
pub(super) struct EdgeCounts {
    small: Vec<u8>,
    /// Ordinal and count, by ordinal.
    large: Vec<(u32, u32)>,
}

impl EdgeCounts {
    pub(super) fn with_capacity(objects: usize) -> EdgeCounts {
        EdgeCounts { small: Vec::with_capacity(objects), large: Vec::new() }
    }

    /// Of the next object.
    pub(super) fn push(&mut self, count: u32) {
        let small = u8::try_from(count).unwrap_or(ELSEWHERE);
        if small == ELSEWHERE {
            self.large.push((self.small.len() as u32, count));
        }
        self.small.push(small);
    }

    /// Replaces the count of an object whose count was pushed as 0.
    pub(super) fn set(&mut self, ordinal: usize, count: u32) {
        let small = u8::try_from(count).unwrap_or(ELSEWHERE);
        if small == ELSEWHERE {
            let at = self.large.partition_point(|(other, _)| (*other as usize) < ordinal);
            self.large.insert(at, (ordinal as u32, count));
        }
        self.small[ordinal] = small;
    }

    /// All counts, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut large = self.large.iter().map(|(_, count)| *count);
        self.small.iter().map(move |small| match *small {
            ELSEWHERE => large.next().unwrap_or(0),
            small => u32::from(small),
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.small.len() + self.large.len() * size_of::<(u32, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_come_back(mut counts in prop::collection::vec(prop_oneof![0u32..9, 250u32..260, any::<u32>()], 1..200), which: prop::sample::Index) {
            let (which, set) = (which.index(counts.len()), counts[which.index(counts.len())]);
            counts[which] = 0;
            let mut kept = EdgeCounts::default();
            counts.iter().for_each(|count| kept.push(*count));
            kept.set(which, set);
            counts[which] = set;
            prop_assert_eq!(kept.iter().collect::<Vec<u32>>(), counts);
        }
    }
}
