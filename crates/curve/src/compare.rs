//! Compares curves: space at equal time and time at equal space, over the range measured for both.
//! A comparison at an equal parameter would mean nothing: the same parameter is another trade in
//! another program.
//!
//! Where a curve does not describe the points, ratios are taken along their [lower left
//! edge](crate::frontier) instead. Points against points need no model either: a point is dominated
//! if another one needs less of both. The document says of its curves: "for every blue point there
//! is an orange point below and left of it".

use crate::effect;
use crate::fit::{Curve, Method, Point};
use crate::frontier::{Edge, SPACE, TIME};
use crate::results::{CurveResult, LinePoint, Ratio};
use crate::sample::{Points, Resampled, Samples};
use heaplab_statistics::Estimate;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Places of a range for drawing and comparing curves.
const PLACES: usize = 25;
/// The results have one place of each group of this many.
const PLACES_APART: usize = 6;
/// Fewest blocks for a claim that one point is worse than another: fewer agree by chance too often.
pub const DOMINATION_BLOCKS_MIN: usize = 5;
/// Residuals, as a share of space and of time, above which a curve does not describe its points,
/// if the noise of these points does not explain them.
const SPACE_RESIDUAL_MAX: f64 = 0.10;
const TIME_RESIDUAL_MAX: f64 = 0.05;
/// Residuals up to this many standard errors of the points are noise. The root mean square of ten
/// points is above it in one of a hundred experiments.
const NOISE_FACTOR: f64 = 1.5;
/// The share of the variance among points that a curve may leave unexplained.
const UNEXPLAINED_MAX: f64 = 0.5;
/// The garbage of a collection must change by this factor over a range. Otherwise the range does
/// not show the curve's shape.
const GARBAGE_RATIO_MIN: f64 = 1.5;

/// A variant's curve in all resamplings.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The curve, without the blocks' own speeds: they would move it against a fixed time.
    pub curve: Resampled<Option<Curve>>,
    points: Vec<Point>,
    /// The standard errors of each point, as shares of its time and space; `None`: unknown.
    noise: Option<Vec<(f64, f64)>>,
    fits: bool,
    edge: Resampled<Edge>,
    /// Whether time differs between settings, beyond the noise.
    has_times: bool,
}

fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.powi(2)).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

/// Distance of values from their mean, as a share of the mean (root of the mean square).
fn spread(values: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    let mean = values.clone().sum::<f64>() / values.len().max(1) as f64;
    root_mean_square(&values.map(|value| value / mean - 1.0).collect::<Vec<_>>())
}

/// Fits a curve to the cells at `indices`, and decides whether the fit is good enough to use.
pub fn fit(samples: &Samples, indices: &[usize]) -> (Fitted, CurveResult) {
    let values: Vec<_> = indices.iter().map(|index| samples.of(samples.cells[*index])).collect();
    let error = |index: usize, of: fn(&Point) -> f64| {
        samples.steady.error(|all| all[index].as_ref().map(of))
    };
    let known = indices.iter().copied().filter(|index| samples.points.whole[*index].is_some());
    let noise = known
        .map(|index| Some((error(index, |point| point.time)?, error(index, |point| point.space)?)))
        .collect();
    // A setting that another one beats surely is no part of the variant's edge.
    let on_edge: Vec<usize> = indices
        .iter()
        .copied()
        .filter(|index| dominating(samples, *index, indices).is_none())
        .collect();
    let edge = Edge::each(samples.steady.map(|points: &Points| -> Vec<Point> {
        on_edge.iter().filter_map(|index| points[*index]).collect()
    }));
    let chosen = samples.steady.map(|points: &Points| -> Vec<Point> {
        indices.iter().filter_map(|index| points[*index]).collect()
    });
    fit_points(&chosen, noise, edge, effect::is_seen_in(&values, |point| point.time))
}

/// Fits a curve to points that are the same in every run: counts instead of times.
pub fn fit_exact(points: Vec<Point>) -> (Fitted, CurveResult) {
    let is_beaten = |point: &Point| {
        points
            .iter()
            .any(|other| other != point && other.time <= point.time && other.space <= point.space)
    };
    let edge = points.iter().copied().filter(|point| !is_beaten(point)).collect();
    let edge = Edge::each(Resampled::exact(edge));
    fit_points(&Resampled::exact(points), None, edge, true)
}

