//! Paired comparisons over few blocks: the signed-rank test of Wilcoxon (1945), the shift estimate
//! of Hodges and Lehmann (1963) with its interval, a percentile bootstrap over blocks (Efron 1979),
//! and the false discovery rate of Benjamini and Hochberg (1995).
//!
//! Distribution-free, because the times of a machine shared with others are anything but normal.
//! Golden values from scipy stand in the tests (`tests/golden.py` prints them).

use crate::results::Estimate;
use statrs::distribution::{ContinuousCDF, Normal};

/// Up to this many differences without ties the signed-rank distribution is exact, as in scipy.
const EXACT_MAX: usize = 50;

/// Two-sided p of the hypothesis that `differences` are symmetric about zero. Zeroes are dropped,
/// ties share their mean rank; exact without ties up to 50 values, otherwise the normal
/// approximation with tie correction. `None` without a value that is not zero.
pub fn wilcoxon(differences: &[f64]) -> Option<f64> {
    let mut values: Vec<f64> =
        differences.iter().copied().filter(|value| *value != 0.0 && value.is_finite()).collect();
    if values.is_empty() {
        return None;
    }
    values.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let n = values.len();
    let (mut positive, mut ties, mut begin) = (0.0, 0.0, 0);
    while begin < n {
        let end = begin
            + values[begin..].iter().take_while(|value| value.abs() == values[begin].abs()).count();
        let mean_rank = (begin + 1 + end) as f64 / 2.0;
        positive +=
            mean_rank * values[begin..end].iter().filter(|value| **value > 0.0).count() as f64;
        let tied = (end - begin) as f64;
        ties += tied * tied * tied - tied;
        begin = end;
    }
    let count = n as f64;
    let total = count * (count + 1.0) / 2.0;
    if n <= EXACT_MAX && ties == 0.0 && n == differences.len() {
        let tail = signed_rank_tail(n, positive.min(total - positive) as usize);
        return Some((2.0 * tail).min(1.0));
    }
    let variance = count * (count + 1.0) * (2.0 * count + 1.0) / 24.0 - ties / 48.0;
    let z = (positive - total / 2.0) / variance.sqrt();
    Some((2.0 * standard_normal(-z.abs())).min(1.0))
}

/// P(T <= `at_most`) of the signed-rank statistic of `n` differences without ties.
fn signed_rank_tail(n: usize, at_most: usize) -> f64 {
    signed_rank_probabilities(n).iter().take(at_most + 1).sum()
}

/// P(T = k) for every k: each rank is added or not, with equal chance.
fn signed_rank_probabilities(n: usize) -> Vec<f64> {
    let total = n * (n + 1) / 2;
    let mut probabilities = vec![0.0; total + 1];
    probabilities[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..=total).rev() {
            let with = if sum >= rank { probabilities[sum - rank] } else { 0.0 };
            probabilities[sum] = (probabilities[sum] + with) / 2.0;
        }
    }
    probabilities
}

