//! From blocks to points, and from resampled blocks to intervals.
//!
//! A point is the median over blocks of each of its values. A block's own speed, by which a machine
//! drifts, is taken out of its times first (`Speeds`): every setting runs in every block, so that
//! the drift is no difference between settings. An interval comes from resampling whole
//! blocks (Efron 1979), so that common influences of a block stay together. With few blocks
//! percentiles of the bootstrap are too narrow. So they are taken farther out, by the distance of
//! Student's t with the blocks' degrees of freedom from the normal distribution (Hesterberg, "What
//! teachers should know about the bootstrap", The American Statistician 2015, section 3.2: expanded
//! percentiles).

use crate::cell::Measure;
use crate::fit::Point;
use crate::plan::{CellId, Plan, SpaceMeasure, TimeMeasure};
use crate::run::Block;
use heaplab_statistics::{Estimate, Random, median, median_of};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Resamplings.
pub const RESAMPLES: usize = 2_000;

/// The points of all cells, in the order of [`Plan::cells`].
pub type Points = Vec<Option<Point>>;

/// A value computed from the points of all blocks, and from those of each resampling.
#[derive(Clone, Debug)]
pub struct Resampled<T> {
    /// From all blocks.
    pub whole: T,
    /// From each resampling; empty with one block.
    pub drawn: Vec<T>,
    /// Share of sorted values to leave out at each end.
    tail: f64,
}

impl<T> Resampled<T> {
    /// A value that is the same in every run, and has no interval.
    pub fn exact(whole: T) -> Resampled<T> {
        Resampled { whole, drawn: Vec::new(), tail: 0.0 }
    }

    /// Computes something from each.
    pub fn map<U>(&self, of: impl Fn(&T) -> U) -> Resampled<U> {
        Resampled {
            whole: of(&self.whole),
            drawn: self.drawn.iter().map(&of).collect(),
            tail: self.tail,
        }
    }

    /// Pairs two values of the same resamplings.
    pub fn paired<U: Clone>(&self, other: &Resampled<U>) -> Resampled<(T, U)>
    where
        T: Clone,
    {
        let drawn = self.drawn.iter().cloned().zip(other.drawn.iter().cloned()).collect();
        Resampled { whole: (self.whole.clone(), other.whole.clone()), drawn, tail: self.tail }
    }

    /// A number with its interval. There is no interval with one block, or if fewer than 19 of 20
    /// resamplings have the number: both ends are NaN.
    pub fn estimate(&self, of: impl Fn(&T) -> Option<f64>) -> Option<Estimate> {
        let value = of(&self.whole)?;
        let mut drawn: Vec<f64> =
            self.drawn.iter().filter_map(&of).filter(|value| value.is_finite()).collect();
        if drawn.is_empty() || drawn.len() * 20 < self.drawn.len() * 19 {
            return Some(Estimate { value, low: f64::NAN, high: f64::NAN });
        }
        drawn.sort_by(f64::total_cmp);
        let at = |share: f64| drawn[((drawn.len() - 1) as f64 * share).round() as usize];
        Some(Estimate {
            value,
            low: at(self.tail).min(value),
            high: at(1.0 - self.tail).max(value),
        })
    }

    /// The standard error of a number, as a share of it; `None` with one block.
    pub fn error(&self, of: impl Fn(&T) -> Option<f64>) -> Option<f64> {
        let whole = of(&self.whole)?;
        let drawn: Vec<f64> = self.drawn.iter().filter_map(of).collect();
        let count = drawn.len() as f64;
        let mean = drawn.iter().sum::<f64>() / count;
        let square = drawn.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        (count > 0.0).then(|| square.sqrt() / whole)
    }
}

/// Every measurement by cell and block.
#[derive(Clone, Debug)]
pub struct Samples {
    /// The cells.
    pub cells: Vec<CellId>,
    /// By cell, then by block, as measured.
    values: Vec<Vec<Option<Point>>>,
    /// The same without the blocks' own speeds.
    steadied: Vec<Vec<Option<Point>>>,
    /// The points of all cells.
    pub points: Resampled<Points>,
    /// The same without the blocks' own speeds, which are no noise between points, at the usual
    /// speed.
    pub steady: Resampled<Points>,
}

