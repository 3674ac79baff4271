//! Bounds and measurements as one table. The command itself decides whether a bound is met, so
//! docs/benchmarks.md can only repeat it; a missed bound ends the command with an error.
//!
//! A bound is judged by the median of repeated measurements, or by the benchmark's own estimate. An
//! interval stands beside it. For a median the interval holds the true one with the stated
//! probability: it uses order statistics, for any distribution, so few repetitions show how little
//! they prove.

use super::measure::Spread;
use super::sign_test::{COVERAGE, Interval};
use anyhow::{Result, ensure};
use heaplab_statistics::Estimate;

/// The side of the bound on which a measurement must lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    AtMost,
    AtLeast,
}

/// The bounds checked so far.
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
    /// Checks one value, at most `bound`.
    pub fn at_most(&mut self, what: &str, measured: f64, unit: &'static str, bound: f64) {
        self.rows.push(Row {
            what: what.into(),
            measured,
            interval: None,
            unit,
            side: Side::AtMost,
            bound,
        });
    }

    /// Checks an estimate with its interval at 95 %, at most `bound`.
    pub fn estimate_at_most(
        &mut self,
        what: &str,
        measured: &Estimate,
        unit: &'static str,
        bound: f64,
    ) {
        let Estimate { value, low, high } = *measured;
        let interval = Some(Interval { least: low, most: high, covers: COVERAGE });
        self.rows.push(Row {
            what: what.into(),
            measured: value,
            interval,
            unit,
            side: Side::AtMost,
            bound,
        });
    }

    /// Checks values, at least one, with a median of at most `bound`.
    pub fn median_at_most(
        &mut self,
        what: &str,
        measured: impl IntoIterator<Item = f64>,
        unit: &'static str,
        bound: f64,
    ) {
        self.median(what, measured, unit, Side::AtMost, bound);
    }

    /// Checks values, at least one, with a median of at least `bound`.
    pub fn median_at_least(
        &mut self,
        what: &str,
        measured: impl IntoIterator<Item = f64>,
        unit: &'static str,
        bound: f64,
    ) {
        self.median(what, measured, unit, Side::AtLeast, bound);
    }

    fn median(
        &mut self,
        what: &str,
        measured: impl IntoIterator<Item = f64>,
        unit: &'static str,
        side: Side,
        bound: f64,
    ) {
        let values: Vec<f64> = measured.into_iter().collect();
        let interval = Interval::of(&values);
        self.rows.push(Row {
            what: what.into(),
            measured: Spread::of(values).median,
            interval,
            unit,
            side,
            bound,
        });
    }

    /// Prints the table. Fails if a bound is missed.
    pub fn finish(&self) -> Result<()> {
        if !self.rows.is_empty() {
            println!("\n{}", self.table());
        }
        let (bounds, missed) =
            (self.rows.len(), self.rows.iter().filter(|row| !row.is_met(row.measured)).count());
        println!("\n{bounds} bounds, {missed} not met");
        ensure!(missed == 0, "{missed} of {bounds} bounds not met");
        Ok(())
    }

    fn table(&self) -> String {
        let rows = self.rows.iter().map(Row::line);
        ["| bound | measured | |".to_owned(), "|---|---|---|".to_owned()]
            .into_iter()
            .chain(rows)
            .collect::<Vec<_>>()
            .join("\n")
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
        let interval =
            self.interval.as_ref().map(|interval| format!(" ({interval})")).unwrap_or_default();
        // Bounds are written with at most two digits; bounds scaled to a file's size have more.
        let bound = (bound * 100.0).round() / 100.0;
        format!("| {what} {sign} {bound} {unit} | {measured:.2}{interval} | {} |", self.verdict())
    }

    fn verdict(&self) -> &'static str {
        let whole = self
            .interval
            .as_ref()
            .is_none_or(|interval| self.is_met(interval.least) && self.is_met(interval.most));
        match (self.is_met(self.measured), whole) {
            (true, true) => "met",
            (true, false) => "met, not by the whole interval",
            (false, _) => "MISSED",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(
            bounds
                .table()
                .ends_with("| reading >= 1.5 GB/s | 1.48 (75 %: 1.40 to 1.60) | MISSED |"),
            "{}",
            bounds.table()
        );
        assert_eq!(bounds.finish().unwrap_err().to_string(), "1 of 2 bounds not met");
    }
}
