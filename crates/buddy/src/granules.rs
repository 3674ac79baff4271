//! The commit mask: the committed granules of a reserved range, one bit each.
//!
//! A granule is the unit of committing memory and giving it back. The mask is the truth about
//! committed memory. A chunk's own committed length may lag behind, because chunks smaller than a
//! granule share one.

/// The committed granules of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitMask {
    words: Vec<u64>,
    granules: usize,
    granule_log2: u32,
    committed: usize,
}

/// Granules `from..to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    from: usize,
    to: usize,
}

impl CommitMask {
    /// A range of `bytes`, uncommitted, in granules of `granule_bytes`, a power of two.
    ///
    /// # Panics
    /// The granule is no power of two, or the range not made of whole granules.
    pub fn new(bytes: usize, granule_bytes: usize) -> CommitMask {
        assert!(
            granule_bytes.is_power_of_two(),
            "a granule of {granule_bytes} bytes is no power of two"
        );
        assert!(
            bytes.is_multiple_of(granule_bytes),
            "{bytes} bytes are not whole granules of {granule_bytes}"
        );
        let granules = bytes / granule_bytes;
        CommitMask {
            words: vec![0; granules.div_ceil(64)],
            granules,
            granule_log2: granule_bytes.trailing_zeros(),
            committed: 0,
        }
    }

    /// Bytes of a granule.
    #[inline]
    pub fn granule_bytes(&self) -> usize {
        1 << self.granule_log2
    }

    /// Bytes of the whole range.
    pub fn bytes(&self) -> usize {
        self.granules << self.granule_log2
    }

    /// Committed bytes of the whole range.
    #[inline]
    pub fn committed_bytes(&self) -> usize {
        self.committed << self.granule_log2
    }

    /// Committed bytes of the granules that the `bytes` at `offset` touch.
    pub fn committed_in(&self, offset: usize, bytes: usize) -> usize {
        self.count(self.run(offset, bytes)) << self.granule_log2
    }

    /// Whether the byte at `offset` lies in a committed granule.
    #[inline]
    pub fn is_committed(&self, offset: usize) -> bool {
        let granule = offset >> self.granule_log2;
        self.words[granule / 64] >> (granule % 64) & 1 == 1
    }

    /// Marks the granules that the `bytes` at `offset` touch as committed; returns the growth in
    /// committed bytes.
    pub fn commit(&mut self, offset: usize, bytes: usize) -> usize {
        let run = self.run(offset, bytes);
        let grown = run.to - run.from - self.count(run);
        self.fill(run, true);
        self.committed += grown;
        grown << self.granule_log2
    }

    /// Marks the granules wholly inside the `bytes` at `offset` as uncommitted; returns the
    /// decrease in committed bytes.
    pub fn uncommit(&mut self, offset: usize, bytes: usize) -> usize {
        let from = offset.div_ceil(self.granule_bytes());
        let run = Run { from, to: ((offset + bytes) >> self.granule_log2).max(from) };
        self.check(run);
        let shrunk = self.count(run);
        self.fill(run, false);
        self.committed -= shrunk;
        shrunk << self.granule_log2
    }