fn fit_points(
    points: &Resampled<Vec<Point>>,
    noise: Option<Vec<(f64, f64)>>,
    edge: Resampled<Edge>,
    has_times: bool,
) -> (Fitted, CurveResult) {
    let whole = Curve::fit(&points.whole);
    // The parameters of another method mean something else.
    let is_like = |curve: &Curve| whole.is_some_and(|whole| whole.method == curve.method);
    let curve = points.map(|points| Curve::fit(points).filter(is_like));
    let points = points.whole.clone();
    let mut fitted = Fitted { curve, points, noise, fits: false, edge, has_times };
    let reason = fitted.reason_against();
    fitted.fits = reason.is_none();
    let result = CurveResult {
        method: fitted.curve.whole.map(|curve| match curve.method {
            Method::Halves => "halves",
            Method::Hyperbola => "hyperbola",
        }),
        fits: fitted.fits,
        reason,
        residuals: fitted.curve.whole.map_or((0.0, 0.0), |curve| curve.residuals(&fitted.points)),
        line: if fitted.fits { fitted.line() } else { Vec::new() },
    };
    (fitted, result)
}

impl Fitted {
    /// The reason not to use the curve, if any.
    fn reason_against(&self) -> Option<String> {
        let Some(curve) = self.curve.whole else {
            return Some(match self.points.len() {
                0..crate::fit::POINTS_MIN => {
                    format!("a curve needs {} settings that run", crate::fit::POINTS_MIN)
                }
                _ => "time or garbage is the same at every setting".into(),
            });
        };
        let is_positive = |of: fn(&Curve) -> f64| {
            let estimate = self.curve.estimate(|curve| curve.as_ref().map(of));
            // Without an interval the value must suffice.
            estimate.is_some_and(|estimate| {
                estimate.value > 0.0 && (estimate.low.is_nan() || estimate.low > 0.0)
            })
        };
        if curve.method == Method::Halves {
            let garbage: Vec<f64> = self.points.iter().filter_map(|point| point.garbage).collect();
            let ratio = garbage.iter().copied().fold(0.0, f64::max)
                / garbage.iter().copied().fold(f64::INFINITY, f64::min);
            if ratio < GARBAGE_RATIO_MIN {
                return Some(format!(
                    "the garbage of a collection changes by a factor of {ratio:.2} only over this range: a wider one is needed"
                ));
            }
            if !is_positive(|curve| curve.m) {
                return Some(
                    "space does not grow with the garbage of a collection beyond the noise".into(),
                );
            }
            if !is_positive(|curve| curve.k) {
                return Some(
                    "time does not fall as more garbage is left to each collection, as the runtime tells it, beyond the noise".into(),
                );
            }
        } else if !is_positive(|curve| curve.b) {
            return Some("space does not fall as time rises, beyond the noise".into());
        }
        if let Some(reason) = self.too_far_off(&curve) {
            return Some(reason);
        }
        if curve.method == Method::Hyperbola
            && !(is_positive(|curve| curve.a) && is_positive(|curve| curve.c))
        {
            return Some(
                "the range ends before the curve flattens: its asymptotes cannot be told from none (a wider range, or more blocks)".into(),
            );
        }
        None
    }

