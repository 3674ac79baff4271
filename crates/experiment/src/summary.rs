//! From cells to results: the driver's part is taken off inside each block, heaps are compared
//! inside each block, and only then are blocks put together.

use crate::plan::{CANARY, NULL_HEAP, Plan};
use crate::results::{
    Canary, CellFailure, Comparison, Estimate, HeapResult, Machine, Measure, OtherHugePages,
    Outcome, RESULTS_VERSION, Results, Settings, Space, SpaceMoment, Time,
};
use crate::run::{Block, Measured};
use crate::statistics::{benjamini_hochberg, bootstrap, hodges_lehmann, median, wilcoxon};
use crate::verdict;
use heaplab_heap::Collection;
use heaplab_replay::{CellReport, SpaceReport, TimeReport};
use heaplab_trace::program::{Checkpoint, Facts, Program};
use std::time::{SystemTime, UNIX_EPOCH};

/// Resamplings of the bootstrap.
const RESAMPLES: usize = 10_000;
/// Relative distance from the canary's median beyond which a block is called unsteady.
const CANARY_SPREAD: f64 = 0.1;
/// ns an event below which a heap cannot be told from the driver: about what two runs of the null
/// heap differ by.
pub(crate) const RESOLUTION_NS: f64 = 0.1;

/// Puts together what was measured.
pub fn summarize(plan: &Plan, measured: &Measured, machine: Machine) -> Results {
    let heaps: Vec<HeapResult> =
        plan.heaps.iter().map(|heap| heap_result(plan, measured, &heap.name)).collect();
    let mut comparisons = Vec::new();
    let canary = canary(&measured.blocks);
    if let Some((baseline, others)) = heaps.split_first() {
        comparisons.extend(others.iter().filter_map(|heap| compare_space(plan, heap, baseline)));
        let mut times: Vec<Compared> =
            others.iter().filter_map(|heap| compare_time(plan, measured, heap, baseline)).collect();
        adjust(&mut times, &plan.settings, canary.as_ref());
        comparisons.extend(times.into_iter().map(|time| time.comparison));
    }
    let mut results = Results {
        format_version: RESULTS_VERSION,
        workload: plan.workload.clone(),
        settings: plan.settings.clone(),
        machine,
        heaps,
        comparisons,
        canary,
        verdict: Vec::new(),
        cautions: Vec::new(),
        measured_unix_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        earlier: None,
    };
    results.verdict = verdict::sentences(&results);
    results.cautions = verdict::cautions(&results);
    results
}

fn heap_result(plan: &Plan, measured: &Measured, name: &str) -> HeapResult {
    let mut failures: Vec<CellFailure> = measured
        .failures
        .iter()
        .filter(|(heap, _)| heap == name)
        .map(|(_, failure)| failure.clone())
        .collect();
    for block in &measured.blocks {
        for cell in block.cells.iter().filter(|cell| cell.heap == name) {
            if let CellReport::Failed { reason } = &cell.report {
                failures.push(CellFailure {
                    kind: "time".into(),
                    block: block.block,
                    reason: reason.clone(),
                });
            }
        }
    }
    let cells = measured.space.iter().find(|cells| cells.heap == name);
    let space = cells
        .zip(measured.null_space.as_ref())
        .and_then(|(cells, null)| space(plan, &cells.reports, null))
        .map(|space| Space { other_huge_pages: beside(measured, name), ..space });
    let version =
        cells.and_then(|cells| cells.reports.first()).map(|report| report.version.clone());
    let version = version.or_else(|| {
        measured.blocks.iter().find_map(|block| Some(time_report(block, name)?.version.clone()))
    });
    let time = time(plan, measured, name);
    let collections = collections(measured, name);
    let log = cells.and_then(|cells| cells.reports.first()).map(|report| report.log.clone());
    let cell = plan.heaps.iter().find(|heap| heap.name == name);
    let without_huge_pages = cell.and_then(|heap| heap.without_huge_pages.clone());
    HeapResult {
        heap: name.into(),
        alias_of: None,
        version: version.unwrap_or_default(),
        space,
        time,
        collections,
        log: log.unwrap_or_default(),
        failures,
        without_huge_pages,
    }
}