fn standard_normal(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// The median of all means of two differences, and the interval at `confidence` that the
/// signed-rank test gives. With fewer differences than the confidence needs (6 for 95 %) the
/// interval is all there is: the smallest and the largest. Takes memory for the differences alone:
/// the means of 100,000 of them would take 40 GB.
pub fn hodges_lehmann(differences: &[f64], confidence: f64) -> Option<Estimate> {
    let n = differences.len();
    if n == 0 {
        return None;
    }
    let mut sorted = differences.to_vec();
    sorted.sort_by(f64::total_cmp);
    let walsh = |rank| walsh_mean(&sorted, rank);
    let total = n * (n + 1) / 2;
    let value = if total % 2 == 1 {
        walsh(total / 2)
    } else {
        (walsh(total / 2 - 1) + walsh(total / 2)) / 2.0
    };
    let below = critical(n, (1.0 - confidence) / 2.0);
    Some(Estimate { value, low: walsh(below), high: walsh(total - 1 - below) })
}

/// The mean of two of the `sorted` values (or of one with itself) with so many means before it in
/// order. Searches the bits of a float and counts the means up to each, so that the result is one
/// of the means.
fn walsh_mean(sorted: &[f64], rank: usize) -> f64 {
    // Keys of floats in the order of `total_cmp`.
    let of_key = |key: u64| f64::from_bits(if key >> 63 == 1 { key ^ 1 << 63 } else { !key });
    let is_beyond = |key: u64| {
        let value = of_key(key);
        let (mut count, mut end) = (0, sorted.len());
        for (first, one) in sorted.iter().enumerate() {
            while end > first && ((one + sorted[end - 1]) / 2.0).total_cmp(&value).is_gt() {
                end -= 1;
            }
            if end <= first {
                break;
            }
            count += end - first;
        }
        count > rank
    };
    let (mut low, mut high) = (0, u64::MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_beyond(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    of_key(low)
}

/// Number of sorted Walsh means to leave out at each end: the largest k with P(T <= k) <= `tail`;
/// 0 if there is no such k.
fn critical(n: usize, tail: f64) -> usize {
    if n > EXACT_MAX {
        let count = n as f64;
        let deviation = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
        let middle = count * (count + 1.0) / 4.0;
        return (middle + Normal::standard().inverse_cdf(tail) * deviation).floor().max(0.0)
            as usize;
    }
    let mut sum = 0.0;
    let within = signed_rank_probabilities(n).into_iter().take_while(|probability| {
        sum += *probability;
        sum <= tail
    });
    within.count().saturating_sub(1)
}

/// The shift from unpaired `before` to `after`: the median of all differences of one of each
/// (Hodges and Lehmann 1963), with the interval of the rank-sum test of Mann and Whitney (1947),
/// and that interval's confidence. With too few values for `confidence` (4 on each side for 95 %)
/// the interval goes from the smallest to the largest difference, and the returned confidence is
/// lower: 0.9 for three on each side. `None`: one of them is empty.
pub fn shift_apart(before: &[f64], after: &[f64], confidence: f64) -> Option<(Estimate, f64)> {
    let mut differences: Vec<f64> =
        before.iter().flat_map(|from| after.iter().map(move |to| to - from)).collect();
    let value = median(&differences)?;
    differences.sort_by(f64::total_cmp);
    let probabilities = rank_sum_probabilities(before.len(), after.len());
    let tail = (1.0 - confidence) / 2.0;
    let (mut below, mut left_out, mut next) = (0, 0.0, probabilities[0]);
    while next <= tail {
        left_out = next;
        below += 1;
        next += probabilities[below];
    }
    // The first difference always stays; one value on each side says nothing of their spread.
    let (below, left_out) = if below == 0 { (0, probabilities[0]) } else { (below - 1, left_out) };
    let (low, high) = (differences[below], differences[differences.len() - 1 - below]);
    Some((Estimate { value, low, high }, (1.0 - 2.0 * left_out).max(0.0)))
}

/// P(U = u) for every u of the rank-sum statistic of `n` and `m` values without ties: of the
/// orders of all values, those in which u pairs have the second sample's value first.
fn rank_sum_probabilities(n: usize, m: usize) -> Vec<f64> {
    // Row i: the distribution for the first i values of the first sample and all so far of the
    // other.
    let mut rows = vec![vec![1.0]; n + 1];
    for second in 1..=m {
        for first in 1..=n {
            // The largest of all is of the second sample, or of the first and then beats them all.
            let all = (first + second) as f64;
            let (of_second, of_first) = (second as f64 / all, first as f64 / all);
            let mut row = vec![0.0; first * second + 1];
            for (u, p) in rows[first].iter().enumerate() {
                row[u] += p * of_second;
            }
            for (u, p) in rows[first - 1].iter().enumerate() {
                row[u + second] += p * of_first;
            }
            rows[first] = row;
        }
    }
    rows.pop().unwrap_or_default()
}

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut values = values.to_vec();
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

/// `statistic` of `values` with a percentile interval over `resamples` resamplings, which depend on
/// `seed` alone.
pub fn bootstrap(
    values: &[f64],
    statistic: fn(&[f64]) -> Option<f64>,
    confidence: f64,
    resamples: usize,
    seed: u64,
) -> Option<Estimate> {
    bootstrap_apart(&[values], |samples| statistic(&samples[0]), confidence, resamples, seed)
}

/// [`bootstrap`] for a `statistic` of several unpaired samples, each resampled by itself: the
/// difference of two quartiles.
pub fn bootstrap_apart(
    samples: &[&[f64]],
    statistic: impl Fn(&[Vec<f64>]) -> Option<f64>,
    confidence: f64,
    resamples: usize,
    seed: u64,
) -> Option<Estimate> {
    let mut drawn: Vec<Vec<f64>> = samples.iter().map(|values| values.to_vec()).collect();
    let value = statistic(&drawn)?;
    let mut random = Random(seed);
    let mut statistics: Vec<f64> = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        for (values, sample) in samples.iter().zip(&mut drawn) {
            for slot in sample {
                *slot = values[random.below(values.len() as u64) as usize];
            }
        }
        statistics.extend(statistic(&drawn));
    }
    statistics.sort_by(f64::total_cmp);
    let at = |share: f64| statistics[((statistics.len() - 1) as f64 * share).round() as usize];
    let tail = (1.0 - confidence) / 2.0;
    Some(Estimate { value, low: at(tail), high: at(1.0 - tail) })
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

/// Numbers that depend on the seed alone: splitmix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; the bias of the multiplication is below 2^-40 for the bounds used
    /// here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of tests/golden.py.
    fn generated(n: usize, shift: f64, mut state: u64) -> Vec<f64> {
        (0..n)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 11) as f64 / 2_f64.powi(53) - 0.5 + shift
            })
            .collect()
    }

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() <= 1e-9 * expected.abs().max(1e-3),
            "{found} is not {expected}"
        );
    }

    #[test]
    fn each_mean_of_two_is_found_without_a_list_of_them() {
        for n in [1, 2, 3, 10, 61] {
            // Some values stand twice; zeros have both signs.
            let mut data = generated(n, 0.1, 5);
            data.extend_from_slice(&data.clone()[..n / 2]);
            data.extend([0.0, -0.0]);
            data.sort_by(f64::total_cmp);
            let mut means: Vec<f64> = (0..data.len())
                .flat_map(|one| (one..data.len()).map(move |other| (one, other)))
                .map(|(one, other)| (data[one] + data[other]) / 2.0)
                .collect();
            means.sort_by(f64::total_cmp);
            for (rank, mean) in means.iter().enumerate() {
                assert_eq!(walsh_mean(&data, rank).to_bits(), mean.to_bits(), "{n}: {rank}");
            }
        }
        let many = generated(100_000, 0.05, 3);
        let Estimate { value, low, high } = hodges_lehmann(&many, 0.95).unwrap();
        assert!(low < 0.05 && 0.05 < high && high - low < 0.01 && low < value && value < high);
    }

    /// Values printed by tests/golden.py with scipy 1.17.1.
    #[test]
    fn signed_rank_and_shift_agree_with_scipy() {
        for (data, p, shift) in [
            (generated(10, 0.2, 1), 0.048828125, 0.20051128279500446),
            (generated(25, 0.05, 2), 1.0, -0.0006674164054862319),
            (generated(80, 0.06, 3), 0.010006453250838022, 0.08823292878253287),
        ] {
            close(wilcoxon(&data).unwrap(), p);
            close(hodges_lehmann(&data, 0.95).unwrap().value, shift);
        }
        let ties = [1.0, 1.0, 2.0, 2.0, 2.0, -1.0, 3.0, -2.0, 0.0, 4.0, 4.0, -3.0, 5.0, 1.0];
        close(wilcoxon(&ties).unwrap(), 0.05747074469647427);
        assert_eq!(wilcoxon(&[0.0, 0.0]), None);
    }

    #[test]
    fn the_false_discovery_rate_agrees_with_scipy() {
        let adjusted = benjamini_hochberg(&[0.01, 0.04, 0.03, 0.005, 0.8, 0.05]);
        for (found, expected) in adjusted.into_iter().zip([0.03, 0.06, 0.06, 0.03, 0.8, 0.06]) {
            close(found, expected);
        }
    }

    #[test]
    fn the_bootstrap_is_near_scipys_and_depends_on_the_seed_alone() {
        let data = generated(80, 0.06, 3);
        let estimate = bootstrap(&data, median, 0.95, 4_000, 7).unwrap();
        assert_eq!(Some(estimate), bootstrap(&data, median, 0.95, 4_000, 7));
        // scipy's interval is -0.0081 to 0.2023; both are random.
        assert!(
            (estimate.low + 0.0081).abs() < 0.03 && (estimate.high - 0.2023).abs() < 0.03,
            "{estimate:?}"
        );
    }

    /// Values printed by tests/golden.py with scipy 1.17.1 and numpy 2.4.6.
    #[test]
    fn a_difference_of_lower_quartiles_is_near_scipys() {
        let (data, others) = (generated(80, 0.06, 3), generated(60, 0.0, 4));
        let estimate = bootstrap_apart(
            &[&data, &others],
            |of| Some(lower_quartile(&of[0])? - lower_quartile(&of[1])?),
            0.95,
            4_000,
            7,
        )
        .unwrap();
        close(estimate.value, 0.09742303611689687);
        // scipy's interval is -0.0342 to 0.2514; both are random.
        assert!(
            (estimate.low + 0.0342).abs() < 0.03 && (estimate.high - 0.2514).abs() < 0.03,
            "{estimate:?}"
        );
        assert_eq!(lower_quartile(&[4.0, 1.0, 3.0, 2.0]), Some(1.75));
        assert_eq!(lower_quartile(&[]), None);
    }

    /// The critical values of the signed-rank test are in every table: 0 for n = 6, 8 for 10, 52
    /// for 20 (two-sided, 5 %).
    #[test]
    fn intervals_leave_out_what_the_tables_say() {
        assert_eq!(
            (critical(5, 0.025), critical(6, 0.025), critical(10, 0.025), critical(20, 0.025)),
            (0, 0, 8, 52)
        );
        // The interval excludes zero exactly where the test rejects it.
        for seed in 0..200 {
            let data = generated(12, 0.2, seed);
            let interval = hodges_lehmann(&data, 0.95).unwrap();
            assert_eq!(
                wilcoxon(&data).unwrap() <= 0.05,
                interval.low > 0.0 || interval.high < 0.0,
                "seed {seed}: {interval:?}"
            );
        }
    }

    /// The critical values of the rank-sum test are in every table: 0 for 4 and 4, 2 for 5 and 5, 8
    /// for 7 and 7, 23 for 10 and 10 (two-sided, 5 %).
    #[test]
    fn shifts_of_what_is_not_paired_leave_out_what_the_tables_say() {
        for (n, critical) in [(4, 0), (5, 2), (7, 8), (10, 23)] {
            let probabilities = rank_sum_probabilities(n, n);
            let sum = |to: usize| probabilities[..=to].iter().sum::<f64>();
            assert!(sum(critical) <= 0.025 && sum(critical + 1) > 0.025, "{n}");
            assert!((sum(n * n) - 1.0).abs() < 1e-12);
        }
        let (shift, confidence) = shift_apart(&[1.0, 2.0, 3.0], &[11.0, 12.0, 15.0], 0.95).unwrap();
        assert_eq!((shift.value, shift.low, shift.high), (10.0, 8.0, 14.0));
        assert!((confidence - 0.9).abs() < 1e-12, "3 of 3 above has a chance of 2 in 20");
        assert_eq!(shift_apart(&[5.0], &[7.0], 0.95).unwrap().1, 0.0);
        assert_eq!(shift_apart(&[], &[7.0], 0.95), None);
    }

    /// The interval holds as often as stated, and excludes zero exactly if all orders of the values
    /// agree.
    #[test]
    fn shifts_of_what_is_not_paired_hold_as_often_as_they_say() {
        let (mut held, all) = (0, 2_000);
        for seed in 0..all {
            let values = generated(12, 0.0, seed);
            let (shift, confidence) = shift_apart(&values[..6], &values[6..], 0.95).unwrap();
            assert!(confidence >= 0.95);
            held += u64::from(shift.low <= 0.0 && shift.high >= 0.0);
            let (back, _) = shift_apart(&values[6..], &values[..6], 0.95).unwrap();
            assert_eq!((back.low, back.high), (-shift.high, -shift.low));
        }
        assert!(held as f64 >= 0.945 * all as f64 && held < all, "{held} of {all}");
    }

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut items: Vec<u32> = (0..50).collect();
        Random(3).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