    /// Whether points lie farther off the curve than their noise explains, or the curve explains
    /// little of what differs.
    fn too_far_off(&self, curve: &Curve) -> Option<String> {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let (time, space) = curve.residuals(&self.points);
        // Points that the curve leaves out explain nothing.
        let is_placed = |nth: &usize| curve.place(&self.points[*nth]).is_some();
        let placed: Vec<usize> = (0..self.points.len()).filter(is_placed).collect();
        let noise = |of: fn(&(f64, f64)) -> f64| {
            let errors = self.noise.as_ref()?;
            Some(root_mean_square(&placed.iter().map(|nth| of(&errors[*nth])).collect::<Vec<_>>()))
        };
        let spread =
            |of: fn(&Point) -> f64| spread(placed.iter().map(|nth| of(&self.points[*nth])));
        for (what, left, most, noise, all) in [
            ("time", time, TIME_RESIDUAL_MAX, noise(|one| one.0), spread(|point| point.time)),
            ("space", space, SPACE_RESIDUAL_MAX, noise(|one| one.1), spread(|point| point.space)),
        ] {
            let error = noise.unwrap_or(0.0);
            if left > most && left > NOISE_FACTOR * error {
                let known = noise.map_or(String::new(), |noise| {
                    format!(", and their standard error is {}", percent(noise))
                });
                return Some(format!("points lie {} of their {what} off it{known}", percent(left)));
            }
            // What noise explains is no shape that the curve lacks.
            let (left_square, all_square) =
                (left.powi(2) - error.powi(2), all.powi(2) - error.powi(2));
            if left_square > 0.0 && left_square > UNEXPLAINED_MAX * all_square {
                return Some(format!(
                    "it explains less than half of how the points' {what} differs: they lie {} off it, and {} off their mean",
                    percent(left),
                    percent(all)
                ));
            }
        }
        None
    }

    /// Whether the curve is good enough to use.
    pub fn fits(&self) -> bool {
        self.fits
    }

    /// The points, in the order of settings.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The measured range of the curve: the places of its points.
    fn range(&self, of: fn((f64, f64)) -> f64) -> Option<(f64, f64)> {
        let curve = self.curve.whole?;
        let places: Vec<f64> =
            self.points.iter().filter_map(|point| curve.place(point)).map(of).collect();
        let least = places.iter().copied().fold(f64::INFINITY, f64::min);
        let most = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least < most && least > 0.0).then_some((least, most))
    }

    fn line(&self) -> Vec<LinePoint> {
        let Some(range) = self.range(|place| place.0) else { return Vec::new() };
        let at = |time_s: f64| {
            // No space suffices for a time that a resampled curve does not reach.
            let mut space_bytes = self
                .curve
                .estimate(|curve| Some(curve.as_ref()?.space_at(time_s).unwrap_or(f64::MAX)))?;
            if space_bytes.high == f64::MAX {
                space_bytes.high = f64::INFINITY;
            }
            Some(LinePoint { time_s, space_bytes })
        };
        // Points lie closer together where the curve is steep, at its fast end.
        let share = |index: usize| (index as f64 / (2 * PLACES) as f64).powi(2);
        (0..=2 * PLACES)
            .filter_map(|index| at(range.0 + (range.1 - range.0) * share(index)))
            .collect()
    }

    /// The place of a setting's point on this curve.
    pub fn place(&self, point: &Point) -> Option<(f64, f64)> {
        self.curve.whole?.place(point)
    }
}

/// `other` over `baseline` at equal time, or the reason why there is no ratio.
pub fn space_at_equal_time(baseline: &Fitted, other: &Fitted) -> Result<Ratio, &'static str> {
    ratio(baseline, other, TIME, |place| place.0, Curve::space_at)
}

/// `other` over `baseline` at equal space, or the reason why there is no ratio.
pub fn time_at_equal_space(baseline: &Fitted, other: &Fitted) -> Result<Ratio, &'static str> {
    ratio(baseline, other, SPACE, |place| place.1, Curve::time_at)
}

fn ratio(
    baseline: &Fitted,
    other: &Fitted,
    axis: usize,
    along: fn((f64, f64)) -> f64,
    across: fn(&Curve, f64) -> Option<f64>,
) -> Result<Ratio, &'static str> {
    if baseline.fits && other.fits {
        let common = common(baseline.range(along), other.range(along))?;
        let is_halves = |fitted: &Fitted| {
            fitted.curve.whole.is_some_and(|curve| curve.method == Method::Halves)
        };
        let method = if is_halves(baseline) && is_halves(other) { "halves" } else { "hyperbola" };
        let logarithm = |curve: &Option<Curve>, place| {
            across(curve.as_ref()?, place).filter(|value| *value > 0.0).map(f64::ln)
        };
        over(common, method, &baseline.curve.paired(&other.curve), logarithm)
    } else {
        if baseline.points.len().min(other.points.len()) < 2 {
            return Err("fewer than two settings of one of them ran");
        }
        if !baseline.has_times || !other.has_times {
            return Err(match (baseline.has_times, other.has_times) {
                (true, false) => {
                    "time does not differ between settings of the former beyond the noise"
                }
                (false, true) => {
                    "time does not differ between settings of the latter beyond the noise"
                }
                _ => "time does not differ between settings of either beyond the noise",
            });
        }
        let common = common(baseline.edge.whole.range(axis), other.edge.whole.range(axis))?;
        let both = baseline.edge.paired(&other.edge);
        over(common, "points", &both, |edge: &Edge, place| edge.least(axis, place))
    }
}