/// The collections of a heap's space cell, or of its first time block; each with the median of its
/// pauses over the blocks that collected as often.
fn collections(measured: &Measured, name: &str) -> Vec<Collection> {
    let timed: Vec<&[Collection]> = measured
        .blocks
        .iter()
        .filter_map(|block| Some(&time_report(block, name)?.collections[..]))
        .collect();
    let cells = measured.space.iter().find(|cells| cells.heap == name);
    let of_space =
        cells.and_then(|cells| cells.reports.first()).map(|report| &report.collections[..]);
    let mut collections = of_space
        .filter(|rows| !rows.is_empty())
        .or(timed.first().copied())
        .unwrap_or_default()
        .to_vec();
    let alike: Vec<&&[Collection]> =
        timed.iter().filter(|rows| rows.len() == collections.len()).collect();
    for (nth, collection) in collections.iter_mut().enumerate() {
        let pauses: Vec<f64> =
            alike.iter().filter_map(|rows| rows[nth].pause_ns).map(|pause| pause as f64).collect();
        collection.pause_ns = median(&pauses).map(|pause| pause as u64);
    }
    collections
}

fn time_report<'a>(block: &'a Block, heap: &str) -> Option<&'a TimeReport> {
    block.cells.iter().find(|cell| cell.heap == heap).and_then(|cell| match &cell.report {
        CellReport::Time(report) => Some(report),
        _ => None,
    })
}

/// The process's growth since its first event, less that of a driver without a heap.
fn net_bytes(report: &SpaceReport, null: &SpaceReport, checkpoint: usize) -> u64 {
    let grown = |report: &SpaceReport| {
        let now = report
            .samples
            .get(checkpoint)
            .map_or(report.baseline_bytes, |sample| sample.anonymous_bytes);
        now as i128 - i128::from(report.baseline_bytes)
    };
    (grown(report) - grown(null)).max(0) as u64
}

/// The same of what lies in huge pages.
fn net_huge_bytes(report: &SpaceReport, null: &SpaceReport, checkpoint: usize) -> u64 {
    let grown = |report: &SpaceReport| {
        let now = report
            .samples
            .get(checkpoint)
            .map_or(report.baseline_huge_bytes, |sample| sample.huge_bytes);
        now as i128 - i128::from(report.baseline_huge_bytes)
    };
    (grown(report) - grown(null)).max(0) as u64
}

/// The peak under the other setting of huge pages.
fn beside(measured: &Measured, name: &str) -> Option<OtherHugePages> {
    let cells = measured.space.iter().find(|cells| cells.heap == name)?;
    let (report, null) = (cells.beside.as_ref()?, measured.null_beside.as_ref()?);
    let largest = (0..report.samples.len()).max_by_key(|index| net_bytes(report, null, *index))?;
    let peak_resident_bytes = net_bytes(report, null, largest);
    Some(OtherHugePages {
        peak_resident_bytes,
        peak_huge_page_bytes: net_huge_bytes(report, null, largest).min(peak_resident_bytes),
    })
}

/// What the space cells of one heap say; `None`: the program cannot be read, or there is no cell.
pub fn space(plan: &Plan, reports: &[SpaceReport], null: &SpaceReport) -> Option<Space> {
    let program = Program::open(&plan.program).ok()?;
    space_of(program.facts(), program.checkpoints(), reports, null)
}

fn space_of(
    facts: &Facts,
    checkpoints: &[Checkpoint],
    reports: &[SpaceReport],
    null: &SpaceReport,
) -> Option<Space> {
    let peak = |report: &SpaceReport| {
        (0..report.samples.len()).map(|index| net_bytes(report, null, index)).max().unwrap_or(0)
    };
    let mut by_peak: Vec<&SpaceReport> = reports.iter().collect();
    by_peak.sort_by_key(|report| peak(report));
    // The cell in the middle stands for all of them, so that its curve and its peak are of one run.
    let typical = *by_peak.get(by_peak.len().checked_sub(1)? / 2)?;
    let moments = checkpoints.iter().zip(&typical.samples).enumerate();
    let curve: Vec<SpaceMoment> = moments
        .map(|(index, (checkpoint, sample))| SpaceMoment {
            event: checkpoint.event,
            requested_bytes: checkpoint.requested_bytes,
            resident_bytes: net_bytes(typical, null, index),
            committed_bytes: sample.committed_bytes,
            active_bytes: sample.active_bytes,
            mark: checkpoint.mark.and_then(|mark| facts.marks.get(mark as usize).cloned()),
        })
        .collect();
    let largest = (0..curve.len()).max_by_key(|index| curve[*index].resident_bytes)?;
    let at_requested_peak = curve.iter().max_by_key(|moment| moment.requested_bytes)?;
    let last = curve.len().checked_sub(1)?;
    let trimmed = typical.trimmed_bytes.map(|bytes| {
        let end = typical.samples.last().map_or(bytes, |sample| sample.anonymous_bytes);
        net_bytes(typical, null, last).saturating_sub(end.saturating_sub(bytes))
    });
    let ranges = (
        by_peak.first().map_or(0, |report| peak(report)),
        by_peak.last().map_or(0, |report| peak(report)),
    );
    Some(Space {
        peak_resident_bytes: peak(typical),
        peak_resident_range_bytes: ranges,
        cells: reports.len() as u32,
        resident_at_requested_peak_bytes: at_requested_peak.resident_bytes,
        end_resident_bytes: curve[last].resident_bytes,
        trimmed_resident_bytes: trimmed,
        peak_committed_bytes: curve.iter().filter_map(|moment| moment.committed_bytes).max(),
        end_committed_bytes: curve[last].committed_bytes,
        resident_per_requested: at_requested_peak.resident_bytes as f64
            / at_requested_peak.requested_bytes.max(1) as f64,
        peak_huge_page_bytes: net_huge_bytes(typical, null, largest).min(peak(typical)),
        other_huge_pages: None,
        curve,
    })
}

