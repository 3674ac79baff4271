//! From blocks to points, and from resampled blocks to intervals.
//!
//! A point is the median over blocks of each of its values. An interval comes from resampling whole
//! blocks (Efron 1979), so that common influences of a block stay together. With few blocks
//! percentiles of the bootstrap are too narrow. So they are taken farther out, by the distance of
//! Student's t with the blocks' degrees of freedom from the normal distribution (Hesterberg, "What
//! teachers should know about the bootstrap", The American Statistician 2015, section 3.2: expanded
//! percentiles).

use crate::cell::Measure;
use crate::fit::Point;
use crate::plan::{CellId, Plan, SpaceMeasure, TimeMeasure};
use crate::run::Block;
use heaplab_experiment::results::Estimate;
use heaplab_experiment::statistics::{Random, median};
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

    /// Share of resamplings for which `holds` is true; 1 or 0 with one block.
    pub fn share(&self, holds: impl Fn(&T) -> bool) -> f64 {
        match self.drawn.len() {
            0 => f64::from(u8::from(holds(&self.whole))),
            count => self.drawn.iter().filter(|each| holds(each)).count() as f64 / count as f64,
        }
    }
}

/// Every measurement by cell and block.
#[derive(Clone, Debug)]
pub struct Samples {
    /// The cells.
    pub cells: Vec<CellId>,
    /// By cell, then by block.
    values: Vec<Vec<Option<Point>>>,
    /// The points of all cells.
    pub points: Resampled<Points>,
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
    let garbage = measure.collections.and_then(|collections| collections.garbage_a_cycle());
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
        let mut random = Random(plan.settings.seed ^ 0x6375_7276_6573);
        let drawn = (0..if count > 1 { RESAMPLES } else { 0 }).map(|_| {
            let chosen: Vec<usize> =
                (0..count).map(|_| random.below(count as u64) as usize).collect();
            points_of(&values, &chosen)
        });
        let points = Resampled {
            drawn: drawn.collect(),
            whole: points_of(&values, &(0..count).collect::<Vec<_>>()),
            tail: tail(plan.settings.confidence, count),
        };
        Samples { cells, values, points }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.values.first().map_or(0, Vec::len)
    }

    /// A cell's measurements, block by block.
    pub fn of(&self, cell: CellId) -> &[Option<Point>] {
        self.index(cell).map_or(&[], |index| &self.values[index])
    }

    /// The index of a cell among points.
    pub fn index(&self, cell: CellId) -> Option<usize> {
        self.cells.iter().position(|known| *known == cell)
    }
}

/// The points of the cells over these blocks.
fn points_of(values: &[Vec<Option<Point>>], blocks: &[usize]) -> Points {
    let point = |values: &Vec<Option<Point>>| {
        let chosen: Vec<Point> = blocks.iter().filter_map(|block| values[*block]).collect();
        let middle = |of: fn(&Point) -> f64| median(&chosen.iter().map(of).collect::<Vec<_>>());
        let garbage: Vec<f64> = chosen.iter().filter_map(|point| point.garbage).collect();
        // A median over some of the runs would describe another set of runs.
        let garbage = if garbage.len() == chosen.len() { median(&garbage) } else { None };
        Some(Point {
            time: middle(|point| point.time)?,
            space: middle(|point| point.space)?,
            garbage,
        })
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
    fn few_blocks_go_further_out() {
        // t(0.025, 9) = -2.262; times sqrt(10 / 9) that is -2.385. Below it lie 0.0085 of the
        // normal distribution.
        assert!((tail(0.95, 10) - 0.00855).abs() < 1e-4, "{}", tail(0.95, 10));
        assert!((tail(0.95, 100_000) - 0.025).abs() < 1e-4);
        assert!(tail(0.95, 2) < 1e-9);
    }
}
