//! Where a history changes.
//!
//! Two rules, both silent on an unchanged program in at least 99 of 100 series (`tests/alarms.rs`
//! counts it on this very code):
//!
//! 1. **By repetition.** If every commit was run at least twice, repetitions show how far runs of
//!    one program differ. Most allocation figures do not differ at all. A difference of two
//!    neighbours above [`JUMP`] times the largest one between repetitions is a change of the
//!    program, even at the newest commit. The agreement of repetitions must itself be no chance: of
//!    all ways to assign the runs to commits, at most one in 500 may agree so.
//! 2. **By ranks**, within the stretches that the first rule leaves: `noise.rs`, repeated in both
//!    parts while steps are found (binary segmentation). Only a series' first test decides on an
//!    alarm, so the parts add no false ones for an unchanged program.

use crate::noise::{STRETCH_MIN, centred_ranks, chances, largest, lengths};
use heaplab_statistics::{Estimate, Random, median, shift_apart};
use serde::Serialize;

/// How many times the spread of repetitions a difference has to be.
pub const JUMP: f64 = 10.0;
/// The share of unchanged series in which there may be an alarm: by each of the two tests of ranks,
/// and by the agreement of repetitions. Together they are one in a hundred.
const CHANCE: f64 = 0.004;
const CHANCE_OF_AGREEMENT: f64 = 0.002;
/// Values that are tested by ranks at least; fewer can look like anything.
pub const SERIES_MIN: usize = 12;
/// Resamplings for the range of commits.
const RESAMPLED: usize = 400;
const CONFIDENCE: f64 = 0.95;

/// From one level to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shift {
    /// What came before: the median since the step before.
    pub before: f64,
    /// What came after, until the next one.
    pub after: f64,
    /// The change, with its interval.
    pub change: Estimate,
    /// The confidence of the interval: 1 where repetitions agree.
    pub confidence: f64,
    /// Whether repetitions say so, and the commit is certain; else ranks do.
    pub is_certain: bool,
}

/// A change between two neighbours of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The first value of the new level.
    pub at: usize,
    /// The earliest and the latest possible place.
    pub earliest: usize,
    /// See there.
    pub latest: usize,
    /// What changed.
    pub shift: Shift,
}

/// The steps of a series: for each commit its runs, none empty.
pub fn steps(series: &[Vec<f64>]) -> Vec<Step> {
    let middles: Vec<f64> = series.iter().map(|runs| median(runs).unwrap_or(0.0)).collect();
    let spread = spread_of_repetitions(series);
    let jumps = spread.map_or_else(Vec::new, |spread| jumps(series, &middles, spread));
    let mut cuts: Vec<(usize, bool)> = jumps.iter().map(|at| (*at, true)).collect();
    let mut from = 0;
    for to in jumps.iter().copied().chain([series.len()]) {
        let mut found = Vec::new();
        segment(&middles[from..to], &mut found);
        cuts.extend(found.into_iter().map(|at| (from + at, false)));
        from = to;
    }
    cuts.sort_unstable();
    described(series, &middles, &cuts)
}

/// The largest difference between repetitions of one commit; `None`: a commit was run once.
fn spread_of_repetitions(series: &[Vec<f64>]) -> Option<f64> {
    let spread = |runs: &Vec<f64>| {
        let most = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
        (runs.len() > 1).then_some(most - least)
    };
    series.iter().map(spread).try_fold(0.0, |most, spread| Some(f64::max(most, spread?)))
}

/// Where neighbours differ by more than repetitions ever do.
fn jumps(series: &[Vec<f64>], middles: &[f64], spread: f64) -> Vec<usize> {
    let is_jump = |pair: &[f64]| (pair[1] - pair[0]).abs() > JUMP * spread;
    let found: Vec<usize> =
        (1..middles.len()).filter(|at| is_jump(&middles[at - 1..=*at])).collect();
    let repetitions = series.iter().map(Vec::len).min().unwrap_or(0);
    if found.is_empty()
        || chance_of_agreement(middles, JUMP * spread, repetitions) > CHANCE_OF_AGREEMENT
    {
        return Vec::new();
    }
    found
}

