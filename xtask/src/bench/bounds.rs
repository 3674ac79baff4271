//! Bounds and what was measured, as one table: what docs/benchmarks.md says is met must be what the command itself says, and a missed bound ends the
//! command with an error.
//!
//! A bound is judged by the median, or by an estimate that the benchmark has made, where a thing was measured several times. Beside it stands an interval. For a median
//! it holds the true one with the probability given: order statistics, whatever the distribution, so that few repetitions show how little they say.

use super::measure::Spread;
use anyhow::{Result, ensure};
use heaplab_experiment::results::Estimate;

/// What an interval should cover, where there are values enough.
const COVERAGE: f64 = 0.95;

/// On which side of the bound a measurement has to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    AtMost,
    AtLeast,
}

/// The bounds that were looked at.
#[derive(Debug, Default)]
pub struct Bounds {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    what: String,
    measured: f64,
    interval: Option<Interval>,
    unit: &'static str,
    side: Side,
    bound: f64,
}

impl Bounds {
    /// One value that may be `bound` at most.
    pub fn at_most(&mut self, what: &str, measured: f64, unit: &'static str, bound: f64) {
        self.rows.push(Row { what: what.into(), measured, interval: None, unit, side: Side::AtMost, bound });
    }

    /// An estimate with its interval at 95 %, which may be `bound` at most.
    pub fn estimate_at_most(&mut self, what: &str, measured: &Estimate, unit: &'static str, bound: f64) {
        let Estimate { value, low, high } = *measured;
        let interval = Some(Interval { least: low, most: high, covers: COVERAGE });
        self.rows.push(Row { what: what.into(), measured: value, interval, unit, side: Side::AtMost, bound });
    }

    /// Values, at least one, whose median may be `bound` at most.
    pub fn median_at_most(&mut self, what: &str, measured: impl IntoIterator<Item = f64>, unit: &'static str, bound: f64) {
        self.median(what, measured, unit, Side::AtMost, bound);
    }

    /// Values, at least one, whose median must be `bound` at least.
    pub fn median_at_least(&mut self, what: &str, measured: impl IntoIterator<Item = f64>, unit: &'static str, bound: f64) {
        self.median(what, measured, unit, Side::AtLeast, bound);
    }

    fn median(&mut self, what: &str, measured: impl IntoIterator<Item = f64>, unit: &'static str, side: Side, bound: f64) {
        let values: Vec<f64> = measured.into_iter().collect();
        let interval = Interval::of(&values);
        self.rows.push(Row { what: what.into(), measured: Spread::of(values).median, interval, unit, side, bound });
    }

    /// Prints the table. Fails where a bound is missed.
    pub fn finish(&self) -> Result<()> {
        if !self.rows.is_empty() {
            println!("\n{}", self.table());
        }
        let (bounds, missed) = (self.rows.len(), self.rows.iter().filter(|row| !row.is_met(row.measured)).count());
        println!("\n{bounds} bounds, {missed} not met");
        ensure!(missed == 0, "{missed} of {bounds} bounds not met");
        Ok(())
    }

    fn table(&self) -> String {
        let rows = self.rows.iter().map(Row::line);
        ["| bound | measured | |".to_owned(), "|---|---|---|".to_owned()].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
    }
}

impl Row {
    fn is_met(&self, value: f64) -> bool {
        match self.side {
            Side::AtMost => value <= self.bound,
            Side::AtLeast => value >= self.bound,
        }
    }

    fn line(&self) -> String {
        let Row { what, measured, unit, bound, .. } = self;
        let sign = if self.side == Side::AtMost { "<=" } else { ">=" };
        let interval = self.interval.as_ref().map(|interval| format!(" ({interval})")).unwrap_or_default();
        // Bounds are written down with two digits at most; those that are scaled to a file's size are not.
        let bound = (bound * 100.0).round() / 100.0;
        format!("| {what} {sign} {bound} {unit} | {measured:.2}{interval} | {} |", self.verdict())
    }