/// ns an event of all passes and of the first.
fn per_event(plan: &Plan, report: &TimeReport) -> Option<(f64, f64)> {
    let events = plan.workload.events.max(1) as f64;
    let all: u64 = report.passes_ns.iter().sum();
    Some((
        all as f64 / (events * report.passes_ns.len() as f64),
        *report.passes_ns.first()? as f64 / events,
    ))
}

/// A heap's part in one block: all passes and the first, the driver's taken off.
pub(crate) fn net_time(plan: &Plan, block: &Block, heap: &str) -> Option<(f64, f64)> {
    let (all, first) = per_event(plan, time_report(block, heap)?)?;
    let (null_all, null_first) = per_event(plan, time_report(block, NULL_HEAP)?)?;
    Some((all - null_all, first - null_first))
}

fn time(plan: &Plan, measured: &Measured, heap: &str) -> Option<Time> {
    let blocks: Vec<(f64, f64)> =
        measured.blocks.iter().filter_map(|block| net_time(plan, block, heap)).collect();
    let all: Vec<f64> = blocks.iter().map(|(all, _)| *all).collect();
    let first: Vec<f64> = blocks.iter().map(|(_, first)| *first).collect();
    let driver: Vec<f64> = measured
        .blocks
        .iter()
        .filter_map(|block| Some(per_event(plan, time_report(block, NULL_HEAP)?)?.0))
        .collect();
    let faults: Vec<f64> = measured
        .blocks
        .iter()
        .filter_map(|block| Some(time_report(block, heap)?.minor_faults as f64))
        .collect();
    Some(Time {
        ns_per_event: bootstrap(
            &all,
            median,
            plan.settings.confidence,
            RESAMPLES,
            plan.settings.seed,
        )?,
        driver_ns_per_event: median(&driver)?,
        first_pass_ns_per_event: median(&first)?,
        minor_faults: median(&faults)? as u64,
        blocks_ns_per_event: all,
    })
}

pub(crate) fn compare_space(
    plan: &Plan,
    heap: &HeapResult,
    baseline: &HeapResult,
) -> Option<Comparison> {
    let (space, base) = (heap.space.as_ref()?, baseline.space.as_ref()?);
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
        outcome,
    })
}

fn within(ratio: Estimate, margin: f64) -> bool {
    ratio.low >= 1.0 / (1.0 + margin) && ratio.high <= 1.0 + margin
}

/// A comparison of times, with the logarithm of each block's ratio.
pub(crate) struct Compared {
    pub(crate) comparison: Comparison,
    pub(crate) logarithms: Vec<f64>,
}

/// An estimate of logarithms as one of ratios.
pub(crate) fn ratio(estimate: Estimate) -> Estimate {
    Estimate { value: estimate.value.exp(), low: estimate.low.exp(), high: estimate.high.exp() }
}