/// A measurement's place on the plane.
pub fn point_of(plan: &Plan, measure: &Measure) -> Point {
    let ns = match plan.settings.time {
        TimeMeasure::Wall => measure.wall_ns,
        TimeMeasure::Cpu => measure.cpu_ns(),
    };
    let bytes = match plan.settings.space {
        SpaceMeasure::Peak => measure.peak_bytes,
        SpaceMeasure::Anonymous => measure.peak_anonymous_bytes,
        SpaceMeasure::Mean => measure.mean_anonymous_bytes,
        SpaceMeasure::Committed => measure.committed_bytes.unwrap_or(0),
    };
    // CPU time is counted in steps: zero means less than one step.
    let garbage = measure.collections.and_then(|collections| collections.garbage_or_more());
    Point { time: ns.max(1_000) as f64 / 1e9, space: bytes.max(1) as f64, garbage }
}

impl Samples {
    /// The samples of all measurements.
    pub fn new(plan: &Plan, blocks: &[Block]) -> Samples {
        let cells = plan.cells();
        let of = |cell: &CellId| {
            let in_block = |block: &Block| {
                let report = &block.cells.iter().find(|known| known.cell == *cell)?.report;
                Some(point_of(plan, report.measure()?))
            };
            blocks.iter().map(in_block).collect()
        };
        let values: Vec<Vec<Option<Point>>> = cells.iter().map(of).collect();
        let count = blocks.len();
        let speeds = Speeds::of(&values, count);
        let steadied = speeds.without(&values);
        let mut random = Random(plan.settings.seed ^ 0x6375_7276_6573);
        let draw = |_| (0..count).map(|_| random.below(count as u64) as usize).collect();
        let chosen: Vec<Vec<usize>> =
            (0..if count > 1 { RESAMPLES } else { 0 }).map(draw).collect();
        let all: Vec<usize> = (0..count).collect();
        let steady = Resampled {
            drawn: chosen.iter().map(|chosen| points_of(&steadied, chosen)).collect(),
            whole: points_of(&steadied, &all),
            tail: tail(plan.settings.confidence, count),
        };
        let at_speed = |points: &Points, chosen: &[usize]| -> Points {
            let speed = speeds.median(chosen);
            let slowed = |point: Point| Point { time: point.time * speed, ..point };
            points.iter().map(|point| point.map(slowed)).collect()
        };
        let drawn = steady.drawn.iter().zip(&chosen);
        let points = Resampled {
            drawn: drawn.map(|(points, chosen)| at_speed(points, chosen)).collect(),
            whole: at_speed(&steady.whole, &all),
            tail: steady.tail,
        };
        Samples { cells, values, steadied, points, steady }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.values.first().map_or(0, Vec::len)
    }

    /// A cell's measurements, block by block.
    pub fn of(&self, cell: CellId) -> &[Option<Point>] {
        self.index(cell).map_or(&[], |index| &self.values[index])
    }

    /// The logarithms of one value of a cell over that of another, block by block, without the
    /// blocks' own speeds.
    pub fn logarithms(&self, of: usize, over: usize, value: fn(&Point) -> f64) -> Vec<f64> {
        let both = self.steadied[of].iter().zip(&self.steadied[over]);
        both.filter_map(|(of, over)| Some((value(of.as_ref()?) / value(over.as_ref()?)).ln()))
            .collect()
    }

    /// The index of a cell among points.
    pub fn index(&self, cell: CellId) -> Option<usize> {
        self.cells.iter().position(|known| *known == cell)
    }
}

/// The speed of each block: the logarithm of the factor by which its times are longer than usual,
/// as the median over cells of a time over the cell's median. The usual factor is 1.
///
/// The factor stays in intervals of a setting's time, because resampling draws it too. Curves and
/// comparisons are without it: it is common to all settings. With few cells it would be the noise
/// of one of them, so there is none.
struct Speeds(Vec<f64>);

/// Fewest cells that tell the speed of a block.
const SPEED_CELLS_MIN: usize = 4;

impl Speeds {
    fn of(values: &[Vec<Option<Point>>], blocks: usize) -> Speeds {
        let usual: Vec<Option<f64>> = values
            .iter()
            .map(|cell| {
                median(&cell.iter().flatten().map(|point| point.time.ln()).collect::<Vec<_>>())
            })
            .collect();
        let speed = |block: usize| {
            let factors: Vec<f64> = values
                .iter()
                .zip(&usual)
                .filter_map(|(cell, usual)| Some(cell[block].as_ref()?.time.ln() - (*usual)?))
                .collect();
            if factors.len() < SPEED_CELLS_MIN { 0.0 } else { median(&factors).unwrap_or(0.0) }
        };
        let speeds: Vec<f64> = (0..blocks).map(speed).collect();
        let usual = median(&speeds).unwrap_or(0.0);
        Speeds(speeds.iter().map(|speed| speed - usual).collect())
    }

