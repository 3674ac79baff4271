//! Measurements of the lab's own heaps: a recorded workload on a heap at each value of one of its
//! parameters, through the same cells as `heaplab replay` ([`heaplab_experiment`]).
//!
//! A heap is a command of one word, its name, and the varied parameter is its variable
//! (`ocaml:best-fit,overhead=80`). So plans, blocks and files are those of commands, with these
//! differences:
//! - Space depends only on the workload, unless the heap declares otherwise: one cell a setting,
//!   kept beside the recording. The null heap's growth at the same checkpoints is subtracted.
//! - Time is the CPU time of one pass on a fresh heap, so it belongs to the same collections as the
//!   space. The null heap's pass in the same block is subtracted.
//! - Collections are the heap's own rows; no runtime has to report them.

use crate::cell::{Canary, CellReport, Failure, Measure};
use crate::launch::Launch;
use crate::plan::{CellId, Plan};
use crate::runtimes::Collections;
use crate::source::{CellSource, Stopped};
use heaplab_experiment::plan::NULL_HEAP;
use heaplab_experiment::results::Space;
use heaplab_experiment::run::space_cell;
use heaplab_experiment::summary::space;
use heaplab_experiment::{CellRunner, HeapCell, Plan as Replay, Processes};
use heaplab_heap::{Collection, CollectorLog, FamilyError, SpaceState};
use heaplab_replay::{CellKind, CellReport as Replayed, Families, Selected, SpaceReport};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a word of OCaml's heap.
const WORD_BYTES: u64 = 8;
/// Kinds of collections that look at young objects alone.
const YOUNG_KINDS: [&str; 2] = ["scavenge", "minor"];
/// Parameters that pace these collections, and not those of the whole heap.
const YOUNG_PARAMETERS: [&str; 1] = ["semi_space"];

/// Runs cells of a plan as replays.
pub struct Replays<'a> {
    families: Families,
    /// The workload and its way of replay, without heaps.
    replay: Replay,
    runner: Processes<'a>,
    stop: &'a AtomicBool,
    spaces: RefCell<HashMap<String, SpaceReport>>,
    /// The null heap's pass in the running block, ns.
    driver_ns: RefCell<Option<u64>>,
}

/// The heap of a cell: a variant's heap with the varied parameter. `None`: the cell does not exist.
pub fn heap_name(plan: &Plan, cell: CellId) -> Option<String> {
    let launch = Launch::of(plan, cell)?;
    let mut name = launch.words.first()?.clone();
    for (parameter, value) in &launch.set {
        let separator = if name.contains(':') { ',' } else { ':' };
        name.push_str(&format!("{separator}{parameter}={value}"));
    }
    Some(name)
}

