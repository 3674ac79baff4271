//! Differences inside pairs: the signed-rank test of Wilcoxon (1945), and the shift estimate of
//! Hodges and Lehmann (1963) with the test's interval.

use crate::Estimate;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{close, generated};

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
}
