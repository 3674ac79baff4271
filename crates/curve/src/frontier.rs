//! The lower left edge of a variant's points: the least space within a time, and the least time
//! within a space. It compares variants whose points no curve describes: most generational
//! collectors, and ranges that end before the curve bends.
//!
//! Between neighbouring settings the edge follows a straight line of logarithms, so that the ratio
//! of two edges does not depend on the unit. Beyond a variant's points nothing is known, so ranges
//! end there.

use crate::fit::Point;

/// The axis of time in [`Edge`].
pub const TIME: usize = 0;
/// The axis of space in [`Edge`].
pub const SPACE: usize = 1;

/// Logarithms of time and space of a variant's settings, in the order of settings.
#[derive(Clone, Debug)]
pub struct Edge(Vec<[f64; 2]>);

impl Edge {
    /// The edge of these points.
    pub fn new(points: impl IntoIterator<Item = Point>) -> Edge {
        Edge(points.into_iter().map(|point| [point.time.ln(), point.space.ln()]).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(points: &[(f64, f64)]) -> Edge {
        Edge::new(points.iter().map(|(time, space)| Point {
            time: *time,
            space: *space,
            garbage: None,
        }))
    }

    #[test]
    fn the_edge_passes_by_points_that_are_worse_than_others() {
        let edge = edge(&[(8.0, 1.0), (4.0, 2.0), (5.0, 3.0), (1.0, 8.0)]);
        let within = |axis, place| edge.least(axis, place).unwrap().exp();
        assert!((within(TIME, 16.0) - 1.0).abs() < 1e-9, "nothing is less than the least");
        assert!((within(TIME, 32_f64.sqrt()) - 2_f64.sqrt()).abs() < 1e-9, "halfway");
        assert!((within(TIME, 4.0) - 2.0).abs() < 1e-9);
        assert!(within(TIME, 5.0) < 2.0, "the point (5, 3) is worse than the line beside it");
        assert!((within(TIME, 0.5) - 8.0).abs() < 1e-9, "left of all points the leftmost counts");
        assert!((within(SPACE, 2.0) - 4.0).abs() < 1e-9);
        assert_eq!(edge.range(TIME).map(|(from, to)| (from.round(), to.round())), Some((1.0, 8.0)));
        assert_eq!((Edge::new([]).least(TIME, 1.0), Edge::new([]).range(SPACE)), (None, None));
    }
}
