//! Values before and after that are not pairs: the shift of Hodges and Lehmann (1963) with the
//! interval of the rank-sum test of Mann and Whitney (1947).

use crate::{Estimate, median};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::generated;

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
}
