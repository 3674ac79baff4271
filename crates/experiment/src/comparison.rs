//! Heaps compared inside blocks: ratios with intervals, corrected for the number of comparisons,
//! and the outcome of each.

use crate::plan::Plan;
use crate::results::{Canary, Comparison, HeapResult, Measure, Outcome, OverNodes, Settings};
use crate::run::{Block, Measured};
use crate::summary::{net_time, resamples};
use heaplab_statistics::{
    Estimate, benjamini_hochberg, bootstrap, hodges_lehmann, median, mixed, wilcoxon,
};

/// A heap below this many ns an event cannot be told from the driver: about the difference of two
/// runs of the null heap.
pub const RESOLUTION_NS: f64 = 0.1;

pub(crate) fn compare_space(
    plan: &Plan,
    heap: &HeapResult,
    baseline: &HeapResult,
) -> Option<Comparison> {
    let (space, base) = (heap.space.as_ref()?, baseline.space.as_ref()?);
    if space.resident_unknown || base.resident_unknown {
        return None;
    }
    let ratio = |above: u64, below: u64| above as f64 / below.max(1) as f64;
    let ratio = Estimate {
        value: ratio(space.peak_resident_bytes, base.peak_resident_bytes),
        low: ratio(space.peak_resident_range_bytes.0, base.peak_resident_range_bytes.1),
        high: ratio(space.peak_resident_range_bytes.1, base.peak_resident_range_bytes.0),
    };
    let outcome = match ratio {
        _ if within(ratio, plan.settings.margin) => Outcome::Equivalent,
        Estimate { high, .. } if high < 1.0 => Outcome::Less,
        Estimate { low, .. } if low > 1.0 => Outcome::More,
        _ => Outcome::NotShown,
    };
    let (heap, baseline) = (heap.heap.clone(), baseline.heap.clone());
    let blocks = space.cells.max(base.cells);
    Some(Comparison {
        heap,
        baseline,
        measure: Measure::Space,
        ratio,
        confidence: None,
        widened: None,
        bootstrap: None,
        p_value: None,
        p_adjusted: None,
        blocks,
        nodes: None,
        outcome,
    })
}

fn within(ratio: Estimate, margin: f64) -> bool {
    ratio.low >= 1.0 / (1.0 + margin) && ratio.high <= 1.0 + margin
}

/// A comparison of times, with the logarithm of each block's ratio, by the machine that ran it.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The ratio, its interval and its outcome.
    pub comparison: Comparison,
    /// The logarithms of each machine's blocks.
    pub nodes: Vec<Vec<f64>>,
}

/// An estimate of logarithms as one of ratios.
fn ratio(estimate: Estimate) -> Estimate {
    Estimate { value: estimate.value.exp(), low: estimate.low.exp(), high: estimate.high.exp() }
}

impl Compared {
    /// Computes the ratio: for one machine by ranks, for several with the machine as a random
    /// effect. `None`: there are no blocks.
    pub fn of(
        heap: &str,
        baseline: &str,
        nodes: Vec<Vec<f64>>,
        settings: &Settings,
    ) -> Option<Compared> {
        let over = mixed(&nodes);
        let p_value = match &over {
            Some(over) => over.p_value(),
            None => wilcoxon(&nodes.concat()).unwrap_or(1.0),
        };
        let comparison = Comparison {
            heap: heap.into(),
            baseline: baseline.into(),
            measure: Measure::Time,
            ratio: ratio_of(&nodes, settings.confidence)?,
            confidence: None,
            widened: None,
            bootstrap: None,
            p_value: Some(p_value),
            p_adjusted: None,
            blocks: nodes.iter().map(Vec::len).sum::<usize>() as u32,
            nodes: over
                .map(|over| OverNodes { nodes: over.nodes as u32, between: over.between.exp_m1() }),
            outcome: Outcome::NotShown,
        };
        Some(Compared { comparison, nodes })
    }
}

