//! The commit of a step, by measuring commits between its two sides.
//!
//! Each decision is one measurement of the middle commit, with intervals of its distance from
//! either side. A middle at a level of its own means that the step has two parts: the search
//! follows the larger one and says so. The search steps around a middle that cannot be built, as
//! `git bisect skip` does.

mod step;

pub use step::{SoughtStep, recordings};

use heaplab_statistics::{Estimate, median, shift_apart};

const CONFIDENCE: f64 = 0.95;
/// A middle nearer to one side than this share of the step belongs to that side.
const NEAR: f64 = 0.25;

/// Which side a commit is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The commit has the old level: the step is behind it.
    Before,
    /// The commit has the new level.
    After,
    /// The commit has a level of its own: the step has two parts, and the larger one is behind this
    /// commit (`true`) or before it.
    Between(bool),
}

/// The result of one measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// The commit's number.
    pub at: usize,
    /// The commit's side.
    pub side: Side,
    /// How far from the old level.
    pub from_before: Estimate,
    /// How far to the new level.
    pub to_after: Estimate,
    /// The confidence of both intervals.
    pub confidence: f64,
    /// How many commits may have the step now.
    pub left: usize,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The two ends do not differ beyond their runs.
    NoStep,
    /// The step is made by this commit.
    Commit(usize),
    /// A commit behind the first, up to the second: those between cannot be measured.
    OneOf(usize, usize),
}

/// Searches the step between commit 0 and the last of `count`. `measure` returns a commit's runs,
/// or `None` if it cannot be measured; `told` gets each decision.
///
/// # Errors
/// What `measure` fails with.
pub fn search<E>(
    count: usize,
    measure: &mut dyn FnMut(usize) -> Result<Option<Vec<f64>>, E>,
    told: &mut dyn FnMut(&Decision),
) -> Result<Found, E> {
    let (mut low, mut high) = (0, count.saturating_sub(1));
    if low == high {
        return Ok(Found::NoStep);
    }
    let (Some(mut before), Some(mut after)) = (measure(low)?, measure(high)?) else {
        return Ok(Found::OneOf(low, high));
    };
    if !differ(&before, &after) {
        return Ok(Found::NoStep);
    }
    while high - low > 1 {
        let mut measured = None;
        for at in from_the_middle(low, high) {
            if let Some(runs) = measure(at)?.filter(|runs| !runs.is_empty()) {
                measured = Some((at, runs));
                break;
            }
        }
        let Some((at, runs)) = measured else { return Ok(Found::OneOf(low, high)) };
        let Some(mut decision) = decided(at, &before, &runs, &after) else {
            return Ok(Found::OneOf(low, high));
        };
        if matches!(decision.side, Side::Before | Side::Between(true)) {
            (low, before) = (at, runs);
        } else {
            (high, after) = (at, runs);
        }
        decision.left = high - low;
        told(&decision);
    }
    Ok(Found::Commit(high))
}

/// Whether the runs of two commits lie apart: not one of the one between those of the other, and
/// their shift is not zero.
fn differ(before: &[f64], after: &[f64]) -> bool {
    shift_apart(before, after, CONFIDENCE)
        .is_some_and(|(shift, _)| shift.low > 0.0 || shift.high < 0.0)
}

fn from_the_middle(low: usize, high: usize) -> impl Iterator<Item = usize> {
    let middle = usize::midpoint(low, high);
    let around =
        (0..high - low).flat_map(move |away| [middle.checked_sub(away), Some(middle + away)]);
    let mut last = None;
    around.flatten().filter(move |at| {
        let is_new = last != Some(*at);
        last = Some(*at);
        is_new && low < *at && *at < high
    })
}

fn decided(at: usize, before: &[f64], middle: &[f64], after: &[f64]) -> Option<Decision> {
    let (from_before, confidence) = shift_apart(before, middle, CONFIDENCE)?;
    let (to_after, other) = shift_apart(middle, after, CONFIDENCE)?;
    let whole = (median(after)? - median(before)?).abs();
    let (near, far) = (from_before.value.abs(), to_after.value.abs());
    let side = if near <= NEAR * whole && near <= far {
        Side::Before
    } else if far <= NEAR * whole {
        Side::After
    } else {
        Side::Between(far > near)
    };
    let confidence = confidence.min(other);
    Some(Decision { at, side, from_before, to_after, confidence, left: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn found(count: usize, level: &dyn Fn(usize) -> Option<f64>) -> (Found, usize) {
        let mut measured = 0;
        let mut measure = |at: usize| -> Result<Option<Vec<f64>>, Infallible> {
            measured += 1;
            Ok(level(at).map(|level| vec![level, level + 1.0, level + 2.0]))
        };
        let Ok(found) = search(count, &mut measure, &mut |_| {});
        (found, measured)
    }

    #[test]
    fn the_commit_is_found_with_a_measurement_for_each_halving() {
        for step in 1..64 {
            let level = |at: usize| Some(if at < step { 100.0 } else { 200.0 });
            let (found, measured) = found(64, &level);
            assert_eq!(found, Found::Commit(step));
            assert!(measured <= 2 + 6, "{measured} for {step}");
        }
        assert_eq!(found(64, &|_| Some(7.0)).0, Found::NoStep);
    }

    #[test]
    fn commits_that_cannot_be_measured_are_stepped_around() {
        let level = |at: usize| match at {
            4..=6 => None,
            _ => Some(if at < 8 { 100.0 } else { 200.0 }),
        };
        assert_eq!(found(11, &level).0, Found::Commit(8));
        let level = |at: usize| match at {
            4..=6 => None,
            _ => Some(if at < 5 { 100.0 } else { 200.0 }),
        };
        assert_eq!(found(11, &level).0, Found::OneOf(3, 7));
    }

    #[test]
    fn of_two_steps_the_larger_is_followed() {
        let level =
            |at: usize| Some([0.0, 400.0, 1000.0][usize::from(at > 9) + usize::from(at > 20)]);
        assert_eq!(found(40, &level).0, Found::Commit(21));
    }
}
