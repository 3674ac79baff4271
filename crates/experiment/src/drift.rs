//! Verdicts of time on unsteady machines, by simulation: of experiments whose heaps truly take the
//! same time, how many call one quicker?
//!
//! The results are counts, not chances, because seeds are fixed. Each cell runs at some moment of a
//! machine whose speed changes from cell to cell. The canary runs on the same machine at its own
//! moment.

use crate::plan::{CANARY, HeapCell, NULL_HEAP, Plan};
use crate::process::CellRunner;
use crate::results::{Comparison, Machine, Measure, Outcome, Settings, Workload};
use crate::run::{Block, BlockCell, Measured};
use crate::summary::summarize;
use heaplab_replay::{CellKind, CellReport, CellRequest, TimeReport};
use heaplab_statistics::Random;
use std::cell::RefCell;

const EVENTS: u64 = 1_000_000;
/// Experiments of each kind of machine.
const EXPERIMENTS: u64 = 200;
/// Standard deviation of a cell's own noise.
const NOISE: f64 = 0.01;

/// A change of a machine's speed: the factor on each cell's time, in the order of the cells.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// No change.
    Quiet,
    /// Everything takes 2 % longer from cell to cell: 80 % in ten blocks of four cells.
    Rising,
    /// Another program comes and goes, and takes three tenths while it runs.
    Bursts,
    /// The speed walks at random, 5 % a cell.
    Walk,
}

struct Simulated {
    load: Load,
    random: RefCell<Random>,
    /// Logarithm of the machine's present factor on times.
    slowness: RefCell<f64>,
    second: Second,
}

/// The second heap.
#[derive(Clone, Copy, Debug)]
struct Second {
    /// Its time relative to the first one's.
    ratio: f64,
    /// Its sensitivity to the machine: a heap with more cache misses feels a change more.
    sensitivity: f64,
}

const SAME: Second = Second { ratio: 1.0, sensitivity: 1.0 };

fn normal(random: &mut Random) -> f64 {
    // The sum of twelve uniform draws less its mean.
    (0..12).map(|_| random.below(1 << 32) as f64 / (1_u64 << 32) as f64).sum::<f64>() - 6.0
}

impl CellRunner for Simulated {
    fn run(&self, request: &CellRequest, _: &[(String, String)]) -> Result<CellReport, String> {
        let mut random = self.random.borrow_mut();
        let mut slowness = self.slowness.borrow_mut();
        match self.load {
            Load::Quiet => {}
            Load::Rising => *slowness += 0.02,
            Load::Bursts => {
                let turns = random.below(4) == 0;
                if turns {
                    *slowness = if *slowness > 0.0 { 0.0 } else { 0.3 };
                }
            }
            Load::Walk => *slowness += 0.05 * normal(&mut random),
        }
        let noise = NOISE * normal(&mut random);
        let ns = |heap_ns: f64, sensitivity: f64| {
            (EVENTS as f64 * heap_ns * (*slowness * sensitivity + noise).exp()) as u64
        };
        let pass = match request.heap.as_str() {
            _ if request.kind == CellKind::Canary => {
                return Ok(CellReport::Canary { ns: ns(50.0, 1.0) });
            }
            NULL_HEAP => ns(5.0, 1.0),
            "b" => ns(25.0 * self.second.ratio, self.second.sensitivity),
            _ => ns(25.0, 1.0),
        };
        Ok(CellReport::Time(TimeReport { passes_ns: vec![pass], ..TimeReport::default() }))
    }
}

fn plan(seed: u64) -> Plan {
    Plan {
        workload: Workload { events: EVENTS, ..Workload::default() },
        heaps: ["a", "b"].map(HeapCell::named).into(),
        settings: Settings {
            reps: 10,
            passes: 1,
            seed,
            margin: 0.03,
            confidence: 0.95,
            ..Settings::default()
        },
        space: false,
        ..Plan::default()
    }
}

/// An experiment on such a machine.
fn experiment(load: Load, second: Second, seed: u64) -> Comparison {
    let plan = plan(seed);
    let runner = Simulated {
        load,
        random: RefCell::new(Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        slowness: RefCell::new(0.0),
        second,
    };
    let cell = |heap: &str| {
        let kind = if heap == CANARY { CellKind::Canary } else { CellKind::Time };
        let report = runner.run(&plan.request(heap, kind), &[]).expect("it is simulated");
        BlockCell { heap: heap.into(), report }
    };
    let blocks = (0..plan.settings.reps)
        .map(|number| Block {
            experiment: String::new(),
            block: number,
            cells: plan.order(number).into_iter().map(cell).collect(),
        })
        .collect();
    let results = summarize(&plan, &Measured { blocks, ..Measured::default() }, Machine::default());
    let found = results.comparisons.into_iter().find(|found| found.measure == Measure::Time);
    found.expect("both heaps ran")
}

fn shows_a_difference(found: &Comparison) -> bool {
    matches!(found.outcome, Outcome::Less | Outcome::More)
}

#[test]
fn a_machine_that_changes_makes_no_heap_quicker() {
    for load in [Load::Quiet, Load::Rising, Load::Bursts, Load::Walk] {
        let false_verdicts = (0..EXPERIMENTS)
            .filter(|seed| shows_a_difference(&experiment(load, SAME, *seed)))
            .count() as u64;
        assert!(
            false_verdicts * 100 <= EXPERIMENTS * 6,
            "{load:?}: {false_verdicts} of {EXPERIMENTS} at a level of 5 %"
        );
    }
}

/// Two experiments with the same heaps, one of them on a busy machine. Their intervals overlap,
/// although the load slows the second heap one and a half times as much.
#[test]
fn two_experiments_agree_on_a_busy_machine() {
    let second = Second { sensitivity: 1.5, ..SAME };
    for load in [Load::Rising, Load::Bursts, Load::Walk] {
        let disjoint = (0..EXPERIMENTS)
            .filter(|seed| {
                let quiet = experiment(Load::Quiet, second, *seed).ratio;
                let busy = experiment(load, second, seed + EXPERIMENTS).ratio;
                quiet.high < busy.low || busy.high < quiet.low
            })
            .count() as u64;
        assert!(
            disjoint * 100 <= EXPERIMENTS * 5,
            "{load:?}: {disjoint} of {EXPERIMENTS} pairs contradict each other"
        );
    }
}

/// The protection from false verdicts hides no true ones: a difference of a tenth is shown on a
/// quiet machine.
#[test]
fn a_difference_is_shown_on_a_quiet_machine() {
    let second = Second { ratio: 1.1, ..SAME };
    let shown = (0..EXPERIMENTS)
        .filter(|seed| experiment(Load::Quiet, second, *seed).outcome == Outcome::More)
        .count() as u64;
    assert!(shown * 100 >= EXPERIMENTS * 99, "{shown} of {EXPERIMENTS}");
}
