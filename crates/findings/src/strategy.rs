//! Finds out from a buffer's last sizes how it grows.
//!
//! A buffer that grows by a factor has steps that grow with it. The logarithms of steps and sizes
//! answer that first. If they do not fit, the steps are constant or follow the need. Comparing the
//! errors of a constant step and a constant ratio does not work: over the last sixteen of a
//! thousand random steps both err alike, and chance decides. The ratio alone does not work either:
//! n linear steps end at 1 + 1/n, so eighteen of them look like growth by 1.06 to 1.25.

use crate::growth::GrowthStrategy;

/// Up to this spread, relative to its mean, a step counts as constant.
const EVEN: f64 = 0.1;
/// Predictions that err by more than this say nothing.
const WILD: f64 = 0.5;
/// Two words: such small steps are element by element, even if they are equal.
const TINY: f64 = 16.0;
/// Sizes with less total growth are too close to one another to tell a factor from a step.
const LEAST_RATIO: f64 = 1.25;
/// Steps grow with the size where it explains this part of how they differ. Among fifteen random
/// steps that happens once in 100,000 times.
const EXPLAINED: f64 = 0.75;
/// With fewer steps a fitted line is meaningless.
const LEAST_STEPS: usize = 4;

/// How a series of growing sizes grows.
pub(crate) fn strategy(sizes: &[u64]) -> GrowthStrategy {
    let pairs: Vec<(f64, f64)> = sizes
        .windows(2)
        .filter(|pair| pair[0] > 0)
        .map(|pair| (pair[0] as f64, pair[1] as f64))
        .collect();
    if pairs.len() < 2 {
        return GrowthStrategy::Irregular;
    }
    let n = pairs.len() as f64;
    let mean_step = pairs.iter().map(|(a, b)| b - a).sum::<f64>() / n;
    let linear = error(&pairs, |size| size + mean_step);
    let (factor, exponential) = factor(&pairs);
    let spread = (pairs.iter().map(|(a, b)| (b - a - mean_step).powi(2)).sum::<f64>() / n).sqrt()
        / mean_step;
    if linear.min(exponential) > WILD {
        GrowthStrategy::Irregular
    } else if exponential < linear && factor > 1.0 && steps_grow(&pairs) {
        GrowthStrategy::Exponential { factor }
    } else if spread > EVEN || mean_step <= TINY {
        GrowthStrategy::JustEnough { mean_step_bytes: mean_step }
    } else {
        GrowthStrategy::Linear { step_bytes: mean_step.round() as u64 }
    }
}

/// The error of sizes predicted from the sizes before them, as a share of the sizes (root of the
/// mean square).
fn error(pairs: &[(f64, f64)], predict: impl Fn(f64) -> f64) -> f64 {
    let squares = pairs.iter().map(|(a, b)| ((predict(*a) - b) / b).powi(2));
    (squares.sum::<f64>() / pairs.len() as f64).sqrt()
}

/// The factor that fits best, and its error: the mean ratio, unless the slope of next size over
/// size errs clearly less. A header beside a doubling payload (24, 40, 72, 136) hides the 2 from
/// the ratios, not from the slope.
fn factor(pairs: &[(f64, f64)]) -> (f64, f64) {
    let ratio = (pairs.iter().map(|(a, b)| (b / a).ln()).sum::<f64>() / pairs.len() as f64).exp();
    let of_ratio = error(pairs, |size| size * ratio);
    let (slope, intercept) = line(pairs.iter().map(|(a, b)| (*a, *b, b.powi(-2))));
    let of_slope = error(pairs, |size| size * slope + intercept);
    if pairs.len() >= LEAST_STEPS && slope > 1.0 && of_slope < of_ratio / 2.0 {
        (slope, of_slope)
    } else {
        (ratio, of_ratio)
    }
}

/// Whether steps grow with the size, and not by chance.
fn steps_grow(pairs: &[(f64, f64)]) -> bool {
    let (Some((first, _)), Some((_, last))) = (pairs.first(), pairs.last()) else { return false };
    if last / first < LEAST_RATIO {
        return false;
    }
    let logarithms: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (a.ln(), (b - a).ln())).collect();
    let n = logarithms.len() as f64;
    let mean = logarithms.iter().map(|(_, step)| step).sum::<f64>() / n;
    let (slope, intercept) = line(logarithms.iter().map(|(size, step)| (*size, *step, 1.0)));
    let left: f64 =
        logarithms.iter().map(|(size, step)| (size * slope + intercept - step).powi(2)).sum();
    let all: f64 = logarithms.iter().map(|(_, step)| (step - mean).powi(2)).sum();
    // Two parameters always explain a part, and most of it for few points.
    slope > 0.0 && left / (n - 2.0) < (1.0 - EXPLAINED) * all / (n - 1.0)
}