/// The chance that blindly assigned runs agree within each commit: only groups of commits with one
/// level, k of them, may swap.
fn chance_of_agreement(middles: &[f64], apart: f64, repetitions: usize) -> f64 {
    let mut sorted = middles.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut groups = vec![1_usize];
    for pair in sorted.windows(2) {
        if pair[1] - pair[0] > apart {
            groups.push(0);
        }
        if let Some(last) = groups.last_mut() {
            *last += 1;
        }
    }
    let logarithm = |number: usize| statrs::function::factorial::ln_factorial(number as u64);
    let total = middles.len();
    let apart: f64 =
        groups.iter().map(|group| logarithm(group * repetitions) - logarithm(*group)).sum();
    (logarithm(total) - logarithm(total * repetitions) + apart).exp()
}

/// Adds the steps by ranks within `values`.
fn segment(values: &[f64], found: &mut Vec<usize>) {
    let mut open = vec![(0, values.len())];
    while let Some((from, to)) = open.pop() {
        let part = &values[from..to];
        if part.len() < SERIES_MIN {
            continue;
        }
        let Some(cuts) = significant(part) else { continue };
        let mut begin = from;
        for cut in cuts.into_iter().map(|cut| from + cut).chain([to]) {
            open.push((begin, cut));
            if cut != to {
                found.push(cut);
            }
            begin = cut;
        }
    }
    found.sort_unstable();
}

/// Where the part changes, if it does.
fn significant(values: &[f64]) -> Option<Vec<usize>> {
    let ranks = centred_ranks(values);
    let lengths = lengths(values.len());
    let found = largest(&ranks, &lengths);
    let chances = chances(&ranks, &found, &lengths, CHANCE);
    // The end of a stretch is a step only inside of the part.
    let cuts = |at: usize| {
        let ends = [found[at].from, found[at].to];
        ends.into_iter().filter(|cut| *cut > 0 && *cut < values.len()).collect::<Vec<_>>()
    };
    match chances {
        [one, any] if one <= CHANCE && one <= any => Some(cuts(0)),
        [_, any] if any <= CHANCE => Some(cuts(1)),
        [one, _] if one <= CHANCE => Some(cuts(0)),
        _ => None,
    }
}

fn described(series: &[Vec<f64>], middles: &[f64], cuts: &[(usize, bool)]) -> Vec<Step> {
    let ends: Vec<usize> =
        [0].into_iter().chain(cuts.iter().map(|cut| cut.0)).chain([series.len()]).collect();
    let step = |(number, (at, is_certain)): (usize, &(usize, bool))| {
        let (from, to) = (ends[number], ends[number + 2]);
        let (left, right) = (&middles[from..*at], &middles[*at..to]);
        let (before, after) = (median(left)?, median(right)?);
        // The certain ones are about two neighbours: nothing between them is uncertain.
        let (change, confidence) = if *is_certain {
            let (left, right) = (&series[at - 1], &series[*at]);
            let (mut shift, _) = shift_apart(left, right, CONFIDENCE)?;
            let least = |runs: &[f64]| runs.iter().copied().fold(f64::INFINITY, f64::min);
            let most = |runs: &[f64]| runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            shift.low = least(right) - most(left);
            shift.high = most(right) - least(left);
            (shift, 1.0)
        } else {
            shift_apart(left, right, CONFIDENCE)?
        };
        let (earliest, latest) =
            if *is_certain { (*at, *at) } else { placed(&middles[from..to], at - from, from) };
        Some(Step {
            at: *at,
            earliest,
            latest,
            shift: Shift { before, after, change, confidence, is_certain: *is_certain },
        })
    };
    cuts.iter().enumerate().filter_map(step).collect()
}

/// The range of places of a step found at `at`: where it is found again in series with the same
/// levels and noise drawn from the same values.
fn placed(values: &[f64], at: usize, offset: usize) -> (usize, usize) {
    let mut random = Random(7);
    let mut places: Vec<usize> = (0..RESAMPLED)
        .map(|_| {
            let mut draw = |part: &[f64]| part[random.below(part.len() as u64) as usize];
            let drawn: Vec<f64> = (0..values.len())
                .map(|here| draw(if here < at { &values[..at] } else { &values[at..] }))
                .collect();
            split(&centred_ranks(&drawn))
        })
        .collect();
    places.sort_unstable();
    let tail = ((1.0 - CONFIDENCE) / 2.0 * RESAMPLED as f64) as usize;
    let (earliest, latest) = (places[tail], places[RESAMPLED - 1 - tail]);
    (offset + earliest.min(at), offset + latest.max(at))
}