/// The ratio with its interval of this confidence.
fn ratio_of(nodes: &[Vec<f64>], confidence: f64) -> Option<Estimate> {
    match mixed(nodes) {
        Some(over) => Some(over.ratio(confidence)),
        None => hodges_lehmann(&nodes.concat(), confidence).map(ratio),
    }
}

/// The logarithm of the ratio of two heaps' times in each block that has both.
pub fn log_ratios(plan: &Plan, blocks: &[Block], heap: &str, baseline: &str) -> Vec<f64> {
    let ratio = |block: &Block| {
        let (above, below) = (net_time(plan, block, heap)?.0, net_time(plan, block, baseline)?.0);
        Some((above.max(RESOLUTION_NS) / below.max(RESOLUTION_NS)).ln())
    };
    blocks.iter().filter_map(ratio).collect()
}

pub(crate) fn compare_time(
    plan: &Plan,
    measured: &Measured,
    heap: &HeapResult,
    baseline: &HeapResult,
) -> Option<Compared> {
    let logarithms = log_ratios(plan, &measured.blocks, &heap.heap, &baseline.heap);
    let settings = &plan.settings;
    let resamples = resamples(logarithms.len());
    let bootstrap =
        bootstrap(&logarithms, median, settings.confidence, resamples, settings.seed).map(ratio);
    let mut compared = Compared::of(&heap.heap, &baseline.heap, vec![logarithms], settings)?;
    compared.comparison.bootstrap = bootstrap;
    Some(compared)
}

/// Corrects for the number of comparisons, and states the result of each.
///
/// A step-up procedure that shows R of m differences at a level compares each p with R/m of the
/// level, so the interval of that confidence agrees with it (Benjamini and Yekutieli 2005: false
/// coverage rate). If no difference is shown, the confidence is that of 1/m, with which the
/// smallest p would have had to agree.
pub fn adjust(times: &mut [Compared], settings: &Settings, canary: Option<&Canary>) {
    let p_values: Vec<f64> = times.iter().filter_map(|time| time.comparison.p_value).collect();
    let adjusted = benjamini_hochberg(&p_values);
    let level = 1.0 - settings.confidence;
    let shown = adjusted.iter().filter(|p| **p <= level).count().max(1);
    let confidence = 1.0 - level * shown as f64 / adjusted.len().max(1) as f64;
    let spread =
        canary.filter(|canary| !canary.unsteady_blocks.is_empty()).map(|canary| canary.spread);
    for (Compared { comparison, nodes }, p) in times.iter_mut().zip(adjusted) {
        comparison.p_adjusted = Some(p);
        comparison.confidence = Some(confidence);
        if let Some(ratio) = ratio_of(nodes, confidence) {
            comparison.ratio = ratio;
        }
        comparison.widened = spread;
        if let Some(spread) = spread {
            comparison.ratio.low /= 1.0 + spread;
            comparison.ratio.high *= 1.0 + spread;
        }
        let ratio = comparison.ratio;
        // An interval by ranks of too few blocks lacks the stated confidence, so nothing follows
        // from it.
        let enough = comparison.nodes.is_some() || comparison.blocks >= blocks_needed(confidence);
        comparison.outcome = match () {
            () if !enough => Outcome::NotShown,
            () if within(ratio, settings.margin) => Outcome::Equivalent,
            () if p <= level && ratio.high < 1.0 => Outcome::Less,
            () if p <= level && ratio.low > 1.0 => Outcome::More,
            () => Outcome::NotShown,
        };
    }
}

/// The fewest blocks with which the signed-rank test can reach `confidence`: 6 for 95 %.
pub fn blocks_needed(confidence: f64) -> u32 {
    (1..64).find(|blocks| 2.0_f64.powi(1 - *blocks) <= 1.0 - confidence + 1e-12).unwrap_or(64)
        as u32
}

