//! The owners of a process's mapped addresses, as ranges that never overlap.

use std::collections::BTreeMap;

/// The owner of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The program, from this stack (as the recorder's node, cut later).
    Program(u32),
    /// The allocator that was recorded.
    Allocator,
}

/// The ranges of one process that have an owner, or another property.
#[derive(Clone, Debug)]
pub struct Claims<O = Owner> {
    /// Start to end and owner.
    ranges: BTreeMap<u64, (u64, O)>,
}

impl<O> Default for Claims<O> {
    fn default() -> Claims<O> {
        Claims { ranges: BTreeMap::new() }
    }
}

impl<O: Copy> Claims<O> {
    /// `start..end` is `owner`'s from now on.
    pub fn claim(&mut self, start: u64, end: u64, owner: O) {
        if start < end {
            self.release(start, end);
            self.ranges.insert(start, (end, owner));
        }
    }

    /// `start..end` is no longer mapped.
    pub fn release(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        // Cuts the range that begins before and reaches in; its part behind remains.
        if let Some((&before, &(before_end, owner))) = self.ranges.range(..start).next_back()
            && before_end > start
        {
            self.ranges.insert(before, (start, owner));
            if before_end > end {
                self.ranges.insert(end, (before_end, owner));
                return;
            }
        }
        let inside: Vec<u64> = self.ranges.range(start..end).map(|(start, _)| *start).collect();
        for at in inside {
            if let Some((range_end, owner)) = self.ranges.remove(&at)
                && range_end > end
            {
                self.ranges.insert(end, (range_end, owner));
            }
        }
    }

    /// `start..end` in pieces with one owner, or none, each.
    pub fn pieces(&self, start: u64, end: u64) -> Vec<(u64, u64, Option<O>)> {
        let mut pieces = Vec::new();
        let first = self.ranges.range(..=start).next_back().map_or(start, |(first, _)| *first);
        let mut at = start;
        for (&range_start, &(range_end, owner)) in self.ranges.range(first..end) {
            let (from, to) = (range_start.max(at), range_end.min(end));
            if from >= to {
                continue;
            }
            if at < from {
                pieces.push((at, from, None));
            }
            pieces.push((from, to, Some(owner)));
            at = to;
        }
        if at < end {
            pieces.push((at, end, None));
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_an_array_of_pages(operations in prop::collection::vec((any::<bool>(), 0_u64..40, 0_u64..40, 1_u32..5), 0..60), window in (0_u64..40, 1_u64..40)) {
            let mut claims: Claims = Claims::default();
            let mut pages = [None; 80];
            for (is_claim, start, length, stack) in operations {
                let owner = if stack == 4 { Owner::Allocator } else { Owner::Program(stack) };
                if is_claim {
                    claims.claim(start, start + length, owner);
                } else {
                    claims.release(start, start + length);
                }
                let value = is_claim.then_some(owner);
                pages[start as usize..(start + length) as usize].fill(value);
            }
            for (page, owner) in pages.iter().enumerate() {
                let at = page as u64;
                prop_assert_eq!(claims.pieces(at, at + 1), vec![(at, at + 1, *owner)]);
            }
            let (start, end) = (window.0, window.0 + window.1);
            let pieces = claims.pieces(start, end);
            let mut at = start;
            for (from, to, owner) in pieces {
                prop_assert_eq!(from, at);
                prop_assert!(from < to);
                prop_assert!(pages[from as usize..to as usize].iter().all(|page| *page == owner));
                at = to;
            }
            prop_assert_eq!(at, end);
        }
    }
}
