//! A program as recorded and as changed, on the same heaps: the saving of a change.
//!
//! Every time block holds the cells of both workloads in one random order. So changes of the
//! machine between two blocks affect both alike, and each run is compared with the other workload's
//! run in its block. Times are those of whole runs, because a changed program makes fewer requests,
//! and its time an event says nothing. Each workload's own null heap gives the driver's part, which
//! is subtracted.

use crate::comparison::{Compared, RESOLUTION_NS, adjust, compare_space};
use crate::plan::{CANARY, NULL_HEAP, Plan};
use crate::process::CellRunner;
use crate::results::{Comparison, HeapResult, Measure, Results};
use crate::run::{Block, BlockCell, ExperimentError, Measured, Progress, machine, space, verify};
use crate::summary::{net_time, summarize};
use heaplab_replay::{CellKind, CellReport};
use heaplab_statistics::Random;
use serde::Serialize;

/// The recorded workload's name in comparisons.
pub const AS_RECORDED: &str = "as recorded";

/// Two workloads on the same heaps, measured alike. Results are not kept in a folder.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The recorded workload.
    pub before: Plan,
    /// The changed workload.
    pub after: Plan,
}

/// The results of a pair.
#[derive(Clone, Debug, Serialize)]
pub struct PairResults {
    /// Results of the recorded workload.
    pub before: Results,
    /// Results of the changed one.
    pub after: Results,
    /// Each heap with the changed workload against itself with the recorded one; ratios below 1
    /// mean less. Of time: ns of whole runs.
    pub comparisons: Vec<Comparison>,
    /// ns of whole runs, in the order of the heaps; without those that were not timed.
    pub runs: Vec<RunTimes>,
}

/// The time of a run on one heap, medians over the blocks, without the driver's part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunTimes {
    /// The heap.
    pub heap: String,
    /// Time of the recorded workload, ns.
    pub before_ns: f64,
    /// Time of the changed workload, ns.
    pub after_ns: f64,
}

/// Runs both. Calls `report` before each cell.
///
/// # Errors
/// The driver itself could not be measured.
pub fn run_pair(
    pair: &Pair,
    runner: &dyn CellRunner,
    mut report: impl FnMut(&Progress),
) -> Result<PairResults, ExperimentError> {
    let plans = [&pair.before, &pair.after];
    let mut progress = Progress { done: 0, total: cells(pair), now: String::new() };
    let mut tell = move |now: String| {
        progress.now = now;
        report(&progress);
        progress.done += 1;
    };
    let mut measured = [Measured::default(), Measured::default()];
    for (plan, measured) in plans.iter().zip(&mut measured) {
        if plan.verify {
            verify(plan, runner, measured, &mut tell)?;
        }
        if plan.space {
            space(plan, runner, measured, &mut tell)?;
        }
    }
    if pair.before.time {
        for number in pair.before.blocks() {
            let blocks = time_block(pair, runner, number, &mut tell);
            measured.iter_mut().zip(blocks).for_each(|(of, block)| of.blocks.push(block));
        }
    }
    Ok(results(pair, &measured))
}

/// Cells of both, at the most.
fn cells(pair: &Pair) -> u32 {
    let of = |plan: &Plan| {
        let heaps = plan.heaps.len() as u32;
        let space = 2 + heaps + plan.heaps.iter().map(|heap| heap.space_cells).sum::<u32>();
        if plan.space { space } else { 0 }
    };
    let heaps = pair.before.heaps.len() as u32;
    let time = pair.before.blocks().count() as u32 * (2 * (heaps + 1) + 1);
    of(&pair.before) + of(&pair.after) + if pair.before.time { time } else { 0 }
}

/// The cells of both workloads in one order; they share the canary.
fn time_block(
    pair: &Pair,
    runner: &dyn CellRunner,
    number: u32,
    tell: &mut dyn FnMut(String),
) -> [Block; 2] {
    let plans = [&pair.before, &pair.after];
    let heaps = || pair.before.heaps.iter().map(|heap| heap.name.as_str()).chain([NULL_HEAP]);
    let mut order: Vec<(usize, &str)> =
        heaps().flat_map(|heap| [(0, heap), (1, heap)]).chain([(0, CANARY)]).collect();
    Random(pair.before.settings.seed ^ (u64::from(number) << 32)).shuffle(&mut order);
    let mut blocks =
        plans.map(|plan| Block { experiment: plan.name(), block: number, cells: Vec::new() });
    for (which, heap) in order {
        let whose = ["recorded", "changed"][which];
        tell(format!("time block {}: {heap}, {whose}", number + 1));
        let kind = if heap == CANARY { CellKind::Canary } else { CellKind::Time };
        let plan = plans[which];
        let report = runner
            .run(&plan.request(heap, kind), plan.environment(heap))
            .unwrap_or_else(|reason| CellReport::Failed { reason });
        let cell = BlockCell { heap: heap.into(), report };
        if heap == CANARY {
            blocks[1].cells.push(cell.clone());
        }
        blocks[which].cells.push(cell);
    }
    blocks
}