/// Slope and intercept of the line through weighted points, by least squares.
fn line(points: impl Iterator<Item = (f64, f64, f64)> + Clone) -> (f64, f64) {
    let sum = |of: fn((f64, f64, f64)) -> f64| points.clone().map(of).sum::<f64>();
    let weight = sum(|(_, _, w)| w);
    let (mean_x, mean_y) = (sum(|(x, _, w)| x * w) / weight, sum(|(_, y, w)| y * w) / weight);
    let (mut xx, mut xy) = (0.0, 0.0);
    for (x, y, w) in points.clone() {
        xx += w * (x - mean_x).powi(2);
        xy += w * (x - mean_x) * (y - mean_y);
    }
    let slope = xy / xx;
    (slope, mean_y - slope * mean_x)
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

    /// Capacities from `first` on, each made of the one before.
    fn grown(first: u64, count: usize, next: impl Fn(u64) -> u64) -> Vec<u64> {
        std::iter::successors(Some(first), |size| Some(next(*size))).take(count).collect()
    }

    /// The last sixteen: a chain keeps that many.
    fn tail(sizes: &[u64]) -> &[u64] {
        &sizes[sizes.len().saturating_sub(16)..]
    }

    #[test]
    fn published_growth_is_recognised() {
        // A payload that doubles with a header of 8 (SQLite's strings).
        assert!((exponential(&[16, 24, 40, 72, 136]) - 2.0).abs() < 0.05);
        // CPython's list: new + new / 8 + 6, rounded down to four entries of eight bytes.
        let list = grown(32, 40, |size| {
            let new = size / 8 + 1;
            ((new + (new >> 3) + 6) & !3) * 8
        });
        assert!((exponential(&list[24..]) - 1.125).abs() < 0.02);
        assert!(
            (exponential(&list[..16]) - 1.125).abs() < 0.03,
            "its constant and its rounding weigh most in the beginning"
        );
        assert!((exponential(&[208, 408, 808, 1608, 3208, 6408]) - 2.0).abs() < 0.05);
        let linear: Vec<u64> = (1..=18).map(|step| step * 4096).collect();
        assert_eq!(strategy(&linear), GrowthStrategy::Linear { step_bytes: 4096 });
        let bytes: Vec<u64> = (1..=18).collect();
        assert_eq!(strategy(&bytes), GrowthStrategy::JustEnough { mean_step_bytes: 1.0 });
        let needed = [100, 130, 210, 215, 260, 300, 390, 395, 480];
        assert!(
            matches!(strategy(&needed), GrowthStrategy::JustEnough { .. }),
            "{:?}",
            strategy(&needed)
        );
    }

    #[test]
    fn growth_of_other_libraries_is_recognised_at_every_length() {
        const MIB: u64 = 1 << 20;
        // Go's slices of eight bytes: twice, from 256 elements on a quarter and 192 more, in whole
        // pages here.
        let go = grown(64, 40, |size| {
            if size < 2048 { size * 2 } else { (size + (size + 6144) / 4).next_multiple_of(1024) }
        });
        // folly's fbvector: twice up to a page and from 128 KiB on, one and a half times between
        // them.
        let folly = grown(64, 24, |size| {
            if (4096..=131_072).contains(&size) { (size * 3).div_ceil(2) } else { size * 2 }
        });
        for sizes in [go, folly] {
            for length in 5..=sizes.len() {
                let factor = exponential(tail(&sizes[..length]));
                assert!((1.24..2.05).contains(&factor), "{factor} {:?}", &sizes[..length]);
            }
        }
        // nsTArray: twice, from 8 MiB on an eighth more, in whole MiB.
        let array = grown(16, 50, |size| {
            if size < 8 * MIB { size * 2 } else { (size + size / 8).next_multiple_of(MIB) }
        });
        assert!((5..30).all(|length| exponential(tail(&array[..length])) > 1.4));
        assert!((36..50).all(|length| (exponential(tail(&array[..length])) - 1.125).abs() < 0.03));
    }

    /// Fifty thousand series of the same numbers on every machine (xorshift), most of them too
    /// short to be ruled out by their ratio.
    #[test]
    fn steps_of_random_size_are_hardly_ever_a_factor() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |most: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % most + 1
        };
        for (steps, allowed) in [(5, 250), (8, 25), (15, 2), (30, 2), (60, 2)] {
            let exponential = (0..10_000)
                .filter(|_| {
                    let mut size = 0;
                    let sizes: Vec<u64> = (0..=steps)
                        .map(|_| {
                            size += random(300);
                            size
                        })
                        .collect();
                    matches!(strategy(tail(&sizes)), GrowthStrategy::Exponential { .. })
                })
                .count();
            assert!(exponential <= allowed, "{exponential} of 10,000 with {steps} steps");
        }
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

        /// A text that is appended to and takes the needed size.
        #[test]
        fn random_steps_are_what_was_needed(steps in prop::collection::vec(1..=300u64, 120..2_000), scale in 1..1_000u64) {
            let sizes: Vec<u64> = steps.iter().scan(0, |size, step| { *size += step * scale; Some(*size) }).collect();
            let found = strategy(tail(&sizes));
            let even = matches!(found, GrowthStrategy::JustEnough { .. } | GrowthStrategy::Linear { .. });
            prop_assert!(even, "{found:?} {:?}", tail(&sizes));
        }

        /// The needed size and a constant: a new capacity whenever the old one is too small.
        #[test]
        fn the_need_and_a_constant_is_no_factor(pieces in prop::collection::vec(1..=300u64, 400..2_000), spare in 1..=512u64) {
            let (mut need, mut sizes) = (0, vec![spare]);
            for piece in pieces {
                need += piece;
                if sizes.last().is_some_and(|capacity| need > *capacity) {
                    sizes.push(need + spare);
                }
            }
            prop_assume!(sizes.len() > 100);
            let found = strategy(tail(&sizes));
            prop_assert!(!matches!(found, GrowthStrategy::Exponential { .. }), "{found:?} {:?}", tail(&sizes));
        }

        #[test]
        fn any_series_has_an_answer(sizes in prop::collection::vec(any::<u64>(), 0..20)) {
            strategy(&sizes);
        }
    }
}
