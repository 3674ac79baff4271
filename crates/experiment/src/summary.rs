//! From cells to results. Inside each block the driver's part is subtracted and heaps are compared;
//! only then are blocks combined.

use crate::comparison::{Compared, adjust, compare_space, compare_time};
use crate::plan::{CANARY, NULL_HEAP, Plan};
use crate::results::{
    Canary, CellFailure, HeapResult, Machine, OtherHugePages, RESULTS_VERSION, Results, Space,
    SpaceMoment, Time,
};
use crate::run::{Block, Measured};
use crate::verdict;
use heaplab_heap::Collection;
use heaplab_replay::{CellReport, SpaceReport, TimeReport};
use heaplab_statistics::{bootstrap, median};
use heaplab_trace::program::{Checkpoint, Facts, Program};
use std::time::{SystemTime, UNIX_EPOCH};

/// Resamplings of the bootstrap of so many values: 10,000, and fewer beyond 10,000 values, where
/// each takes long.
pub(crate) fn resamples(values: usize) -> usize {
    (100_000_000 / values.max(1)).clamp(1_000, 10_000)
}
/// Relative distance from the canary's median beyond which a block is called unsteady.
pub const CANARY_SPREAD: f64 = 0.1;

/// Combines the measurements.
pub fn summarize(plan: &Plan, measured: &Measured, machine: Machine) -> Results {
    let mut results = each_heap(plan, measured, machine);
    let mut comparisons = Vec::new();
    if let Some((baseline, others)) = results.heaps.split_first() {
        comparisons.extend(others.iter().filter_map(|heap| compare_space(plan, heap, baseline)));
        let mut times: Vec<Compared> =
            others.iter().filter_map(|heap| compare_time(plan, measured, heap, baseline)).collect();
        adjust(&mut times, &plan.settings, results.canary.as_ref());
        comparisons.extend(times.into_iter().map(|time| time.comparison));
    }
    results.comparisons = comparisons;
    results.verdict = verdict::sentences(&results);
    results.cautions = verdict::cautions(&results);
    results
}

/// The results of each heap by itself: nothing is compared, and nothing concluded.
pub fn each_heap(plan: &Plan, measured: &Measured, machine: Machine) -> Results {
    let heaps = plan.heaps.iter().map(|heap| heap_result(plan, measured, &heap.name)).collect();
    Results {
        format_version: RESULTS_VERSION,
        workload: plan.workload.clone(),
        settings: plan.settings.clone(),
        machine,
        heaps,
        comparisons: Vec::new(),
        canary: canary(&measured.blocks),
        verdict: Vec::new(),
        cautions: Vec::new(),
        measured_unix_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        earlier: None,
    }
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

/// The same for bytes in huge pages.
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

/// The space of one heap from its cells; `None`: the program cannot be read, or there is no cell.
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
    // The median cell stands for all, so that its curve and its peak are of one run.
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
        // This process has anonymous memory before the first event.
        resident_unknown: typical.baseline_bytes == 0
            && typical.samples.iter().all(|sample| sample.anonymous_bytes == 0),
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
pub fn net_time(plan: &Plan, block: &Block, heap: &str) -> Option<(f64, f64)> {
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
            resamples(all.len()),
            plan.settings.seed,
        )?,
        driver_ns_per_event: median(&driver)?,
        first_pass_ns_per_event: median(&first)?,
        minor_faults: median(&faults)? as u64,
        blocks_ns_per_event: all,
    })
}

/// The time of a block's canary; `None`: the block has none, or it failed.
pub fn canary_ns(block: &Block) -> Option<f64> {
    block.cells.iter().find(|cell| cell.heap == CANARY).and_then(|cell| match cell.report {
        CellReport::Canary { ns } => Some(ns as f64),
        _ => None,
    })
}

fn canary(blocks: &[Block]) -> Option<Canary> {
    let of = |block: &Block| Some((block.block, canary_ns(block)?));
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