/// The fewest blocks with which one of `comparisons` can be shown, whatever the others show, after
/// the correction for their number.
pub fn blocks_needed_for(confidence: f64, comparisons: u32) -> u32 {
    blocks_needed(1.0 - (1.0 - confidence) / f64::from(comparisons.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_statistics::Random;

    fn settings(margin: f64) -> Settings {
        Settings { confidence: 0.95, margin, ..Settings::default() }
    }

    fn compared(logarithms: Vec<f64>) -> Compared {
        Compared::of("a", "b", vec![logarithms], &settings(0.0)).unwrap()
    }

    /// Thousands of experiments of two to five heaps, some of which differ: an interval excludes 1
    /// exactly if the corrected test shows a difference.
    #[test]
    fn intervals_and_corrected_p_values_agree() {
        let mut random = Random(7);
        let (mut shown, mut not_shown) = (0, 0);
        for round in 0..3000u64 {
            let blocks = 10 + round as usize % 11;
            let mut times: Vec<Compared> = (0..1 + round % 4)
                .map(|heap| {
                    let shift = heap as f64 * 0.15;
                    let noise = |draw: u64| draw as f64 / u64::MAX as f64 - 0.5;
                    compared((0..blocks).map(|_| shift + noise(random.draw())).collect())
                })
                .collect();
            adjust(&mut times, &settings(0.0), None);
            for Compared { comparison, .. } in &times {
                let ratio = comparison.ratio;
                let excludes = ratio.low > 1.0 || ratio.high < 1.0;
                assert_eq!(excludes, comparison.p_adjusted.unwrap() <= 0.05, "{comparison:?}");
                let differs = matches!(comparison.outcome, Outcome::Less | Outcome::More);
                assert_eq!(excludes, differs, "{comparison:?}");
                if differs { shown += 1 } else { not_shown += 1 }
            }
        }
        assert!(shown > 1000 && not_shown > 1000, "{shown} {not_shown}");
    }

    #[test]
    fn machines_that_differ_show_less_than_their_blocks() {
        let node = |ratio: f64| -> Vec<f64> {
            (0..10).map(|block| (ratio + 0.001 * f64::from(block)).ln()).collect()
        };
        let outcome = |nodes: Vec<Vec<f64>>| {
            let mut times = [Compared::of("a", "b", nodes, &settings(0.03)).unwrap()];
            adjust(&mut times, &settings(0.03), None);
            times[0].comparison.clone()
        };
        let nodes = vec![node(1.05), node(1.2), node(1.6)];
        let all = outcome(vec![nodes.concat()]);
        assert_eq!((all.outcome, all.nodes), (Outcome::More, None), "as if of one machine");
        let over = outcome(nodes);
        assert_eq!((over.outcome, over.blocks), (Outcome::NotShown, 30), "{over:?}");
        assert!(over.nodes.is_some_and(|over| over.nodes == 3 && over.between > 0.1), "{over:?}");
        let alike = outcome(vec![node(1.2), node(1.21), node(1.19)]);
        assert_eq!(alike.outcome, Outcome::More, "{alike:?}");
    }

    #[test]
    fn an_unsteady_machine_widens_intervals_until_nothing_is_shown() {
        let ten: Vec<f64> = (0..10).map(|block| (1.2 + 0.005 * f64::from(block)).ln()).collect();
        let on = |spread: f64, unsteady_blocks: Vec<u32>| {
            let mut times = [compared(ten.clone())];
            let canary = Canary { median_ns: 1.0, spread, unsteady_blocks };
            adjust(&mut times, &settings(0.03), Some(&canary));
            let [Compared { comparison, .. }] = times;
            comparison
        };
        let steady = on(0.05, Vec::new());
        assert_eq!((steady.outcome, steady.widened), (Outcome::More, None));
        let unsteady = on(0.12, vec![3]);
        assert_eq!((unsteady.outcome, unsteady.widened), (Outcome::More, Some(0.12)));
        assert!((unsteady.ratio.low * 1.12 - steady.ratio.low).abs() < 1e-12);
        assert!((unsteady.ratio.high / 1.12 - steady.ratio.high).abs() < 1e-12);
        assert_eq!(on(0.4, vec![3, 4]).outcome, Outcome::NotShown);
    }
}