fn common(
    first: Option<(f64, f64)>,
    second: Option<(f64, f64)>,
) -> Result<(f64, f64), &'static str> {
    let both =
        first.zip(second).map(|(first, second)| (first.0.max(second.0), first.1.min(second.1)));
    both.filter(|range| range.0 < range.1).ok_or("their ranges have nothing in common")
}

/// The ratio over a range; `logarithm` gives a variant's value at a place.
fn over<T>(
    range: (f64, f64),
    method: &'static str,
    both: &Resampled<(T, T)>,
    logarithm: impl Fn(&T, f64) -> Option<f64>,
) -> Result<Ratio, &'static str> {
    let place =
        |index: usize| range.0 * (range.1 / range.0).powf(index as f64 / (PLACES - 1) as f64);
    let at = |both: &(T, T), index: usize| {
        Some(logarithm(&both.1, place(index))? - logarithm(&both.0, place(index))?)
    };
    let mean = both
        .estimate(|both| {
            Some((0..PLACES).map(|index| at(both, index)).sum::<Option<f64>>()? / PLACES as f64)
        })
        .ok_or("one of the curves ends within their common range")?;
    if mean.low.is_nan() && !both.drawn.is_empty() {
        return Err("noise moves one of the curves out of their common range");
    }
    let each = (0..PLACES)
        .step_by(PLACES_APART)
        .filter_map(|index| Some((place(index), raised(both.estimate(|both| at(both, index))?))))
        .collect();
    Ok(Ratio { method, mean: raised(mean), range, at: each })
}

fn raised(estimate: Estimate) -> Estimate {
    Estimate { value: estimate.value.exp(), low: estimate.low.exp(), high: estimate.high.exp() }
}

/// A better point must need less of both by this share. Equal settings differ by chance, and some
/// of many differ in nearly all blocks.
const LESS_BY: f64 = 0.01;
/// The chance of any false claim among all pairs of points.
const FALSE_CLAIM: f64 = 0.05;

/// The first of `others` that needs less of both than the point at `index`, by `LESS_BY` in a
/// paired t test over blocks. The test is corrected for the number of pairs (Bonferroni): of many
/// points some would be better by chance. `None` with few blocks.
pub fn dominating(samples: &Samples, index: usize, others: &[usize]) -> Option<usize> {
    if samples.blocks() < DOMINATION_BLOCKS_MIN {
        return None;
    }
    let points = samples.points.whole.iter().flatten().count();
    let chance = FALSE_CLAIM / (points * points.saturating_sub(1)).max(1) as f64;
    let is_less = |other: usize, value: fn(&Point) -> f64| {
        is_below(&samples.logarithms(other, index, value), (1.0 - LESS_BY).ln(), chance)
    };
    others
        .iter()
        .copied()
        .filter(|other| *other != index)
        .find(|other| is_less(*other, |point| point.space) && is_less(*other, |point| point.time))
}

