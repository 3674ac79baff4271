//! Decides whether the varied value has an effect. A variable that the command does not read gives
//! the same program in every setting, and a curve through such points would be a picture of noise.
//!
//! Friedman's test (1937) over the settings inside blocks, for space and for time, with the
//! correction for ties. A difference counts only if it has some size too. Collections that the
//! runtime reports need no test.

use crate::fit::Point;
use heaplab_statistics::median;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Chance of seeing an effect where there is none, for each of time and space.
const SIGNIFICANCE: f64 = 0.01;
/// Largest over smallest median from which a difference counts.
const SPREAD: f64 = 1.02;
/// The same ratio with too few blocks for the test.
const SPREAD_WITHOUT_TEST: f64 = 1.10;

/// Whether settings differ; `settings` by setting, then by block.
pub fn is_seen(settings: &[&[Option<Point>]]) -> bool {
    let garbage: Vec<f64> = settings
        .iter()
        .flat_map(|values| values.iter().flatten().filter_map(|point| point.garbage))
        .filter(|garbage| garbage.is_finite())
        .collect();
    is_seen_in(settings, |point| point.space)
        || is_seen_in(settings, |point| point.time)
        || spread(&garbage) > SPREAD_WITHOUT_TEST
}

/// Whether one value differs between settings.
pub fn is_seen_in(settings: &[&[Option<Point>]], value: fn(&Point) -> f64) -> bool {
    let blocks = settings.first().map_or(0, |values| values.len());
    let whole: Vec<Vec<f64>> = (0..blocks)
        .filter_map(|block| {
            settings.iter().map(|values| values[block].as_ref().map(value)).collect()
        })
        .collect();
    if whole.len() * 2 >= blocks.max(1) {
        return differ(&whole);
    }
    // Too few blocks have all settings: some fail often.
    let medians = settings
        .iter()
        .filter_map(|values| median(&values.iter().flatten().map(value).collect::<Vec<_>>()));
    spread(&medians.collect::<Vec<_>>()) > SPREAD_WITHOUT_TEST
}

fn spread(values: &[f64]) -> f64 {
    let (least, most) = values.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
        (least.min(*value), most.max(*value))
    });
    if least > 0.0 && most > 0.0 { most / least } else { 1.0 }
}

/// Whether values differ; `blocks`: one value a setting in each.
fn differ(blocks: &[Vec<f64>]) -> bool {
    let settings = blocks.first().map_or(0, Vec::len);
    let medians: Vec<f64> = (0..settings)
        .filter_map(|setting| {
            median(&blocks.iter().map(|block| block[setting]).collect::<Vec<_>>())
        })
        .collect();
    if !can_tell(blocks.len(), settings) {
        return spread(&medians) > SPREAD_WITHOUT_TEST;
    }
    spread(&medians) > SPREAD && friedman(blocks).is_some_and(|p| p <= SIGNIFICANCE)
}

/// Whether the test can find a difference: its p value is small enough if all blocks agree on the
/// order. Three blocks of six settings are too few, seven of two are enough.
fn can_tell(blocks: usize, settings: usize) -> bool {
    let freedom = settings.saturating_sub(1) as f64;
    let largest = blocks as f64 * freedom;
    ChiSquared::new(freedom).is_ok_and(|chi| chi.sf(largest) <= SIGNIFICANCE)
}

/// The p value of Friedman's test; `None`: in every block all values are equal.
fn friedman(blocks: &[Vec<f64>]) -> Option<f64> {
    let (n, k) = (blocks.len() as f64, blocks.first()?.len() as f64);
    let (mut sums, mut ties) = (vec![0.0; blocks[0].len()], 0.0);
    for block in blocks {
        let mut order: Vec<usize> = (0..block.len()).collect();
        order.sort_by(|a, b| block[*a].total_cmp(&block[*b]));
        let mut begin = 0;
        while begin < order.len() {
            let end = begin
                + order[begin..]
                    .iter()
                    .take_while(|index| block[**index] == block[order[begin]])
                    .count();
            let rank = (begin + 1 + end) as f64 / 2.0;
            order[begin..end].iter().for_each(|index| sums[*index] += rank);
            let tied = (end - begin) as f64;
            ties += tied.powi(3) - tied;
            begin = end;
        }
    }
    let sum: f64 = sums.iter().map(|sum| (sum - n * (k + 1.0) / 2.0).powi(2)).sum();
    let scale = n * k * (k + 1.0) / 12.0 - ties / (12.0 * (k - 1.0));
    (scale > 0.0).then(|| ChiSquared::new(k - 1.0).map(|chi| chi.sf(sum / scale)).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_statistics::Random;

    /// Expects scipy 1.17's result: scipy.stats.friedmanchisquare([1, 2, 3, 4, 5], [2, 3, 1, 6, 7],
    /// [3, 3, 5, 8, 9]) gives p = 0.02144839925588932.
    #[test]
    fn friedman_agrees_with_scipy() {
        let columns =
            [[1.0, 2.0, 3.0, 4.0, 5.0], [2.0, 3.0, 1.0, 6.0, 7.0], [3.0, 3.0, 5.0, 8.0, 9.0]];
        let blocks: Vec<Vec<f64>> =
            (0..5).map(|block| columns.iter().map(|column| column[block]).collect()).collect();
        let p = friedman(&blocks).unwrap();
        assert!((p - 0.02144839925588932).abs() < 1e-9, "{p}");
        assert_eq!(friedman(&[vec![1.0, 1.0], vec![2.0, 2.0]]), None);
    }

    #[test]
    fn a_large_effect_is_seen_in_few_blocks_too() {
        for (blocks, settings) in [(1, 2), (3, 2), (3, 5), (3, 6), (3, 7), (6, 2), (7, 2)] {
            let seen = |factor: f64| {
                let points: Vec<Vec<Option<Point>>> = (0..settings)
                    .map(|setting| {
                        let point = |block: i32| Point {
                            time: 1.0 + 0.01 * f64::from((block + setting) % 3),
                            space: 1.0 + (factor - 1.0) * f64::from(setting),
                            garbage: None,
                        };
                        (0..blocks).map(|block| Some(point(block))).collect()
                    })
                    .collect();
                is_seen(&points.iter().map(Vec::as_slice).collect::<Vec<_>>())
            };
            assert!(seen(1.5), "{blocks} blocks of {settings}");
            assert!(!seen(1.0), "{blocks} blocks of {settings}");
        }
        assert!(!can_tell(3, 6) && can_tell(3, 7) && !can_tell(6, 2) && can_tell(7, 2));
    }

    #[test]
    fn noise_is_no_effect_and_a_slope_is_one() {
        let seen = |slope: f64| {
            let mut seen = 0;
            for seed in 0..200 {
                let mut random = Random(seed);
                let mut noise = || 1.0 + 0.05 * (random.below(1_000_000) as f64 / 1e6 - 0.5);
                let settings: Vec<Vec<Option<Point>>> = (0..8)
                    .map(|setting| {
                        let factor = 1.0 + slope * f64::from(setting);
                        (0..8)
                            .map(|_| {
                                Some(Point {
                                    time: noise(),
                                    space: factor * noise(),
                                    garbage: None,
                                })
                            })
                            .collect()
                    })
                    .collect();
                seen += u32::from(is_seen(&settings.iter().map(Vec::as_slice).collect::<Vec<_>>()));
            }
            seen
        };
        assert!(seen(0.0) <= 8, "{} of 200 effects where there is none", seen(0.0));
        assert_eq!(seen(0.05), 200);
    }
}
