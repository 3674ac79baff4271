//! Workloads of several shapes, and a comparison of both heaps on one.
#![allow(dead_code, reason = "each test uses a part of it")]

use heaplab_heap::{Ask, Birth, Collected, Object, Origin, Place, World};
use heaplab_ocaml::spec::Spec;
use heaplab_ocaml::{Counters, OCaml, Phase, Slice};
use heaplab_ocamlrt::{Driver, Report, Step};
use std::ptr::NonNull;

/// The shape of a generated workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Random slots, sizes of all classes, some in the major heap at once.
    Mixed,
    /// Like a cache of strings: random replacement, sizes spread over a wide range.
    Cache,
    /// Slots are filled, emptied in blocks, and filled with other sizes.
    Phases,
    /// Objects of a few words, most of which die young.
    Tiny,
    /// Sizes grow from small to large, so that holes are too small.
    Growing,
    /// Few objects, all of them large.
    Large,
    /// One size.
    Single,
    /// A queue: oldest first.
    Queue,
    /// Mixed, with collections and compactions requested by the program.
    Forced,
    /// The heap grows and nearly all objects die, again and again: compactions start by themselves.
    Tides,
}

impl Shape {
    pub const ALL: [(&'static str, Shape); 10] = [
        ("mixed", Shape::Mixed),
        ("cache", Shape::Cache),
        ("phases", Shape::Phases),
        ("tiny", Shape::Tiny),
        ("growing", Shape::Growing),
        ("large", Shape::Large),
        ("single", Shape::Single),
        ("queue", Shape::Queue),
        ("forced", Shape::Forced),
        ("tides", Shape::Tides),
    ];
}

/// A small generator with a stated sequence (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// A workload of `steps` steps over `slots` slots.
pub fn generate(shape: Shape, steps: usize, slots: u32, seed: u64) -> Vec<Step> {
    let mut random = Random(seed);
    let all = u64::from(slots);
    (0..steps)
        .map(|nth| {
            let slot = random.below(all) as u32;
            let dies = random.below(10) == 0;
            if shape == Shape::Forced && random.below(steps as u64 / 20 + 1) == 0 {
                return [Step::Collect(Ask::Full), Step::Collect(Ask::Minor), Step::Compact]
                    [random.below(3) as usize];
            }
            let words = match shape {
                Shape::Forced if dies => 0,
                Shape::Forced => 1 + random.below(60),
                Shape::Tides if nth * 12 / steps.max(1) % 3 == 1 && !slot.is_multiple_of(50) => 0,
                Shape::Tides if nth * 12 / steps.max(1) % 3 == 2 => 1 + random.below(3),
                Shape::Tides => 1 + random.below(100),
                Shape::Mixed if dies => 0,
                Shape::Mixed => match random.below(20) {
                    0..=9 => 1 + random.below(8),
                    10..=15 => 1 + random.below(40),
                    16..=18 => 1 + random.below(300),
                    _ => 257 + random.below(3000),
                },
                Shape::Cache => 1 + ((random.below(1 << 10) * random.below(1 << 10)) >> 12),
                Shape::Phases => match nth * 8 / steps.max(1) {
                    phase if phase % 2 == 1 && !slot.is_multiple_of(3) => 0,
                    phase => 1 + random.below(4 + 30 * phase as u64),
                },
                Shape::Tiny if random.below(3) == 0 => 0,
                Shape::Tiny => 1 + random.below(4),
                Shape::Growing => 1 + (nth as u64 * 60 / steps.max(1) as u64) + random.below(4),
                Shape::Large if dies => 0,
                Shape::Large => 200 + random.below(20_000),
                Shape::Single => 10,
                Shape::Queue => 2 + random.below(100),
            };
            let slot = if shape == Shape::Queue { (nth as u64 % all) as u32 } else { slot };
            if words == 0 {
                Step::Death { slot }
            } else {
                Step::Birth { slot, size: words as usize * 8 }
            }
        })
        .collect()
}

/// The program's table.
pub struct Table(pub Vec<Option<Object>>);

impl World for Table {
    fn slots(&self) -> u32 {
        self.0.len() as u32
    }

