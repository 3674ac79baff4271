//! A recording on a heap of V8's rules: the places of its collections, and the results of a run.
//!
//! **When full collections run.** V8 collects when old space reaches a limit that follows from the
//! live bytes. Used bytes are the same under each strategy; committed bytes are compared. So the
//! places of full collections are computed once a recording ([`schedule`]) and are the same for all
//! strategies: V8's growing rule of `--predictable-gc-schedule`, under which the document measured.
//!
//! **Sizes.** A heap of the shape `recorded` gives each object its recorded bytes.

use crate::recordings::{Step, Workload};
use anyhow::{Context, Result};
use heaplab_heap::{Ask, Birth, Collected, Collection, Object, Origin, Place, SpaceState, World};
use heaplab_v8::facts::{ARRAY_BYTES, ELEMENTS_HEADER_BYTES, PAGE_BYTES, WORD_BYTES};
use heaplab_v8::pacing::Pacing;
use heaplab_v8::refills::Refill;
use heaplab_v8::spec::{Compact, Shape};
use heaplab_v8::strategy::Strategy;
use heaplab_v8::{CountsBy, Spec, V8Heap};
use std::ptr::NonNull;

/// Growth of the live bytes that V8 allows under `--predictable-gc-schedule`, in percent.
const GROWTH_PERCENT: u32 = 30;

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Old space after the last step.
    pub end: SpaceState,
    /// All collections.
    pub collections: Vec<Collection>,
    /// Work in old space by source.
    pub counts: CountsBy,
    /// CPU time of the run, ns.
    pub cpu_ns: u64,
}

impl Outcome {
    /// Peak of old space's committed bytes, before or after a collection or at the end.
    pub fn peak_committed(&self) -> u64 {
        let moments = self.collections.iter().flat_map(|one| [one.before, one.after]);
        moments.chain([self.end]).map(|state| state.committed_bytes).max().unwrap_or(0)
    }

    /// Mean of old space's committed bytes at the starts of collections and at the end.
    pub fn mean_committed(&self) -> f64 {
        let count = self.collections.len() as f64 + 1.0;
        let sum: u64 = self.collections.iter().map(|one| one.before.committed_bytes).sum();
        (sum + self.end.committed_bytes) as f64 / count
    }

    /// CPU time of scavenges, ns.
    pub fn scavenge_ns(&self) -> u64 {
        self.pauses(|kind| kind == "scavenge").sum()
    }

    /// CPU time of full collections, ns.
    pub fn full_ns(&self) -> u64 {
        self.pauses(|kind| kind != "scavenge").sum()
    }

    /// The longest full collection, ns.
    pub fn longest_full_ns(&self) -> u64 {
        self.pauses(|kind| kind != "scavenge").max().unwrap_or(0)
    }

    /// CPU time between collections, ns.
    pub fn program_ns(&self) -> u64 {
        self.cpu_ns.saturating_sub(self.scavenge_ns() + self.full_ns())
    }

    fn pauses(&self, of: impl Fn(&str) -> bool) -> impl Iterator<Item = u64> {
        self.collections.iter().filter(move |one| of(&one.kind)).filter_map(|one| one.pause_ns)
    }
}

/// The workload's side: a slot an object.
pub struct Table(pub Vec<Option<Object>>);

impl Table {
    /// Empty slots.
    pub fn new(slots: u32) -> Table {
        Table(vec![None; slots as usize])
    }
}

impl World for Table {
    fn slots(&self) -> u32 {
        self.0.len() as u32
    }

    fn object(&self, slot: u32) -> Option<Object> {
        self.0[slot as usize]
    }

    fn fields(&self, _slot: u32, _visit: &mut dyn FnMut(u32)) {}

    fn moved(&mut self, slot: u32, to: NonNull<u8>) {
        if let Some(object) = &mut self.0[slot as usize] {
            object.address = to;
        }
    }

    fn reclaimed(&mut self, slot: u32) {
        self.0[slot as usize] = None;
    }
}

/// A recording on its way through a heap.
struct Run {
    heap: V8Heap,
    table: Table,
    shape: Shape,
}

