//! Percentile intervals of any statistic by resampling (Efron 1979).

use crate::{Estimate, Random};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{close, generated};
    use crate::{lower_quartile, median};

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
}