    fn object(&self, slot: u32) -> Option<Object> {
        self.0[slot as usize]
    }

    fn fields(&self, _: u32, _: &mut dyn FnMut(u32)) {}

    fn moved(&mut self, slot: u32, to: NonNull<u8>) {
        if let Some(object) = &mut self.0[slot as usize] {
            object.address = to;
        }
    }

    fn reclaimed(&mut self, _: u32) {}
}

/// Runs a workload in heaplab's heap. Each object's first word holds its slot's number; the
/// object's death checks it.
pub fn run(heap: &mut OCaml, slots: u32, steps: &[Step]) -> Vec<(Counters, u64)> {
    let mut table = Table(vec![None; slots as usize]);
    let mut reports = Vec::new();
    for step in steps {
        match *step {
            Step::Birth { slot, size } => {
                let birth =
                    Birth { slot, size, align: 1, origin: Origin::Generated, place: Place::Any };
                let address = heap.allocate(birth, &mut table).expect("there is memory");
                // SAFETY: the heap has just given these bytes.
                unsafe { address.cast::<u64>().write(u64::from(slot) << 1 | 1) };
                let before = replace(&mut table, slot, Some(Object { address, size, root: true }));
                heap.stored(slot, before, Some(address));
                heap.safepoint(&mut table).expect("there is memory");
            }
            Step::Death { slot } => {
                let before = replace(&mut table, slot, None);
                heap.stored(slot, before, None);
                heap.safepoint(&mut table).expect("there is memory");
            }
            Step::Collect(ask) => {
                heap.collect(ask, &mut table).expect("there is memory");
                reports.push((heap.counters(), heap.placement()));
                heap.safepoint(&mut table).expect("there is memory");
            }
            Step::Compact => {
                heap.compact_now(&mut table).expect("there is memory");
                reports.push((heap.counters(), heap.placement()));
                heap.safepoint(&mut table).expect("there is memory");
            }
        }
    }
    reports.push((heap.counters(), heap.placement()));
    reports
}

fn replace(table: &mut Table, slot: u32, now: Option<Object>) -> Option<NonNull<u8>> {
    let before = std::mem::replace(&mut table.0[slot as usize], now)?;
    // SAFETY: the object was born with at least a word and lives in its slot.
    let content = unsafe { before.address.cast::<u64>().read() };
    assert_eq!(content, u64::from(slot) << 1 | 1, "slot {slot}: the content moved along");
    Some(before.address)
}

/// The compared figures.
pub const COMPARED: [&str; 9] = [
    "promoted words",
    "minor collections",
    "slices",
    "top_heap_words",
    "heap_chunks",
    "major collections",
    "compactions",
    "every counter",
    "placement",
];

/// The result of one comparison.
pub struct Outcome {
    /// By figure of [`COMPARED`]: equal after each requested collection and at the end.
    pub equal: [bool; COMPARED.len()],
    /// The first different slice or report.
    pub difference: Option<String>,
    /// Slices of the real runtime.
    pub slices: usize,
    summary: String,
}

/// Runs a workload in both heaps and compares everything.
pub fn outcome(driver: &Driver, spec: Spec, slots: u32, steps: &[Step]) -> Result<Outcome, String> {
    let mut heap = OCaml::new(spec).map_err(|error| error.to_string())?;
    let ours = run(&mut heap, slots, steps);
    let theirs =
        driver.run(&spec, slots, steps.iter().copied(), true).map_err(|error| error.to_string())?;
    let all: Vec<Report> = theirs.collections.iter().chain([&theirs.end]).copied().collect();
    let slices = compare_slices(heap.slices(), &theirs.slices);
    let reports = compare_reports(&ours, &all);
    let each = |of: &dyn Fn(&Counters) -> u64| {
        ours.iter().map(|(ours, _)| of(ours)).eq(all.iter().map(|theirs| of(&theirs.counters)))
    };
    let equal = [
        each(&|counters| counters.promoted_words),
        each(&|counters| counters.minor_collections),
        slices.is_ok(),
        each(&|counters| counters.top_heap_words),
        each(&|counters| counters.heap_chunks),
        each(&|counters| counters.major_collections),
        each(&|counters| counters.compactions),
        ours.iter().map(|ours| ours.0).eq(all.iter().map(|theirs| theirs.counters)),
        ours.iter().map(|ours| ours.1).eq(all.iter().map(|theirs| theirs.placement)),
    ];
    heap.check_deep_now()?;
    let end = all[all.len() - 1].counters;
    let phases = heap.slices().iter().filter(|slice| slice.phase == Phase::Mark).count();
    let summary = format!(
        "equal: {} slices ({phases} mark), {} minor, {} major, {} compactions, {} chunks, {} top words, {} overflows, placement {:016x}",
        theirs.slices.len(),
        end.minor_collections,
        end.major_collections,
        end.compactions,
        end.heap_chunks,
        end.top_heap_words,
        heap.mark_stack_overflows(),
        all[all.len() - 1].placement
    );
    let difference = slices.and(reports).err();
    Ok(Outcome { equal, difference, slices: theirs.slices.len(), summary })
}

/// Runs a workload in both heaps. Returns what was compared; fails with the first difference.
pub fn compare(driver: &Driver, spec: Spec, slots: u32, steps: &[Step]) -> Result<String, String> {
    let outcome = outcome(driver, spec, slots, steps)?;
    outcome.difference.map_or(Ok(outcome.summary), Err)
}

/// Compares counters and places after each requested collection and at the end.
pub fn compare_reports(ours: &[(Counters, u64)], theirs: &[Report]) -> Result<(), String> {
    if theirs.len() != ours.len() {
        return Err(format!("{} reports, the runtime has {}", ours.len(), theirs.len()));
    }
    for (nth, ((counters, placement), theirs)) in ours.iter().zip(theirs).enumerate() {
        if *counters != theirs.counters {
            return Err(format!(
                "report {nth}: ours {counters:?}\n         theirs {:?}",
                theirs.counters
            ));
        }
        if *placement != theirs.placement {
            return Err(format!("report {nth}: objects lie elsewhere"));
        }
    }
    Ok(())
}

/// `check_deep` with its error as a text.
trait CheckNow {
    fn check_deep_now(&self) -> Result<(), String>;
}

impl CheckNow for OCaml {
    fn check_deep_now(&self) -> Result<(), String> {
        heaplab_heap::Heap::check_deep(self).map_err(|error| error.to_string())
    }
}

/// Each slice.
pub fn compare_slices(ours: &[Slice], theirs: &[heaplab_ocamlrt::Slice]) -> Result<(), String> {
    let millionths = |part: f64| (part * 1_000_000.0) as i64;
    for (nth, (our, their)) in ours.iter().zip(theirs).enumerate() {
        let phase = match (their.marked, their.swept) {
            (true, _) => Phase::Mark,
            (_, true) => Phase::Sweep,
            _ => Phase::Idle,
        };
        let computed = their.computed_work.unwrap_or(0);
        // The runtime reports a shrinking heap in whole units of 1024 words.
        let words = our.heap_words as u64;
        let heap = [0, words * 8 / 1024, words / 1024 * 8].contains(&their.heap_kib);
        let equal = our.phase == phase
            && our.allocated_words as u64 == their.allocated_words
            && millionths(our.p) == their.p_millionths
            && millionths(our.backlog) == their.backlog_millionths
            && millionths(our.filtered_p) == their.filtered_millionths
            && our.computed_work == computed
            && heap;
        if !equal {
            return Err(format!("slice {nth}:\n  ours   {our:?}\n  theirs {their:?}"));
        }
    }
    if ours.len() != theirs.len() {
        return Err(format!("{} slices, the runtime has {}", ours.len(), theirs.len()));
    }
    Ok(())
}
