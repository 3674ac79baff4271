//! Runs of ones in a word, and a tree of words that finds its first one.
//!
//! A granule's 64 lines and a region's 64 granules are each one word, so that "where do n free
//! lines lie side by side" is a handful of shifts. Source: H. S. Warren, "Hacker's Delight", 6-2
//! (strings of ones of a given length).

/// Beginning and length of the only run of ones; `None` if there are several runs, or none. Most
/// granules have one.
#[inline]
pub fn only_run(word: u64) -> Option<(u32, u32)> {
    let first = word.trailing_zeros();
    let ones = word.checked_shr(first)?;
    (ones & ones.wrapping_add(1) == 0).then(|| (first, ones.trailing_ones()))
}

/// Length of the longest run of ones: the longest power of two that there is, by doubling, and then
/// more, by halving.
pub fn longest_run(word: u64) -> u32 {
    match only_run(word) {
        Some((_, length)) => return length,
        None if word == 0 => return 0,
        None => {}
    }
    // Where runs of at least 2^k begin. No run is longer than 63, so that 32 is the last power.
    let mut starts_of = [word, 0, 0, 0, 0, 0];
    let mut power = 0;
    while power < 5 {
        let longer = starts_of[power] & (starts_of[power] >> (1 << power));
        if longer == 0 {
            break;
        }
        power += 1;
        starts_of[power] = longer;
    }
    let (mut starts, mut length) = (starts_of[power], 1 << power);
    while power > 0 {
        power -= 1;
        let longer = starts & (starts_of[power] >> length);
        if longer != 0 {
            starts = longer;
            length += 1 << power;
        }
    }
    length
}

/// Bit i is set where a run of at least `length` ones begins at i and goes upwards. `length` is 1
/// to 64.
pub fn starts_of_runs(mut word: u64, length: u32) -> u64 {
    let mut left = length - 1;
    // All of the steps, because whether one is needed cannot be predicted.
    for step in [1, 2, 4, 8, 16, 32] {
        let now = left.min(step);
        word &= word >> now;
        left -= now;
    }
    word
}

/// Ones at `from..from + length`, which is within a word.
pub fn span(from: u32, length: u32) -> u64 {
    if length == 0 { 0 } else { (u64::MAX >> (64 - length)) << from }
}

/// A set of small numbers that grows, and knows its smallest.
#[derive(Clone, Debug, Default)]
pub struct Set {
    /// Level 0 has one bit a number; a bit above says that the word below is not empty.
    levels: Vec<Vec<u64>>,
}

impl Set {
    /// Adds or removes `number`.
    #[inline]
    pub fn put(&mut self, number: usize, present: bool) {
        let bit = 1 << (number % 64);
        if let Some(words) = self.levels.first_mut() {
            let single = words.len() == 1;
            if let Some(word) = words.get_mut(number / 64)
                && (single || *word & !bit != 0)
            {
                // No level above has anything to change for this word.
                *word = *word & !bit | if present { bit } else { 0 };
                return;
            }
        }
        self.put_in_levels(number, present);
    }

    #[inline(never)]
    fn put_in_levels(&mut self, number: usize, present: bool) {
        let mut at = number;
        let mut level = 0;
        loop {
            if self.levels.len() <= level {
                self.levels.push(Vec::new());
                if level > 0 {
                    // The old content of the level below, before it had a second word.
                    let low = self.levels[level - 1].first().is_some_and(|word| *word != 0);
                    self.levels[level].push(u64::from(low));
                }
            }
            let words = &mut self.levels[level];
            if words.len() <= at / 64 {
                words.resize(at / 64 + 1, 0);
            }
            let word = &mut words[at / 64];
            let was = *word != 0;
            if present {
                *word |= 1 << (at % 64);
            } else {
                *word &= !(1 << (at % 64));
            }
            let changed = was != (*word != 0);
            at /= 64;
            level += 1;
            if self.levels[level - 1].len() == 1 || (!changed && self.levels.len() > level) {
                return;
            }
        }
    }

    /// The smallest number in the set.
    pub fn first(&self) -> Option<usize> {
        let mut at = 0;
        for words in self.levels.iter().rev() {
            let word = *words.get(at)?;
            if word == 0 {
                return None;
            }
            at = at * 64 + word.trailing_zeros() as usize;
        }
        (!self.levels.is_empty()).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn slow_starts(word: u64, length: u32) -> u64 {
        (0..=64 - length)
            .filter(|from| word & span(*from, length) == span(*from, length))
            .fold(0, |set, from| set | 1 << from)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 256 }))]

        #[test]
        fn runs_are_where_a_slow_search_finds_them(a: u64, b: u64, length in 1u32..=64) {
            for word in [a, a | b, a & b, !(a & b), u64::MAX, 0] {
                prop_assert_eq!(starts_of_runs(word, length), slow_starts(word, length));
                let runs: Vec<u32> = (0..64).filter(|at| word >> at & 1 == 1 && (*at == 0 || word >> (at - 1) & 1 == 0)).collect();
                prop_assert_eq!(only_run(word), (runs.len() == 1).then(|| (runs[0], word.count_ones())));
                let longest = (1..=64).rev().find(|length| slow_starts(word, *length) != 0).unwrap_or(0);
                prop_assert_eq!(longest_run(word), longest);
            }
        }

        #[test]
        fn a_set_is_what_a_tree_of_numbers_is(steps in proptest::collection::vec((0usize..400_000, any::<bool>()), 1..60)) {
            let (mut set, mut model) = (Set::default(), BTreeSet::new());
            prop_assert_eq!(set.first(), None);
            for (number, present) in steps {
                let number = if number % 3 == 0 { number % 70 } else { number };
                set.put(number, present);
                if present { model.insert(number); } else { model.remove(&number); }
                prop_assert_eq!(set.first(), model.first().copied());
            }
            while let Some(first) = model.pop_first() {
                set.put(first, false);
                prop_assert_eq!(set.first(), model.first().copied());
            }
        }
    }
}
