//! One buffer's growth, and how it grows.
//!
//! A chain keeps its first sizes, its last ones and sums: a buffer may grow a million times. The strategy is told from the last sizes,
//! where rounding and minimum capacities no longer blur it: a constant step and a constant ratio are fitted, and the one
//! that predicts each size from the one before with the smaller error wins. Looking at the ratio alone would not do: n
//! linear steps end at 1 + 1/n, so that eighteen of them look like growth by 1.06 to 1.25.

use crate::{GrowthStrategy, Through};

const HEAD: usize = 6;
const TAIL: usize = 16;

/// A buffer that grows.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) through: Through,
    pub(crate) steps: u64,
    /// Bytes of all its requests, the first included.
    pub(crate) cumulative: u64,
    pub(crate) copied_upper: u64,
    pub(crate) copied_moved: u64,
    head: [u64; HEAD],
    tail: [u64; TAIL],
}

impl Chain {
    pub(crate) fn new(through: Through, first: u64) -> Chain {
        let mut chain = Chain { through, steps: 0, cumulative: first, copied_upper: 0, copied_moved: 0, head: [0; HEAD], tail: [0; TAIL] };
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
    pub(crate) fn grow(&mut self, size: u64, moved: bool) {
        let before = self.last();
        self.copied_upper = self.copied_upper.saturating_add(before);
        if moved {
            self.copied_moved = self.copied_moved.saturating_add(before);
        }
        self.cumulative = self.cumulative.saturating_add(size);
        self.steps += 1;
        self.note(size);
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
        doubling(self.head[0], self.last())
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

/// Up to this spread, relative to its mean, a step counts as constant.
const EVEN: f64 = 0.1;
/// Predictions that err by more than this say nothing.
const WILD: f64 = 0.5;
/// Two words: growth by so little at a time is element by element, however even it is.
const TINY: f64 = 16.0;

/// How a series of growing sizes grows.
pub(crate) fn strategy(sizes: &[u64]) -> GrowthStrategy {
    let pairs: Vec<(f64, f64)> = sizes.windows(2).filter(|pair| pair[0] > 0).map(|pair| (pair[0] as f64, pair[1] as f64)).collect();
    if pairs.len() < 2 {
        return GrowthStrategy::Irregular;
    }
    let n = pairs.len() as f64;
    let mean_step = pairs.iter().map(|(a, b)| b - a).sum::<f64>() / n;
    let factor = (pairs.iter().map(|(a, b)| (b / a).ln()).sum::<f64>() / n).exp();
    let error = |predict: &dyn Fn(f64) -> f64| {
        let squares = pairs.iter().map(|(a, b)| ((predict(*a) - b) / b).powi(2));
        (squares.sum::<f64>() / n).sqrt()
    };
    let linear = error(&|size| size + mean_step);
    let exponential = error(&|size| size * factor);
    let spread = (pairs.iter().map(|(a, b)| (b - a - mean_step).powi(2)).sum::<f64>() / n).sqrt() / mean_step;
    if linear.min(exponential) > WILD {
        GrowthStrategy::Irregular
    } else if exponential < linear && factor > 1.0 {
        GrowthStrategy::Exponential { factor: affine_factor(&pairs).unwrap_or(factor) }
    } else if spread > EVEN || mean_step <= TINY {
        GrowthStrategy::JustEnough { mean_step_bytes: mean_step }
    } else {
        GrowthStrategy::Linear { step_bytes: mean_step.round() as u64 }
    }
}

/// The slope of next size over size: a header beside a doubling payload (24, 40, 72, 136) hides the 2 from the ratios, not from the slope.
fn affine_factor(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let (mean_x, mean_y) = (pairs.iter().map(|pair| pair.0).sum::<f64>() / n, pairs.iter().map(|pair| pair.1).sum::<f64>() / n);
    let xx: f64 = pairs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let xy: f64 = pairs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let slope = xy / xx;
    let intercept = mean_y - slope * mean_x;
    let fits = pairs.iter().all(|(x, y)| ((slope * x + intercept - y) / y).abs() < EVEN);
    (slope.is_finite() && slope > 1.0 && fits).then_some(slope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exponential(sizes: &[u64]) -> f64 {
        match strategy(sizes) {
            GrowthStrategy::Exponential { factor } => factor,
            other => panic!("{sizes:?} is {other:?}"),
        }
    }

    #[test]
    fn published_growth_is_recognised() {
        // A payload that doubles with a header of 8 (SQLite's strings).
        assert!((exponential(&[16, 24, 40, 72, 136]) - 2.0).abs() < 0.05);
        // CPython's list: new + new / 8 + 6, rounded down to four entries of eight bytes.
        let mut entries = vec![4u64];
        while entries.len() < 40 {
            let new = entries.last().unwrap() + 1;
            entries.push((new + (new >> 3) + 6) & !3);
        }
        let list: Vec<u64> = entries[24..].iter().map(|entries| entries * 8).collect();
        assert!((exponential(&list) - 1.125).abs() < 0.02);
        assert!((exponential(&[208, 408, 808, 1608, 3208, 6408]) - 2.0).abs() < 0.05);
        let linear: Vec<u64> = (1..=18).map(|step| step * 4096).collect();
        assert_eq!(strategy(&linear), GrowthStrategy::Linear { step_bytes: 4096 });
        let bytes: Vec<u64> = (1..=18).collect();
        assert_eq!(strategy(&bytes), GrowthStrategy::JustEnough { mean_step_bytes: 1.0 });
        let needed = [100, 130, 210, 215, 260, 300, 390, 395, 480];
        assert!(matches!(strategy(&needed), GrowthStrategy::JustEnough { .. }), "{:?}", strategy(&needed));
    }

    #[test]
    fn the_documents_doubling() {
        assert_eq!(doubling(4096, 1 << 20), Doubling { steps: 8, cumulative: 2_093_056, copied: 2_093_056 - (1 << 20) });
    }

    #[test]
    fn a_sample_shows_both_ends() {
        let mut chain = Chain::new(Through::Realloc, 1);
        (2..=5).for_each(|size| chain.grow(size, false));
        assert_eq!(chain.sample(), (vec![1, 2, 3, 4, 5], None));
        (6..=100).for_each(|size| chain.grow(size, false));
        let (sample, gap) = chain.sample();
        assert_eq!(sample.len() as u64 + gap.unwrap().1, 100);
        assert_eq!((sample[5], sample[6], sample.last()), (6, 85, Some(&100)));
        assert_eq!(gap, Some((6, 78)));
    }

    proptest! {
        #[test]
        fn a_constant_factor_is_found(first in 100..10_000u64, factor in 1.08..3.0f64) {
            let sizes: Vec<u64> = (0..16).map(|step| (first as f64 * factor.powi(step)) as u64).collect();
            prop_assert!((exponential(&sizes) - factor).abs() < 0.05);
        }

        #[test]
        fn a_constant_step_is_found(first in 0..100_000u64, step in 17..100_000u64) {
            let sizes: Vec<u64> = (1..16).map(|count| first + count * step).collect();
            prop_assert_eq!(strategy(&sizes), GrowthStrategy::Linear { step_bytes: step });
        }

        #[test]
        fn any_series_has_an_answer(sizes in prop::collection::vec(any::<u64>(), 0..20)) {
            strategy(&sizes);
        }
    }
}