impl<'a> Replays<'a> {
    /// Replays after the pattern of `replay`; its heaps and passes are ignored. Cells end early
    /// when `stop` is set.
    pub fn new(
        families: Families,
        mut replay: Replay,
        runner: Processes<'a>,
        stop: &'a AtomicBool,
    ) -> Replays<'a> {
        (replay.heaps, replay.settings.passes) = (Vec::new(), 1);
        let runner = Processes { stop: Some(stop), ..runner };
        Replays {
            families,
            replay,
            runner,
            stop,
            spaces: RefCell::default(),
            driver_ns: RefCell::default(),
        }
    }

    /// The heaps of all cells.
    ///
    /// # Errors
    /// A heap lacks the varied parameter, or refuses a value of it.
    pub fn heaps(families: &Families, plan: &Plan) -> Result<Vec<Box<dyn Selected>>, FamilyError> {
        let names = plan.cells().into_iter().filter_map(|cell| heap_name(plan, cell));
        names.map(|name| families.parse(&name)).collect()
    }

    fn check(&self) -> Result<(), Stopped> {
        if self.stop.load(Ordering::Relaxed) { Err(Stopped::Interrupted) } else { Ok(()) }
    }

    /// A plan of the one heap.
    fn with(&self, heap: &str) -> Result<(Replay, HeapCell), String> {
        let selected = self.families.parse(heap).map_err(|error| error.to_string())?;
        let cell = HeapCell::of(&*selected, false);
        Ok((Replay { heaps: vec![cell.clone()], ..self.replay.clone() }, cell))
    }

    fn space(&self, heap: &str) -> Result<SpaceReport, String> {
        if let Some(report) = self.spaces.borrow().get(heap) {
            return Ok(report.clone());
        }
        let (mut plan, cell) = self.with(heap)?;
        let is_one = cell.space_cells == 1;
        if !is_one {
            // A heap whose space depends on time is measured in each block.
            plan.cache = None;
        }
        let report = space_cell(&plan, &self.runner, &cell.name, 0)?;
        if is_one {
            self.spaces.borrow_mut().insert(heap.into(), report.clone());
        }
        Ok(report)
    }

    /// CPU time of one pass, and its minor faults.
    fn time(&self, heap: &str) -> Result<(u64, u64), String> {
        let (plan, cell) = self.with(heap)?;
        match self.runner.run(&plan.request(&cell.name, CellKind::Time), &cell.environment)? {
            Replayed::Time(report) => Ok((report.passes_ns.iter().sum(), report.minor_faults)),
            other => Err(format!("it reported {other:?} instead of time")),
        }
    }

    /// The driver's own time of a pass.
    fn driver_ns(&self) -> Result<u64, Stopped> {
        if let Some(ns) = *self.driver_ns.borrow() {
            return Ok(ns);
        }
        let (ns, _) = self.time(NULL_HEAP).map_err(|reason| {
            Stopped::Impossible(format!("the driver's own cost could not be measured: {reason}"))
        })?;
        *self.driver_ns.borrow_mut() = Some(ns);
        Ok(ns)
    }

    fn measure(&self, heap: &str, is_young: bool, driver_ns: u64) -> Result<Measure, String> {
        let report = self.space(heap)?;
        let null = self.space(NULL_HEAP)?;
        let (replay, _) = self.with(heap)?;
        let space = space(&replay, std::slice::from_ref(&report), &null)
            .ok_or("its space was not measured at any moment")?;
        let (ns, minor_faults) = self.time(heap)?;
        // The null heap's noise may exceed the time of a heap with few events.
        let ns = ns.saturating_sub(driver_ns).max(1);
        Ok(Measure {
            wall_ns: ns,
            user_ns: ns,
            peak_bytes: space.peak_resident_bytes,
            peak_anonymous_bytes: space.peak_resident_bytes,
            mean_anonymous_bytes: mean_resident_bytes(&space),
            committed_bytes: committed_bytes(&space, &report.collections),
            minor_faults,
            processes: 1,
            looks: space.curve.len() as u32,
            collections: told(&report.collections, &report.log, is_young),
            ..Measure::default()
        })
    }
}

impl CellSource for Replays<'_> {
    fn run(&self, plan: &Plan, cell: CellId) -> Result<CellReport, Stopped> {
        self.check()?;
        let Some(heap) = heap_name(plan, cell) else {
            return Err(Stopped::Impossible(format!(
                "{}: there is no such cell",
                plan.label(cell)
            )));
        };
        let parameter = plan.vary.name().unwrap_or("");
        let is_young = YOUNG_PARAMETERS.contains(&parameter);
        let driver_ns = self.driver_ns()?;
        let measured = self.measure(&heap, is_young, driver_ns);
        // A cell that the same signal ended is no result.
        self.check()?;
        Ok(match measured {
            Ok(measure) => CellReport::Measured(Box::new(measure)),
            Err(reason) => CellReport::Failed(Failure { reason, ..Failure::default() }),
        })
    }

    /// The canary, and the driver's own pass in the block that begins.
    fn canary(&self, _: &Plan) -> Result<Canary, Stopped> {
        self.check()?;
        self.driver_ns.take();
        let request = self.replay.request(NULL_HEAP, CellKind::Canary);
        let report = self.runner.run(&request, &[]);
        self.check()?;
        self.driver_ns()?;
        match report {
            Ok(Replayed::Canary { ns }) => Ok(Canary { cpu_ns: ns, wall_ns: ns }),
            Ok(other) => Err(Stopped::Impossible(format!("the canary reported {other:?}"))),
            Err(reason) => Err(Stopped::Impossible(format!("the canary: {reason}"))),
        }
    }
}

/// The mean over the workload's events.
fn mean_resident_bytes(space: &Space) -> u64 {
    let pairs = space.curve.windows(2);
    let area: f64 = pairs
        .map(|pair| {
            let bytes = pair[0].resident_bytes as f64 + pair[1].resident_bytes as f64;
            bytes / 2.0 * (pair[1].event - pair[0].event) as f64
        })
        .sum();
    let length = |curve: &[heaplab_experiment::results::SpaceMoment]| {
        Some(curve.last()?.event - curve.first()?.event)
    };
    match length(&space.curve) {
        Some(events @ 1..) => (area / events as f64) as u64,
        _ => space.peak_resident_bytes,
    }
}