    fn verdict(&self) -> &'static str {
        let whole = self.interval.as_ref().is_none_or(|interval| self.is_met(interval.least) && self.is_met(interval.most));
        match (self.is_met(self.measured), whole) {
            (true, true) => "met",
            (true, false) => "met, not by the whole interval",
            (false, _) => "MISSED",
        }
    }
}

/// Between two of the measured values lies the true median, with the probability `covers`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    least: f64,
    most: f64,
    covers: f64,
}

impl Interval {
    /// The narrowest that covers [`COVERAGE`]; of fewer than six values, which cannot, the whole range and what that covers. None of fewer than two.
    fn of(values: &[f64]) -> Option<Interval> {
        if values.len() < 2 {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Of n values, `below` or fewer lie under the median with the binomial probability `tail`: the interval between the values next to them misses twice that.
        let mut term = 0.5f64.powi(values.len() as i32);
        let (mut place, mut tail) = (0, term);
        loop {
            let next = term * (values.len() - place) as f64 / (place + 1) as f64;
            if 1.0 - 2.0 * (tail + next) < COVERAGE || 2 * (place + 1) >= values.len() {
                break;
            }
            (term, tail, place) = (next, tail + next, place + 1);
        }
        Some(Interval { least: sorted[place], most: sorted[sorted.len() - 1 - place], covers: 1.0 - 2.0 * tail })
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} %: {:.2} to {:.2}", self.covers * 100.0, self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_covers_what_a_table_of_the_binomial_says() {
        let interval = |count: u32| Interval::of(&(1..=count).rev().map(f64::from).collect::<Vec<_>>()).unwrap();
        // The sign test's tables: of 41 values the 14th from both ends (97.2 %), of 10 the 2nd (97.9 %), of 6 the range (96.9 %).
        assert_eq!((interval(41).least, interval(41).most), (14.0, 28.0));
        assert!((interval(41).covers - 0.9725).abs() < 1e-3, "{:?}", interval(41));
        assert_eq!((interval(10).least, interval(10).most), (2.0, 9.0));
        assert!((interval(10).covers - 0.9785).abs() < 1e-3);
        assert_eq!((interval(6).least, interval(6).most, interval(6).covers), (1.0, 6.0, 0.96875));
        // Too few: the range, and what that covers.
        assert_eq!((interval(5).least, interval(5).most, interval(5).covers), (1.0, 5.0, 0.9375));
        assert_eq!(interval(2).covers, 0.5);
        assert_eq!(Interval::of(&[1.0]), None);
    }

    #[test]
    fn the_median_judges_and_the_interval_is_told() {
        let mut bounds = Bounds::default();
        bounds.at_most("memory", 575.0, "MB", 685.7136);
        bounds.median_at_most("a ladder", [3.2, 2.3, 2.97, 2.9, 3.0], "times", 3.1);
        bounds.median_at_least("reading", [1.6, 1.7, 1.8], "GB/s", 1.5);
        assert!(bounds.finish().is_ok());
        let table = "| bound | measured | |\n|---|---|---|\n\
            | memory <= 685.71 MB | 575.00 | met |\n\
            | a ladder <= 3.1 times | 2.97 (94 %: 2.30 to 3.20) | met, not by the whole interval |\n\
            | reading >= 1.5 GB/s | 1.70 (75 %: 1.60 to 1.80) | met |";
        assert_eq!(bounds.table(), table);
    }

    #[test]
    fn a_missed_bound_is_an_error() {
        let mut bounds = Bounds::default();
        bounds.at_most("time", 2.4, "s", 2.5);
        bounds.median_at_least("reading", [1.4, 1.48, 1.6], "GB/s", 1.5);
        assert!(bounds.table().ends_with("| reading >= 1.5 GB/s | 1.48 (75 %: 1.40 to 1.60) | MISSED |"), "{}", bounds.table());
        assert_eq!(bounds.finish().unwrap_err().to_string(), "1 of 2 bounds not met");
    }
}