impl Run {
    fn new(workload: &Workload, spec: Spec) -> Result<Run> {
        let shape = spec.shape;
        let heap = V8Heap::new(spec).context("reserving the heap")?;
        Ok(Run { heap, table: Table::new(workload.slots), shape })
    }

    fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Birth { slot, bytes } => {
                let size = asked(bytes, self.shape);
                let origin = Origin::Generated;
                let birth = Birth { slot, size, align: 1, origin, place: Place::Any };
                let address = self.heap.allocate(birth, &mut self.table)?;
                self.table.0[slot as usize] = Some(Object { address, size, root: true });
                self.heap.stored(slot, None, Some(address));
            }
            Step::Death(slot) => {
                let before = self.table.0[slot as usize].take().map(|object| object.address);
                self.heap.stored(slot, before, None);
            }
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<()> {
        Ok(self.heap.collect(Ask::Full, &mut self.table)?)
    }
}

/// The bytes to ask for, so that an object has the recorded bytes. The real V8's driver can make
/// only arrays, of at least 56 bytes: smaller objects become larger.
pub fn asked(bytes: u32, shape: Shape) -> usize {
    let headers = match shape {
        Shape::Recorded => 0,
        Shape::Plain => WORD_BYTES,
        Shape::Array => ARRAY_BYTES + ELEMENTS_HEADER_BYTES,
    };
    (bytes as usize).saturating_sub(headers).max(WORD_BYTES)
}

/// A heap of V8 7.9's rules.
pub fn spec(strategy: &Strategy, compact: Compact, shape: Shape) -> Spec {
    let mut spec = Spec::default();
    spec.strategy = strategy.clone();
    spec.compact = compact;
    spec.shape = shape;
    spec
}

/// The steps after which a full collection runs, because old space has reached V8's limit. The last
/// one follows the last step.
///
/// # Errors
/// The heap cannot be made.
pub fn schedule(workload: &Workload, shape: Shape) -> Result<Vec<usize>> {
    let spec = spec(&Spec::default().strategy, Compact::Never, shape);
    let new_bytes = spec.semi_space_bytes / PAGE_BYTES * spec.version.area_bytes;
    let mut pacing = Pacing::new(Some(GROWTH_PERCENT), new_bytes, spec.limit_bytes);
    let mut run = Run::new(workload, spec)?;
    let mut places = Vec::new();
    let mut collections = 0;
    let mut last = 0;
    for (at, step) in workload.steps().enumerate() {
        last = at;
        run.step(step)?;
        let so_far = run.heap.collections().len();
        if so_far > collections && pacing.is_due(run.heap.old_state().used_bytes as usize) {
            run.collect()?;
            places.push(at);
            pacing.collected(run.heap.old_state().used_bytes as usize);
        }
        collections = run.heap.collections().len();
    }
    places.push(last);
    Ok(places)
}

/// Replays a recording with full collections at these places.
///
/// # Errors
/// The heap runs out of memory.
pub fn replay(workload: &Workload, places: &[usize], spec: Spec) -> Result<Outcome> {
    let began = heaplab_replay::system::cpu_ns();
    let mut run = Run::new(workload, spec)?;
    run.heap.measure_pauses();
    run.all(workload, places)?;
    let cpu_ns = heaplab_replay::system::cpu_ns() - began;
    Ok(Outcome {
        end: run.heap.old_state(),
        collections: run.heap.collections().to_vec(),
        counts: run.heap.counts(),
        cpu_ns,
    })
}

/// The same; returns each refill of each cycle that ends with a full collection.
///
/// # Errors
/// As for [`replay`].
pub fn refills(workload: &Workload, places: &[usize], spec: Spec) -> Result<Vec<Vec<Refill>>> {
    let mut run = Run::new(workload, spec)?;
    run.heap.log_refills();
    run.all(workload, places)?;
    let mut cycles = run.heap.refills().to_vec();
    cycles.pop();
    Ok(cycles)
}

impl Run {
    fn all(&mut self, workload: &Workload, places: &[usize]) -> Result<()> {
        let mut next = places.iter().peekable();
        for (at, step) in workload.steps().enumerate() {
            self.step(step)?;
            if next.next_if_eq(&&at).is_some() {
                self.collect()?;
            }
        }
        Ok(())
    }
}
