//! The lower left edge of a variant's points: the least space within a time, and the least time
//! within a space. It compares variants whose points no curve describes: most generational
//! collectors, and ranges that end before the curve bends.
//!
//! Along the settings space rises and time falls, or the reverse. Where noise breaks this order,
//! neighbours become their mean (isotonic regression by pooling adjacent violators; Ayer and others
//! 1955): the least of noisy points would lie below the truth, the more so the noisier. Between
//! neighbours the edge follows a straight line of logarithms, so that the ratio of two edges does
//! not depend on the unit. Beyond a variant's points nothing is known, so ranges end there.

use crate::fit::Point;
use crate::sample::Resampled;

/// The axis of time in [`Edge`].
pub const TIME: usize = 0;
/// The axis of space in [`Edge`].
pub const SPACE: usize = 1;

/// Logarithms of time and space along the edge, space rising and time falling.
#[derive(Clone, Debug)]
pub struct Edge(Vec<[f64; 2]>);

impl Edge {
    /// The edges of all resamplings of these points, which are in the order of settings. The whole
    /// decides in which direction space rises.
    pub fn each(points: Resampled<Vec<Point>>) -> Resampled<Edge> {
        let rises = |pair: &[Point]| pair[1].space.total_cmp(&pair[0].space) as i32;
        let is_rising = points.whole.windows(2).map(rises).sum::<i32>() >= 0;
        points.map(|points| Edge::new(points, is_rising))
    }

    fn new(points: &[Point], is_rising: bool) -> Edge {
        let mut ordered: Vec<&Point> = points.iter().collect();
        if !is_rising {
            ordered.reverse();
        }
        let times: Vec<f64> = ordered.iter().map(|point| -point.time.ln()).collect();
        let spaces: Vec<f64> = ordered.iter().map(|point| point.space.ln()).collect();
        let both = rising(&times).into_iter().zip(rising(&spaces));
        Edge(both.map(|(time, space)| [-time, space]).collect())
    }

    /// The logarithm of the least value of the other axis within `place` of `axis`. To the left of
    /// all points the leftmost one counts: a resampling moves it a little. `None` without points.
    pub fn least(&self, axis: usize, place: f64) -> Option<f64> {
        let first = self.0.iter().min_by(|a, b| a[axis].total_cmp(&b[axis]))?;
        let place = place.ln().max(first[axis]);
        let corners = self.0.iter().filter(|point| point[axis] <= place).map(|at| at[1 - axis]);
        let crossings = self.0.windows(2).filter_map(|pair| {
            let [from, to] = [pair[0], pair[1]];
            let share = (place - from[axis]) / (to[axis] - from[axis]);
            (0.0..=1.0)
                .contains(&share)
                .then(|| from[1 - axis] + share * (to[1 - axis] - from[1 - axis]))
        });
        corners.chain(crossings).min_by(f64::total_cmp)
    }

    /// The range of `axis` in which more of it buys less of the other: from the least of `axis` to
    /// the place of the other one's least.
    pub fn range(&self, axis: usize) -> Option<(f64, f64)> {
        let least = |of: usize| self.0.iter().min_by(move |a, b| a[of].total_cmp(&b[of]));
        Some((least(axis)?[axis].exp(), least(1 - axis)?[axis].exp()))
    }
}

/// The nearest values that never fall.
fn rising(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut pool = (*value, 1);
        while let Some(last) = pools.pop_if(|last| last.0 > pool.0) {
            let count = last.1 + pool.1;
            pool = ((last.0 * last.1 as f64 + pool.0 * pool.1 as f64) / count as f64, count);
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|(mean, count)| std::iter::repeat_n(*mean, *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(points: &[(f64, f64)]) -> Edge {
        let point =
            |(time, space): &(f64, f64)| Point { time: *time, space: *space, garbage: None };
        Edge::each(Resampled::exact(points.iter().map(point).collect())).whole
    }

    #[test]
    fn the_edge_is_the_least_within_a_time_or_a_space() {
        for points in [[(8.0, 1.0), (4.0, 2.0), (1.0, 8.0)], [(1.0, 8.0), (4.0, 2.0), (8.0, 1.0)]] {
            let edge = edge(&points);
            let within = |axis, place| edge.least(axis, place).unwrap().exp();
            assert!((within(TIME, 16.0) - 1.0).abs() < 1e-9, "nothing is less than the least");
            assert!((within(TIME, 32_f64.sqrt()) - 2_f64.sqrt()).abs() < 1e-9, "halfway");
            assert!((within(TIME, 4.0) - 2.0).abs() < 1e-9);
            assert!((within(TIME, 0.5) - 8.0).abs() < 1e-9, "left of all the leftmost counts");
            assert!((within(SPACE, 2.0) - 4.0).abs() < 1e-9);
            let (from, to) = edge.range(TIME).unwrap();
            assert!((from - 1.0).abs() < 1e-9 && (to - 8.0).abs() < 1e-9);
        }
        assert_eq!((edge(&[]).least(TIME, 1.0), edge(&[]).range(SPACE)), (None, None));
    }

    #[test]
    fn what_breaks_the_order_becomes_a_mean() {
        assert_eq!(rising(&[1.0, 3.0, 2.0, 5.0, 4.0, 3.0]), [1.0, 2.5, 2.5, 4.0, 4.0, 4.0]);
        assert_eq!(rising(&[3.0, 2.0, 1.0]), [2.0; 3]);
        assert!(rising(&[]).is_empty());
    }
}