/// Whether the mean of `values` is below `bound`, by a t test that errs with this chance.
pub fn is_below(values: &[f64], bound: f64, chance: f64) -> bool {
    let count = values.len() as f64;
    if values.len() < DOMINATION_BLOCKS_MIN {
        return false;
    }
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let student = StudentsT::new(0.0, 1.0, count - 1.0);
    student.is_ok_and(|student| {
        mean + student.inverse_cdf(1.0 - chance) * (variance / count).sqrt() < bound
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::CellReport;
    use crate::simulated::{Program, experiment};

    #[test]
    fn ratios_of_two_known_curves() {
        let first = Program { noise: 0.01, ..Program::EXAMPLE };
        let second = Program { c: first.c * 0.7, m: first.m * 0.7, ..first };
        let (plan, blocks) = experiment(&[first, second], 10, 3);
        let samples = Samples::new(&plan, &blocks);
        let ((one, _), (two, result)) = (
            fit(&samples, &(0..10).collect::<Vec<_>>()),
            fit(&samples, &(10..20).collect::<Vec<_>>()),
        );
        assert!(one.fits() && two.fits() && result.line.len() > 20, "{result:?}");
        let ratio = space_at_equal_time(&one, &two).unwrap();
        assert!(
            ratio.mean.low < 0.7 && 0.7 < ratio.mean.high && ratio.mean.high < 0.9,
            "{ratio:?}"
        );
        let ratio = time_at_equal_space(&one, &two).unwrap();
        assert!(ratio.mean.high < 1.0, "{ratio:?}");
        // If settings' times differ by more than the noise, each setting has a better one.
        let second: Vec<usize> = (10..20).collect();
        let dominated =
            (0..10).filter(|index| dominating(&samples, *index, &second).is_some()).count();
        assert!(dominated >= 5, "{dominated}");
        assert!(
            (10..20)
                .all(|index| dominating(&samples, index, &(0..10).collect::<Vec<_>>()).is_none())
        );
    }

    /// Blocks that take up to twice as long do not move a curve against the other.
    #[test]
    fn a_machine_that_drifts_leaves_ratios_their_intervals() {
        let first = Program { noise: 0.01, ..Program::EXAMPLE };
        let second = Program { c: first.c * 0.7, m: first.m * 0.7, ..first };
        let (plan, mut blocks) = experiment(&[first, second], 10, 3);
        for block in &mut blocks {
            for cell in &mut block.cells {
                if let CellReport::Measured(measure) = &mut cell.report {
                    measure.wall_ns += measure.wall_ns / 10 * u64::from(block.block);
                }
            }
        }
        let samples = Samples::new(&plan, &blocks);
        let (one, result) = fit(&samples, &(0..10).collect::<Vec<_>>());
        let (two, _) = fit(&samples, &(10..20).collect::<Vec<_>>());
        let mean = space_at_equal_time(&one, &two).unwrap().mean;
        assert!(
            0.65 < mean.low && mean.low < 0.7 && 0.7 < mean.high && mean.high < 0.75,
            "{mean:?}"
        );
        let bands = result.line.iter().map(|point| point.space_bytes);
        assert!(bands.into_iter().all(|band| band.low <= band.value && band.value <= band.high));
    }

    #[test]
    fn what_is_no_curve_is_not_drawn() {
        let flat = Program { k: 0.0, noise: 0.01, ..Program::EXAMPLE };
        let (plan, blocks) = experiment(&[flat], 10, 3);
        let samples = Samples::new(&plan, &blocks);
        let (fitted, result) = fit(&samples, &(0..10).collect::<Vec<_>>());
        assert!(!fitted.fits() && result.line.is_empty());
        assert!(result.reason.unwrap().starts_with("time does not fall"));
        let (fitted, _) = fit(&samples, &[0, 1]);
        assert!(!fitted.fits());
    }

    /// Every other setting takes 4 % more for a reason of its own; collections take 5 % at most.
    #[test]
    fn a_curve_that_explains_little_is_not_drawn() {
        let program = Program { k: 1.0e7, noise: 0.002, ..Program::EXAMPLE };
        let (plan, mut blocks) = experiment(&[program], 10, 3);
        let all: Vec<usize> = (0..10).collect();
        assert!(fit(&Samples::new(&plan, &blocks), &all).0.fits());
        for cell in blocks.iter_mut().flat_map(|block| &mut block.cells) {
            if let CellReport::Measured(measure) = &mut cell.report
                && cell.cell.setting.is_some_and(|setting| setting % 2 == 1)
            {
                measure.wall_ns += measure.wall_ns / 25;
            }
        }
        let (fitted, result) = fit(&Samples::new(&plan, &blocks), &all);
        assert!(!fitted.fits() && result.line.is_empty());
        let reason = result.reason.unwrap();
        assert!(
            reason.starts_with("it explains less than half of how the points' time"),
            "{reason}"
        );
    }
}