    /// The stretches of the `bytes` at `offset` with all granules committed (or none), as offset,
    /// bytes and state.
    pub fn stretches(
        &self,
        offset: usize,
        bytes: usize,
    ) -> impl Iterator<Item = (usize, usize, bool)> + '_ {
        let run = self.run(offset, bytes);
        let mut at = run.from;
        std::iter::from_fn(move || {
            if at == run.to {
                return None;
            }
            let (from, state) = (at, self.bit(at));
            while at < run.to && self.bit(at) == state {
                at += 1;
            }
            Some((from << self.granule_log2, (at - from) << self.granule_log2, state))
        })
    }

    fn bit(&self, granule: usize) -> bool {
        self.words[granule / 64] >> (granule % 64) & 1 == 1
    }

    /// The granules that a range touches.
    fn run(&self, offset: usize, bytes: usize) -> Run {
        let from = offset >> self.granule_log2;
        let to = if bytes == 0 { from } else { (offset + bytes).div_ceil(self.granule_bytes()) };
        let run = Run { from, to };
        self.check(run);
        run
    }

    fn check(&self, run: Run) {
        assert!(run.to <= self.granules, "granule {} of {}", run.to, self.granules);
    }

    fn count(&self, run: Run) -> usize {
        masks(run).map(|(word, mask)| (self.words[word] & mask).count_ones() as usize).sum()
    }

    fn fill(&mut self, run: Run, committed: bool) {
        for (word, mask) in masks(run) {
            if committed {
                self.words[word] |= mask;
            } else {
                self.words[word] &= !mask;
            }
        }
    }
}

/// The mask's words of a run, each with its bits.
fn masks(run: Run) -> impl Iterator<Item = (usize, u64)> {
    let words = if run.from == run.to { 0..0 } else { run.from / 64..run.to.div_ceil(64) };
    words.map(move |word| {
        let low = run.from.saturating_sub(word * 64).min(63);
        let high = (run.to - word * 64).min(64);
        (word, (u64::MAX >> (64 - (high - low))) << low)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GRANULE_BYTES: usize = 16;

    #[test]
    fn a_range_touches_every_granule_it_has_a_byte_in_and_gives_back_only_whole_ones() {
        let mut mask = CommitMask::new(16 * 200, GRANULE_BYTES);
        assert_eq!(mask.commit(15, 2), 32);
        assert_eq!(mask.commit(0, 64), 32);
        assert_eq!(
            (
                mask.committed_bytes(),
                mask.committed_in(16, 1),
                mask.is_committed(63),
                mask.is_committed(64)
            ),
            (64, 16, true, false)
        );
        assert_eq!(
            mask.uncommit(1, 46),
            16,
            "the first granule keeps a byte that was not named, the third one too"
        );
        assert_eq!(
            mask.stretches(0, 80).collect::<Vec<_>>(),
            [(0, 16, true), (16, 16, false), (32, 32, true), (64, 16, false)]
        );
        assert_eq!((mask.commit(40, 0), mask.uncommit(33, 5), mask.committed_in(64, 0)), (0, 0, 0));
    }

    #[test]
    #[should_panic(expected = "granule 201 of 200")]
    fn a_range_beyond_the_end_is_refused() {
        CommitMask::new(16 * 200, GRANULE_BYTES).commit(16 * 200, 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_mask_is_what_a_list_of_bytes_says(steps in proptest::collection::vec((any::<bool>(), 0usize..3200, 0usize..900), 0..40)) {
            let mut mask = CommitMask::new(16 * 200, GRANULE_BYTES);
            let mut model = [false; 200];
            for (commit, offset, bytes) in steps {
                let bytes = bytes.min(3200 - offset);
                let touched = |granule: usize| if commit {
                    granule * 16 < offset + bytes && granule * 16 + 16 > offset && bytes > 0
                } else {
                    granule * 16 >= offset && granule * 16 + 16 <= offset + bytes
                };
                let mut changed = 0;
                for (granule, state) in model.iter_mut().enumerate() {
                    if touched(granule) && std::mem::replace(state, commit) != commit {
                        changed += 16;
                    }
                }
                let told = if commit { mask.commit(offset, bytes) } else { mask.uncommit(offset, bytes) };
                prop_assert_eq!(told, changed);
                prop_assert_eq!(mask.committed_bytes(), model.iter().filter(|state| **state).count() * 16);
                let ends: usize = mask.stretches(0, 3200).map(|(from, bytes, state)| {
                    assert!((from..from + bytes).step_by(16).all(|byte| mask.is_committed(byte) == state && model[byte / 16] == state));
                    bytes
                }).sum();
                prop_assert_eq!(ends, 3200);
            }
        }
    }
}