fn compare_time(
    plan: &Plan,
    measured: &Measured,
    heap: &HeapResult,
    baseline: &HeapResult,
) -> Option<Compared> {
    let logarithms: Vec<f64> = measured
        .blocks
        .iter()
        .filter_map(|block| {
            let (above, below) =
                (net_time(plan, block, &heap.heap)?.0, net_time(plan, block, &baseline.heap)?.0);
            Some((above.max(RESOLUTION_NS) / below.max(RESOLUTION_NS)).ln())
        })
        .collect();
    let settings = &plan.settings;
    let bootstrap =
        bootstrap(&logarithms, median, settings.confidence, RESAMPLES, settings.seed).map(ratio);
    let comparison = Comparison {
        heap: heap.heap.clone(),
        baseline: baseline.heap.clone(),
        measure: Measure::Time,
        ratio: ratio(hodges_lehmann(&logarithms, settings.confidence)?),
        confidence: None,
        widened: None,
        bootstrap,
        p_value: Some(wilcoxon(&logarithms).unwrap_or(1.0)),
        p_adjusted: None,
        blocks: logarithms.len() as u32,
        outcome: Outcome::NotShown,
    };
    Some(Compared { comparison, logarithms })
}

/// Corrects for the number of comparisons, and says what each shows.
///
/// The step-up procedure that shows R of m differences at a level compares each p with R/m of the
/// level, and so the interval of that confidence is the one that agrees with it (Benjamini and
/// Yekutieli 2005: false coverage rate). Where none is shown it is that of 1/m, with which the
/// smallest p would have had to agree.
pub(crate) fn adjust(times: &mut [Compared], settings: &Settings, canary: Option<&Canary>) {
    let p_values: Vec<f64> = times.iter().filter_map(|time| time.comparison.p_value).collect();
    let adjusted = benjamini_hochberg(&p_values);
    let level = 1.0 - settings.confidence;
    let shown = adjusted.iter().filter(|p| **p <= level).count().max(1);
    let confidence = 1.0 - level * shown as f64 / adjusted.len().max(1) as f64;
    let spread =
        canary.filter(|canary| !canary.unsteady_blocks.is_empty()).map(|canary| canary.spread);
    for (Compared { comparison, logarithms }, p) in times.iter_mut().zip(adjusted) {
        comparison.p_adjusted = Some(p);
        comparison.confidence = Some(confidence);
        if let Some(estimate) = hodges_lehmann(logarithms, confidence) {
            comparison.ratio = ratio(estimate);
        }
        comparison.widened = spread;
        if let Some(spread) = spread {
            comparison.ratio.low /= 1.0 + spread;
            comparison.ratio.high *= 1.0 + spread;
        }
        let ratio = comparison.ratio;
        // An interval of too few blocks is not one of the stated confidence, so nothing follows
        // from it.
        let enough = comparison.blocks >= blocks_needed(confidence);
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

/// The fewest with which one of `comparisons` can be shown whatever the others show, after the
/// correction for their number.
pub fn blocks_needed_for(confidence: f64, comparisons: u32) -> u32 {
    blocks_needed(1.0 - (1.0 - confidence) / f64::from(comparisons.max(1)))
}

fn canary(blocks: &[Block]) -> Option<Canary> {
    let of = |block: &Block| {
        block.cells.iter().find(|cell| cell.heap == CANARY).and_then(|cell| match cell.report {
            CellReport::Canary { ns } => Some((block.block, ns as f64)),
            _ => None,
        })
    };
    let times: Vec<(u32, f64)> = blocks.iter().filter_map(of).collect();
    let median_ns = median(&times.iter().map(|(_, ns)| *ns).collect::<Vec<_>>())?;
    let distance = |ns: f64| (ns / median_ns - 1.0).abs();
    Some(Canary {
        median_ns,
        spread: times.iter().map(|(_, ns)| distance(*ns)).fold(0.0, f64::max),
        unsteady_blocks: times
            .iter()
            .filter(|(_, ns)| distance(*ns) > CANARY_SPREAD)
            .map(|(block, _)| *block)
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Random;

    fn settings(margin: f64) -> Settings {
        Settings { confidence: 0.95, margin, ..Settings::default() }
    }

    fn compared(logarithms: Vec<f64>) -> Compared {
        let comparison = Comparison {
            heap: "a".into(),
            baseline: "b".into(),
            measure: Measure::Time,
            ratio: Estimate::default(),
            confidence: None,
            widened: None,
            bootstrap: None,
            p_value: wilcoxon(&logarithms),
            p_adjusted: None,
            blocks: logarithms.len() as u32,
            outcome: Outcome::NotShown,
        };
        Compared { comparison, logarithms }
    }

    /// Thousands of experiments of two to five heaps, some of which differ: an interval excludes 1
    /// exactly where the corrected test shows a difference.
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
