//! One buffer's growth.
//!
//! A chain keeps its first sizes, its last ones and sums: a buffer may grow a million times. The
//! last sizes decide how it grows (`strategy.rs`), because rounding and minimum capacities no
//! longer blur them.

use crate::growth::{GrowthStrategy, Through};
use crate::strategy::strategy;

const HEAD: usize = 6;
const TAIL: usize = 16;

/// Facts about a step's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// They were copied.
    Copied,
    /// The block moved; the allocator may have had the kernel move it.
    Remapped,
    /// No move was seen.
    NotSeen,
}

/// A buffer that grows.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) through: Through,
    pub(crate) steps: u64,
    /// Bytes of all its requests, the first included.
    pub(crate) cumulative: u64,
    pub(crate) copied_upper: u64,
    pub(crate) copied_moved: u64,
    pub(crate) remapped: u64,
    /// Steps after which the smaller block was freed at once; of buffers grown by hand.
    pub(crate) prompt_steps: u64,
    head: [u64; HEAD],
    tail: [u64; TAIL],
}

impl Chain {
    pub(crate) fn new(through: Through, first: u64) -> Chain {
        let mut chain = Chain {
            through,
            steps: 0,
            cumulative: first,
            copied_upper: 0,
            copied_moved: 0,
            remapped: 0,
            prompt_steps: 0,
            head: [0; HEAD],
            tail: [0; TAIL],
        };
        chain.note(first);
        chain
    }

    fn note(&mut self, size: u64) {
        if let Some(place) = self.head.get_mut(self.steps as usize) {
            *place = size;
        }
        self.tail[self.steps as usize % TAIL] = size;
    }

    pub(crate) fn last(&self) -> u64 {
        self.tail[self.steps as usize % TAIL]
    }

    /// The buffer grew to `size`.
    pub(crate) fn grow(&mut self, size: u64, moved: Move) {
        let before = self.last();
        self.copied_upper = self.copied_upper.saturating_add(before);
        match moved {
            Move::Copied => self.copied_moved = self.copied_moved.saturating_add(before),
            Move::Remapped => self.remapped = self.remapped.saturating_add(before),
            Move::NotSeen => {}
        }
        self.cumulative = self.cumulative.saturating_add(size);
        self.steps += 1;
        self.note(size);
    }

    /// The buffer was replaced by one of `size`, and freed then, perhaps at once.
    pub(crate) fn grow_by_hand(&mut self, size: u64, at_once: bool) {
        self.prompt_steps += u64::from(at_once);
        self.grow(size, Move::NotSeen);
    }

    /// The first size.
    pub(crate) fn first(&self) -> u64 {
        self.head[0]
    }

    /// The last sizes, in order.
    fn tail(&self) -> Vec<u64> {
        let first = (self.steps + 1).saturating_sub(TAIL as u64);
        (first..=self.steps).map(|index| self.tail[index as usize % TAIL]).collect()
    }

    /// First and last sizes, and how many are left out after how many.
    pub(crate) fn sample(&self) -> (Vec<u64>, Option<(usize, u64)>) {
        let sizes = self.steps + 1;
        let tail = self.tail();
        if sizes <= TAIL as u64 {
            return (tail, None);
        }
        let shown = HEAD.min((sizes - TAIL as u64) as usize);
        let left_out = sizes - TAIL as u64 - shown as u64;
        let sample = self.head[..shown].iter().copied().chain(tail).collect();
        (sample, (left_out > 0).then_some((shown, left_out)))
    }

    /// What doubling from the first size to at least the last would ask for.
    pub(crate) fn doubling(&self) -> Doubling {
        doubling(self.first(), self.last())
    }

    /// How it grows.
    pub(crate) fn strategy(&self) -> GrowthStrategy {
        strategy(&self.tail())
    }
}

/// A buffer that doubles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Doubling {
    pub(crate) steps: u64,
    pub(crate) cumulative: u64,
    pub(crate) copied: u64,
}

fn doubling(first: u64, last: u64) -> Doubling {
    let mut size = first.max(1);
    let mut result = Doubling { steps: 0, cumulative: size, copied: 0 };
    while size < last {
        result.copied = result.copied.saturating_add(size);
        size = size.saturating_mul(2);
        result.cumulative = result.cumulative.saturating_add(size);
        result.steps += 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_doubling() {
        assert_eq!(
            doubling(4096, 1 << 20),
            Doubling { steps: 8, cumulative: 2_093_056, copied: 2_093_056 - (1 << 20) }
        );
    }

    #[test]
    fn a_sample_shows_both_ends() {
        let mut chain = Chain::new(Through::Realloc, 1);
        (2..=5).for_each(|size| chain.grow(size, Move::NotSeen));
        assert_eq!(chain.sample(), (vec![1, 2, 3, 4, 5], None));
        (6..=100).for_each(|size| chain.grow(size, Move::NotSeen));
        let (sample, gap) = chain.sample();
        assert_eq!(sample.len() as u64 + gap.unwrap().1, 100);
        assert_eq!((sample[5], sample[6], sample.last()), (6, 85, Some(&100)));
        assert_eq!(gap, Some((6, 78)));
    }
}
