//! The curve of a garbage-collected program: H = b / (t - a) + c, as derived in the Jane Street
//! document. Time is affine in 1 / G and space is affine in G; G is the garbage that one collection
//! finds.
//!
//! If G is known, each half is a straight line: t = a + k / G and H = c + m G, so that b = k m. If
//! not, the hyperbola is fitted to the points directly, which is ill-conditioned: data simulated
//! with b = 400 gave 1548 directly and 399 by halves. So a, b and c stay in this crate: comparisons
//! use curves inside of the measured range.
//!
//! Residuals are relative, because disturbances grow with a run: each point weighs as the inverse
//! square of its value.

/// A setting's time, its space, and its garbage a collection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Seconds.
    pub time: f64,
    /// Bytes.
    pub space: f64,
    /// Bytes of garbage a collection; infinite: too few collections for a mean.
    pub garbage: Option<f64>,
}

impl Point {
    fn finite_garbage(&self) -> Option<f64> {
        self.garbage.filter(|garbage| garbage.is_finite())
    }
}

/// The method of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By two straight lines over the known garbage of collections.
    Halves,
    /// Directly.
    Hyperbola,
}

/// A fitted curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// Time without any collection.
    pub a: f64,
    /// The exchange between time and space.
    pub b: f64,
    /// Space of a program that collects all the time.
    pub c: f64,
    /// Time of a collection, in seconds times bytes of garbage.
    pub k: f64,
    /// Bytes of heap a byte of garbage.
    pub m: f64,
    /// The method of the fit.
    pub method: Method,
}

/// Fewest points for a curve of three parameters.
pub const POINTS_MIN: usize = 4;

impl Curve {
    /// Fits `points`: by halves over those with known garbage, if they are enough.
    pub fn fit(points: &[Point]) -> Option<Curve> {
        let told: Vec<(f64, Point)> =
            points.iter().filter_map(|point| Some((point.finite_garbage()?, *point))).collect();
        match points.len() {
            _ if told.len() >= POINTS_MIN => Curve::by_halves(&told),
            POINTS_MIN.. => Curve::directly(points),
            _ => None,
        }
    }

    fn by_halves(points: &[(f64, Point)]) -> Option<Curve> {
        let points = points.iter();
        let (a, k) =
            line(points.clone().map(|(garbage, point)| (1.0 / garbage, point.time, point.time)))?;
        let (c, m) = line(points.map(|(garbage, point)| (*garbage, point.space, point.space)))?;
        Some(Curve { a, b: k * m, c, k, m, method: Method::Halves })
    }

    /// For a fixed a the rest is linear. Searches the best a below the smallest time, ever closer
    /// to it.
    fn directly(points: &[Point]) -> Option<Curve> {
        let least = points.iter().map(|point| point.time).fold(f64::INFINITY, f64::min);
        let most = points.iter().map(|point| point.time).fold(0.0, f64::max);
        let range = most - least;
        if range <= 0.0 || least <= 0.0 {
            return None;
        }
        let at = |exponent: f64| {
            let a = least - range * 10_f64.powf(exponent);
            let (c, b) = line(
                points.iter().map(|point| (1.0 / (point.time - a), point.space, point.space)),
            )?;
            let curve = Curve { a, b, c, k: b, m: 1.0, method: Method::Hyperbola };
            let error: f64 = points
                .iter()
                .map(|point| {
                    (curve.space_at(point.time).unwrap_or(f64::MAX) / point.space - 1.0).powi(2)
                })
                .sum();
            Some((error, curve))
        };
        const STEPS: i32 = 60;
        let exponent = |step: i32| -3.0 + 5.0 * f64::from(step) / f64::from(STEPS);
        let best = (0..=STEPS)
            .filter_map(|step| Some((at(exponent(step))?.0, step)))
            .min_by(|a, b| a.0.total_cmp(&b.0))?
            .1;
        let (mut low, mut high) = (exponent(best - 1), exponent(best + 1));
        for _ in 0..40 {
            let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            match (at(left), at(right)) {
                (Some(at_left), Some(at_right)) if at_left.0 > at_right.0 => low = left,
                _ => high = right,
            }
        }
        at((low + high) / 2.0).map(|(_, curve)| curve)
    }