fn results(pair: &Pair, [was, would_be]: &[Measured; 2]) -> PairResults {
    let before = summarize(&pair.before, was, machine());
    let after = summarize(&pair.after, would_be, machine());
    let heaps = || after.heaps.iter().zip(&before.heaps);
    let mut comparisons: Vec<Comparison> =
        heaps().filter_map(|(after, before)| compare_space(&pair.after, after, before)).collect();
    let mut times: Vec<Compared> =
        heaps().filter_map(|(after, _)| compare_runs(pair, was, would_be, after)).collect();
    adjust(&mut times, &pair.after.settings, before.canary.as_ref());
    let runs = heaps().filter_map(|(after, before)| run_times(pair, after, before)).collect();
    comparisons.extend(times.into_iter().map(|time| time.comparison));
    for comparison in &mut comparisons {
        comparison.baseline = AS_RECORDED.into();
    }
    PairResults { before, after, comparisons, runs }
}

/// ns of a run of a whole workload in one block.
fn run_ns(plan: &Plan, block: &Block, heap: &str) -> Option<f64> {
    Some(net_time(plan, block, heap)?.0 * plan.workload.events.max(1) as f64)
}

fn run_times(pair: &Pair, after: &HeapResult, before: &HeapResult) -> Option<RunTimes> {
    let ns = |heap: &HeapResult, plan: &Plan| {
        let time = heap.time.as_ref()?;
        Some(time.ns_per_event.value * plan.workload.events as f64)
    };
    let (before_ns, after_ns) = (ns(before, &pair.before)?, ns(after, &pair.after)?);
    Some(RunTimes { heap: after.heap.clone(), before_ns, after_ns })
}

fn compare_runs(
    pair: &Pair,
    was: &Measured,
    would_be: &Measured,
    heap: &HeapResult,
) -> Option<Compared> {
    let least = RESOLUTION_NS;
    let logarithms: Vec<f64> = was
        .blocks
        .iter()
        .zip(&would_be.blocks)
        .filter_map(|(was, would_be)| {
            let before = run_ns(&pair.before, was, &heap.heap)?;
            let after = run_ns(&pair.after, would_be, &heap.heap)?;
            let least = least * pair.before.workload.events.max(1) as f64;
            Some((after.max(least) / before.max(least)).ln())
        })
        .collect();
    Compared::of(&heap.heap, &heap.heap, vec![logarithms], &pair.after.settings)
}

impl PairResults {
    /// The comparison of a heap with itself.
    pub fn comparison(&self, heap: &str, measure: Measure) -> Option<&Comparison> {
        self.comparisons.iter().find(|of| of.heap == heap && of.measure == measure)
    }

    /// Peak resident bytes on a heap, recorded and changed.
    pub fn peaks(&self, heap: &str) -> Option<(u64, u64)> {
        let peak = |results: &Results| {
            let heap = results.heaps.iter().find(|of| of.heap == heap)?;
            Some(heap.space.as_ref()?.peak_resident_bytes)
        };
        Some((peak(&self.before)?, peak(&self.after)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::HeapCell;
    use crate::results::{Outcome, Settings, Workload};
    use heaplab_replay::{CellRequest, TimeReport};
    use std::path::PathBuf;

    /// Takes as long for a run as the plan's program is called.
    struct Named;

    impl CellRunner for Named {
        fn run(
            &self,
            request: &CellRequest,
            _environment: &[(String, String)],
        ) -> Result<CellReport, String> {
            if request.kind == CellKind::Canary {
                return Ok(CellReport::Canary { ns: 1000 });
            }
            let run: u64 = request.program.display().to_string().parse().unwrap();
            // The driver takes as long for both.
            let ns = if request.heap == NULL_HEAP { 500 } else { 500 + run };
            let passes_ns = vec![ns; request.passes as usize];
            let cpu_ns = passes_ns.iter().sum();
            let version = String::new();
            let (minor_faults, collections) = (0, Vec::new());
            Ok(CellReport::Time(TimeReport {
                version,
                passes_ns,
                cpu_ns,
                minor_faults,
                collections,
            }))
        }
    }

    fn plan(run_ns: u64, events: u64) -> Plan {
        Plan {
            program: PathBuf::from(run_ns.to_string()),
            workload: Workload { events, ..Workload::default() },
            heaps: vec![HeapCell::named("glibc")],
            settings: Settings {
                reps: 10,
                passes: 2,
                confidence: 0.95,
                margin: 0.03,
                ..Settings::default()
            },
            space: false,
            ..Plan::default()
        }
    }

    #[test]
    fn runs_are_compared_whole_and_without_the_driver() {
        // Half the events in half the time: as long an event, half as long a run.
        let pair = Pair { before: plan(8000, 80), after: plan(4000, 40) };
        let mut told = Vec::new();
        let results = run_pair(&pair, &Named, |progress| told.push(progress.done)).unwrap();
        let comparison = results.comparison("glibc", Measure::Time).unwrap();
        assert!((comparison.ratio.value - 0.5).abs() < 1e-9, "{comparison:?}");
        assert_eq!((comparison.outcome, comparison.blocks), (Outcome::Less, 10));
        assert_eq!(comparison.baseline, AS_RECORDED);
        let runs = &results.runs[0];
        assert_eq!((runs.before_ns.round(), runs.after_ns.round()), (8000.0, 4000.0));
        // Two heaps (the null one, too) and two workloads, and a canary.
        assert_eq!((told.len(), told.last()), (50, Some(&49)));
        let same = Pair { before: plan(8000, 80), after: plan(8000, 80) };
        let results = run_pair(&same, &Named, |_| ()).unwrap();
        assert_eq!(results.comparisons[0].outcome, Outcome::Equivalent);
        let ratio = results.comparisons[0].ratio;
        assert!(ratio.low <= 1.0 && ratio.high >= 1.0);
    }
}