/// The best place for one step.
fn split(ranks: &[f64]) -> usize {
    let (mut sum, mut best) = (0.0, (0.0, 1));
    for at in 1..ranks.len() {
        sum += ranks[at - 1];
        let size = (at as f64 * (ranks.len() - at) as f64).sqrt();
        if f64::abs(sum) / size > best.0 {
            best = (f64::abs(sum) / size, at);
        }
    }
    best.1
}

/// Number of the newest values in which ranks cannot show a step yet: a stretch needs that many to
/// be rarer than chance.
pub fn undecided(series: &[Vec<f64>]) -> usize {
    let is_exact = spread_of_repetitions(series).is_some_and(|spread| spread == 0.0);
    if is_exact && series.len() > 2 {
        return 0;
    }
    if series.len() < SERIES_MIN {
        return series.len();
    }
    STRETCH_MIN.max(series.len() / 4)
}

/// Reads the least size of a step, such as `0.5%`, as a share of the level before.
///
/// # Errors
/// The text is no percentage from 0 to a million.
pub fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    number
        .filter(|percent| (0.0..=1e6).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "expected percent, such as 0.5%".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(levels: &[(usize, f64)]) -> Vec<Vec<f64>> {
        levels.iter().flat_map(|(count, level)| vec![vec![*level; 3]; *count]).collect()
    }

    #[test]
    fn exact_figures_have_exact_steps_be_it_at_the_newest_commit() {
        let found = steps(&exact(&[(17, 1000.0), (12, 1200.0), (1, 1100.0)]));
        let places: Vec<usize> = found.iter().map(|step| step.at).collect();
        assert_eq!(places, [17, 29]);
        let first = &found[0];
        assert_eq!((first.shift.change.low, first.shift.change.high), (200.0, 200.0));
        assert!(first.shift.is_certain && (first.earliest, first.latest) == (17, 17));
        assert!(steps(&exact(&[(30, 5.0)])).is_empty());
        assert!(steps(&[]).is_empty() && steps(&exact(&[(1, 5.0)])).is_empty());
    }

    #[test]
    fn agreement_of_few_runs_is_no_proof() {
        // Two commits run twice: of six ways to hand out the runs, two agree.
        assert!((chance_of_agreement(&[1.0, 2.0], 0.0, 2) - 2.0 / 6.0).abs() < 1e-12);
        assert!(steps(&[vec![1.0; 2], vec![2.0; 2]]).is_empty());
        assert_eq!(steps(&[vec![1.0; 7], vec![2.0; 7]]).len(), 1);
        // A commit with a single run shows no spread: ranks decide.
        let mut series = exact(&[(5, 1.0), (5, 2.0)]);
        series[0] = vec![1.0];
        assert!(steps(&series).is_empty());
    }

    #[test]
    fn a_jump_beyond_all_noise_is_certain_and_small_ones_are_not() {
        let noisy = |at: usize, level: f64| {
            vec![level + (at % 3) as f64, level + (at % 2) as f64, level + 1.0]
        };
        let mut series: Vec<Vec<f64>> = (0..25).map(|at| noisy(at, 1000.0)).collect();
        assert!(steps(&series).is_empty());
        series[24] = noisy(24, 1500.0);
        let found = steps(&series);
        assert_eq!((found.len(), found[0].at, found[0].shift.is_certain), (1, 24, true));
        assert!(found[0].shift.change.low >= 496.0 && found[0].shift.change.high <= 504.0);
    }

    #[test]
    fn what_was_undone_is_two_steps() {
        let mut random = Random(5);
        let mut series: Vec<Vec<f64>> = (0..60).map(|_| vec![random.below(1_000) as f64]).collect();
        series[20..40].iter_mut().for_each(|runs| runs[0] += 3_000.0);
        let places: Vec<usize> = steps(&series).iter().map(|step| step.at).collect();
        assert_eq!(places, [20, 40]);
    }
}