    /// Space at a time; `None` at or before the time that no setting reaches.
    pub fn space_at(&self, time: f64) -> Option<f64> {
        (time > self.a).then(|| self.b / (time - self.a) + self.c)
    }

    /// Time at a space; `None` at or below the space that no setting reaches.
    pub fn time_at(&self, space: f64) -> Option<f64> {
        (space > self.c).then(|| self.b / (space - self.c) + self.a)
    }

    /// The place of a point's setting on the curve: by its garbage, else by its time. `None`: the
    /// curve is of garbage, and the setting has none.
    pub fn place(&self, point: &Point) -> Option<(f64, f64)> {
        match self.method {
            Method::Halves => {
                let garbage = point.finite_garbage()?;
                Some((self.a + self.k / garbage, self.c + self.m * garbage))
            }
            Method::Hyperbola => Some((point.time, self.space_at(point.time)?)),
        }
    }

    /// Distance of points from the curve, as shares of their time and of their space (root of the
    /// mean square).
    pub fn residuals(&self, points: &[Point]) -> (f64, f64) {
        let places: Vec<(f64, f64)> = points
            .iter()
            .filter_map(|point| {
                self.place(point)
                    .map(|(time, space)| (time / point.time - 1.0, space / point.space - 1.0))
            })
            .collect();
        let mean = |of: fn(&(f64, f64)) -> f64| {
            (places.iter().map(|place| of(place).powi(2)).sum::<f64>() / places.len().max(1) as f64)
                .sqrt()
        };
        (mean(|place| place.0), mean(|place| place.1))
    }
}

/// Intercept and slope of the line through (x, y, s), each weighing 1 / s^2; `None`: all x are
/// equal.
fn line(points: impl Iterator<Item = (f64, f64, f64)> + Clone) -> Option<(f64, f64)> {
    let (mut weights, mut x_sum, mut y_sum) = (0.0, 0.0, 0.0);
    for (x, y, scale) in points.clone() {
        let weight = scale.powi(-2);
        weights += weight;
        x_sum += weight * x;
        y_sum += weight * y;
    }
    let (x_mean, y_mean) = (x_sum / weights, y_sum / weights);
    let (mut xx, mut xy) = (0.0, 0.0);
    for (x, y, scale) in points {
        let weight = scale.powi(-2);
        xx += weight * (x - x_mean).powi(2);
        xy += weight * (x - x_mean) * (y - y_mean);
    }
    let slope = xy / xx;
    (xx > 0.0 && slope.is_finite()).then_some((y_mean - slope * x_mean, slope))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of a program with these parameters, without noise.
    fn exact(a: f64, k: f64, c: f64, m: f64, with_garbage: bool) -> Vec<Point> {
        let point = |garbage: f64| Point {
            time: a + k / garbage,
            space: c + m * garbage,
            garbage: with_garbage.then_some(garbage),
        };
        (0..10).map(|step| point(20.0 * 16_f64.powf(f64::from(step) / 9.0))).collect()
    }

    #[test]
    fn exact_points_give_their_curve_either_way() {
        for with_garbage in [true, false] {
            let points = exact(10.0, 200.0, 100.0, 2.0, with_garbage);
            let curve = Curve::fit(&points).unwrap();
            assert!(
                (curve.a - 10.0).abs() < 1e-3
                    && (curve.b - 400.0).abs() < 0.1
                    && (curve.c - 100.0).abs() < 0.1,
                "{curve:?}"
            );
            let (time, space) = curve.residuals(&points);
            assert!(time < 1e-4 && space < 1e-4);
            let time = curve.time_at(curve.space_at(12.0).unwrap()).unwrap();
            assert!((time - 12.0).abs() < 1e-9);
        }
    }

    #[test]
    fn what_is_no_curve_has_none() {
        let points = exact(10.0, 200.0, 100.0, 2.0, true);
        assert_eq!(Curve::fit(&points[..3]), None);
        let one = vec![points[0]; 5];
        assert_eq!(Curve::fit(&one), None, "one garbage");
        let still = vec![Point { garbage: None, ..points[0] }; 5];
        assert_eq!(Curve::fit(&still), None, "one time");
        let curve = Curve::fit(&points).unwrap();
        assert_eq!((curve.space_at(9.0), curve.time_at(50.0)), (None, None));
    }
}