    fn without(&self, values: &[Vec<Option<Point>>]) -> Vec<Vec<Option<Point>>> {
        let steadied = |(value, speed): (&Option<Point>, &f64)| {
            value.map(|point| Point { time: point.time / speed.exp(), ..point })
        };
        values.iter().map(|cell| cell.iter().zip(&self.0).map(steadied).collect()).collect()
    }

    /// The usual factor of these blocks.
    fn median(&self, blocks: &[usize]) -> f64 {
        let speeds: Vec<f64> = blocks.iter().map(|block| self.0[*block]).collect();
        median(&speeds).unwrap_or(0.0).exp()
    }
}

/// The points of the cells over these blocks.
fn points_of(values: &[Vec<Option<Point>>], blocks: &[usize]) -> Points {
    // One list for all medians of a resampling.
    let mut chosen = Vec::with_capacity(blocks.len());
    let point = |values: &Vec<Option<Point>>| {
        let mut middle = |of: fn(&Point) -> Option<f64>| {
            chosen.clear();
            chosen.extend(blocks.iter().filter_map(|block| values[*block].as_ref().and_then(of)));
            (chosen.len(), median_of(&mut chosen))
        };
        let (runs, time) = middle(|point| Some(point.time));
        let (_, space) = middle(|point| Some(point.space));
        // Infinite: too few collections in most runs. None: half of the runs or more do not tell.
        let (told, garbage) = middle(|point| point.garbage);
        Some(Point { time: time?, space: space?, garbage: garbage.filter(|_| told * 2 > runs) })
    };
    values.iter().map(point).collect()
}

/// The share to leave out at each end of sorted resampled values of `blocks` blocks.
fn tail(confidence: f64, blocks: usize) -> f64 {
    let usual = (1.0 - confidence) / 2.0;
    let Ok(student) = StudentsT::new(0.0, 1.0, blocks.saturating_sub(1).max(1) as f64) else {
        return usual;
    };
    let factor = (blocks as f64 / (blocks as f64 - 1.0).max(1.0)).sqrt();
    Normal::standard().cdf(student.inverse_cdf(usual) * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocks_speed_is_no_difference_between_settings() {
        let point = |time: f64| Some(Point { time, space: 1.0, garbage: None });
        // Cells of 1 to 5 s in blocks of the speeds 1, 2 and 4.
        let values: Vec<Vec<_>> = (1..=5)
            .map(|s| [1.0, 2.0, 4.0].map(|slow| point(slow * f64::from(s))).to_vec())
            .collect();
        let speeds = Speeds::of(&values, 3);
        let steadied = speeds.without(&values);
        for (cell, seconds) in steadied.iter().zip([2.0, 4.0, 6.0, 8.0, 10.0]) {
            let times = cell.iter().flatten().map(|point| point.time);
            assert!(times.into_iter().all(|time| (time - seconds).abs() < 1e-9));
        }
        // A resampling of fast blocks is fast all the same.
        let of_fast = points_of(&steadied, &[0, 0, 0])[4].unwrap().time * speeds.median(&[0, 0, 0]);
        assert!((of_fast - 5.0).abs() < 1e-9);
        assert_eq!(Speeds::of(&values[..3], 3).0, [0.0; 3], "too few cells");
    }

    #[test]
    fn a_run_without_collections_is_beyond_the_others() {
        let without = Some(f64::INFINITY);
        let garbage_of = |runs: &[Option<f64>]| {
            let point =
                |garbage: &Option<f64>| Some(Point { time: 1.0, space: 1.0, garbage: *garbage });
            // A block without a point comes first.
            let values = [None].into_iter().chain(runs.iter().map(point)).collect();
            points_of(&[values], &(0..=runs.len()).collect::<Vec<_>>())[0]
                .map(|point| point.garbage)
        };
        assert_eq!(garbage_of(&[Some(3.0), without, Some(1.0)]), Some(Some(3.0)));
        assert_eq!(garbage_of(&[Some(3.0), without, without]), Some(without));
        assert_eq!(garbage_of(&[Some(3.0), None, Some(1.0)]), Some(Some(2.0)));
        assert_eq!(garbage_of(&[Some(3.0), None]), Some(None));
        assert_eq!(garbage_of(&[]), None);
    }

    #[test]
    fn few_blocks_go_further_out() {
        // t(0.025, 9) = -2.262; times sqrt(10 / 9) that is -2.385. Below it lie 0.0085 of the
        // normal distribution.
        assert!((tail(0.95, 10) - 0.00855).abs() < 1e-4, "{}", tail(0.95, 10));
        assert!((tail(0.95, 100_000) - 0.025).abs() < 1e-4);
        assert!(tail(0.95, 2) < 1e-9);
    }
}
