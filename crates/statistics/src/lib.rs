//! Statistics of few measurements on a machine shared with others.
//!
//! Distribution-free where possible, because times on a shared machine are anything but normal.
//!
//! - [`wilcoxon`], [`hodges_lehmann`]: differences inside pairs.
//! - [`shift_apart`]: values before and after that are not pairs.
//! - [`bootstrap`], [`bootstrap_apart`]: any statistic.
//! - [`mixed`]: ratios over several machines.
//! - [`benjamini_hochberg`]: many comparisons at once.
//! - [`Random`]: numbers that depend on a seed alone.
//!
//! Golden values from scipy and statsmodels stand in the tests (`tests/golden.py` prints them).

#![forbid(unsafe_code)]

mod apart;
mod bootstrap;
mod mixed;
mod paired;
mod random;
#[cfg(test)]
mod sample;

pub use apart::shift_apart;
pub use bootstrap::{bootstrap, bootstrap_apart};
pub use mixed::{Mixed, mixed};
pub use paired::{hodges_lehmann, wilcoxon};
pub use random::Random;

use serde::{Deserialize, Serialize};

/// A value with the range it may lie in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The best single value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of(&mut values.to_vec())
}

/// [`median`] without a copy: leaves the values in another order.
pub fn median_of(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let length = values.len();
    let (before, upper, _) = values.select_nth_unstable_by(length / 2, f64::total_cmp);
    if length % 2 == 1 {
        return Some(*upper);
    }
    let lower = before.iter().copied().max_by(f64::total_cmp)?;
    Some((lower + *upper) / 2.0)
}

/// The lower quartile, interpolated between its neighbours as by default in numpy's `quantile`;
/// `None` for no values.
pub fn lower_quartile(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = sorted.len().checked_sub(1)? as f64 / 4.0;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

/// Adjusted p values: a list cut at q holds at most a share q of false discoveries.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*b].total_cmp(&p_values[*a]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut smallest = 1.0_f64;
    for (from_largest, index) in order.into_iter().enumerate() {
        let rank = p_values.len() - from_largest;
        smallest = smallest.min(p_values[index] * p_values.len() as f64 / rank as f64);
        adjusted[index] = smallest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::close;

    #[test]
    fn the_false_discovery_rate_agrees_with_scipy() {
        let adjusted = benjamini_hochberg(&[0.01, 0.04, 0.03, 0.005, 0.8, 0.05]);
        for (found, expected) in adjusted.into_iter().zip([0.03, 0.06, 0.06, 0.03, 0.8, 0.06]) {
            close(found, expected);
        }
    }
}