/// Largest committed bytes at a checkpoint or at the start of a collection.
fn committed_bytes(space: &Space, collections: &[Collection]) -> Option<u64> {
    let at_collections = collections.iter().map(|collection| {
        let others = collection.spaces.iter().map(|space| space.before.committed_bytes);
        collection.before.committed_bytes + others.sum::<u64>()
    });
    space.peak_committed_bytes.into_iter().chain(at_collections).max()
}

/// Collections of the kind that the parameter paces, and the garbage that they found.
///
/// An incremental collector's rows do not tell the garbage, because the program allocates during a
/// cycle. Its counters do, like those of the real OCaml (`v=0x400`).
fn told(collections: &[Collection], log: &CollectorLog, is_young: bool) -> Option<Collections> {
    let counter = |name: &str| log.counters.get(name).copied();
    if let (Some(words), Some(cycles)) = (counter("major_words"), counter("major_collections")) {
        return Some(Collections { cycles, collected_bytes: words.saturating_mul(WORD_BYTES) });
    }
    let used = |state: fn(&heaplab_heap::SpaceChange) -> SpaceState,
                main: SpaceState,
                row: &Collection| {
        main.used_bytes + row.spaces.iter().map(|space| state(space).used_bytes).sum::<u64>()
    };
    let mut told = Collections::default();
    let of_kind = |row: &&Collection| YOUNG_KINDS.contains(&row.kind.as_ref()) == is_young;
    for row in collections.iter().filter(of_kind) {
        let before = used(|space| space.before, row.before, row);
        let after = used(|space| space.after, row.after, row);
        told.cycles += 1;
        told.collected_bytes += before.saturating_sub(after);
    }
    (!collections.is_empty()).then_some(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Settings, Variant};
    use crate::vary::Vary;
    use heaplab_heap::SpaceChange;

    #[test]
    fn a_cells_heap_has_the_parameter() {
        let variant = |name: &str| Variant {
            name: name.into(),
            words: vec![name.into()],
            ..Variant::default()
        };
        let plan = Plan {
            vary: Vary::of_variable("semi_space={1,2}m").unwrap(),
            variants: vec![variant("v8:many"), variant("elastic")],
            settings: Settings { default: true, ..Settings::default() },
            runtime: None,
            shard: (0, 1),
            results: None,
            code_version: String::new(),
        };
        let names: Vec<String> =
            plan.cells().into_iter().filter_map(|cell| heap_name(&plan, cell)).collect();
        assert_eq!(
            names,
            [
                "v8:many,semi_space=1m",
                "v8:many,semi_space=2m",
                "v8:many",
                "elastic:semi_space=1m",
                "elastic:semi_space=2m",
                "elastic"
            ]
        );
    }

    fn row(kind: &'static str, before: u64, after: u64) -> Collection {
        let state = |used_bytes| SpaceState { used_bytes, ..SpaceState::default() };
        let change = SpaceChange { name: "new".into(), before: state(before), after: state(after) };
        Collection {
            kind: kind.into(),
            before: state(10),
            after: state(30),
            spaces: vec![change],
            ..Collection::default()
        }
    }

    #[test]
    fn garbage_is_that_of_all_spaces_and_of_one_kind() {
        let rows = [row("scavenge", 100, 0), row("scavenge", 80, 0), row("mark-compact", 100, 50)];
        let told = |is_young| {
            let told = told(&rows, &CollectorLog::default(), is_young).unwrap();
            (told.cycles, told.collected_bytes)
        };
        assert_eq!((told(true), told(false)), ((2, 140), (1, 30)));
        assert_eq!(super::told(&[], &CollectorLog::default(), false), None);
    }

    #[test]
    fn counters_of_an_incremental_collector_come_first() {
        let mut log = CollectorLog::default();
        log.counters.insert("major_words".into(), 1000);
        log.counters.insert("major_collections".into(), 4);
        let told = told(&[row("major", 5, 5)], &log, false).unwrap();
        assert_eq!(told.garbage_a_cycle(), Some(2000.0));
    }
}
