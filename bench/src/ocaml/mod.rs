//! `cargo xtask bench ocaml`: heaplab's OCaml heap beside the real runtime, on the same workloads.
//!
//! - **Instructions**, counted by callgrind in both: a birth's instructions in allocation in the
//!   major heap, in sweeping, in marking and in minor collections. Counters and the place of every
//!   object must be equal, so that both do the same work.
//! - **Replay**: CPU time of a replay with all its collections beside that of the recorded program.
//! - **The slow corner** of first-fit: a search that walks the list instead of the table.

mod callgrind;
mod corner;
pub mod equal;
mod instructions;
mod replay;

use anyhow::Result;
use heaplab_generate::{Generator, Spec as Statement};
use heaplab_heap::witness::Objects as _;
use heaplab_heap::{Birth, Collected as _, Origin, Place, Workload as _, WorkloadStep, World as _};
use heaplab_ocaml::{Counters, OCaml, spec::Spec};
use heaplab_ocamlrt::{Driver, Report, Run, Step};
use heaplab_replay::slots::Slots;
use heaplab_replay::workload::Replayed;
use heaplab_replay::{Touch, collected, system};
use heaplab_trace::program::{self, Facts, Program};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The policies, as `ocaml:` names them.
const POLICIES: [&str; 3] = ["next-fit", "first-fit", "best-fit"];

/// Arguments of `cargo xtask bench ocaml`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Births of each workload whose instructions are counted; 0: not counted
    #[arg(long, default_value_t = 300_000)]
    births: u64,
    /// Millions of blocks of the programs that are recorded and replayed; 0: none are
    #[arg(long, default_value_t = 10)]
    millions: u64,
    /// Repetitions of each replay
    #[arg(long, default_value_t = 3, value_parser = super::one_or_more)]
    repetitions: usize,
    /// Free blocks that first-fit's search has to pass at most; 0: not measured
    #[arg(long, default_value_t = 4000)]
    corner: usize,
    /// Run this heap on --program once and say what it did (what the benchmark runs in a process of
    /// its own)
    #[arg(long, hide = true, requires = "program")]
    cell: Option<String>,
    /// With --cell: the replay program
    #[arg(long, hide = true)]
    program: Option<PathBuf>,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    if let (Some(spec), Some(program)) = (&args.cell, &args.program) {
        println!("{}", serde_json::to_string(&ours(spec, &Program::open(program)?)?)?);
        return Ok(());
    }
    let driver = Driver::build()?;
    let mut bounds = super::bounds::Bounds::default();
    if args.births > 0 {
        instructions::bench(&driver, args.births, &mut bounds)?;
    }
    if args.millions > 0 {
        replay::bench(&driver, args.millions, args.repetitions, &mut bounds)?;
    }
    if args.corner > 0 {
        corner::bench(&driver, args.corner)?;
    }
    bounds.finish()
}

/// The figures of one of our runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Ours {
    counters: Counters,
    placement: u64,
    cpu_ns: u64,
    steps: u64,
}

impl Ours {
    /// In the runtime's form.
    fn report(&self) -> Report {
        Report { counters: self.counters, placement: self.placement }
    }
}

/// Runs a program in heaplab's heap.
fn ours(spec: &str, program: &Program) -> Result<Ours> {
    let heap = OCaml::new(Spec::parse(spec)?)?;
    let mut driver = collected::Driver::new(program, heap, Slots::new(program.facts().slots)?);
    let began = system::cpu_ns();
    driver.run_to(usize::MAX, Touch::Known)?;
    let cpu_ns = system::cpu_ns() - began;
    Ok(said(driver.heap(), cpu_ns))
}

/// Runs steps in heaplab's heap, in this process.
fn ours_of(spec: &str, slots: u32, steps: &[Step]) -> Result<Ours> {
    let (mut heap, mut world) = (OCaml::new(Spec::parse(spec)?)?, Slots::new(slots)?);
    let began = system::cpu_ns();
    for step in steps {
        match *step {
            Step::Birth { slot, size } => {
                let birth =
                    Birth { slot, size, align: 1, origin: Origin::Generated, place: Place::Any };
                let born = heap.allocate(birth, &mut world)?;
                let before = world.object(slot).map(|object| object.address);
                world.born(slot, born, size);
                heap.stored(slot, before, Some(born));
            }
            Step::Death { slot } => {
                let before = world.object(slot).map(|object| object.address);
                world.died(slot);
                heap.stored(slot, before, None);
            }
            Step::Collect(ask) => heap.collect(ask, &mut world)?,
            Step::Compact => heap.compact_now(&mut world)?,
        }
        heap.safepoint(&mut world)?;
    }
    Ok(said(&heap, system::cpu_ns() - began))
}

fn said(heap: &OCaml, cpu_ns: u64) -> Ours {
    let (counters, placement, steps) = (heap.counters(), heap.placement(), heap.search_steps());
    Ours { counters, placement, cpu_ns, steps }
}

/// Runs a program in the real runtime.
fn theirs(driver: &Driver, spec: &str, program: &Program) -> Result<Run> {
    let workload = Replayed(program);
    let run = driver.feed(&Spec::parse(spec)?, program.facts().slots, false, |put| {
        workload.steps(&mut |step| match step {
            WorkloadStep::Allocate { slot, size, .. } | WorkloadStep::Reallocate { slot, size } => {
                put(Step::Birth { slot, size: size as usize })
            }
            WorkloadStep::Free { slot } => put(Step::Death { slot }),
            WorkloadStep::Collect(ask) => put(Step::Collect(ask)),
            _ => Ok(()),
        })
    })?;
    Ok(run)
}

/// A generated workload as a program in `folder`.
fn generated(statement: &str, folder: &Path) -> Result<Program> {
    let statement = Statement::parse(statement, |path| Err(format!("{path}: not read here")))?;
    let mut generator = Generator::new(statement);
    let (tables, path) = (generator.tables(), folder.join("workload.program"));
    program::compile(&mut generator, &tables, Facts::default(), 0, &path, File::create(&path)?)?;
    Ok(Program::open(&path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::source::Slice;
    use heaplab_trace::tables::Tables;
    use heaplab_trace::{Event, Op};

    /// Three in five objects die at their birth, and 3,000 of the others live at once. Returns the
    /// events, and single steps for the same objects.
    fn workload(births: u64) -> (Vec<Event>, Vec<Step>) {
        let (mut events, mut steps, mut random) = (Vec::new(), Vec::new(), 7_u64);
        let mut live: Vec<u64> = Vec::new();
        for object in 0..births {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let drawn = random >> 33;
            // Some of over 256 words, which are never young.
            let size = if drawn.is_multiple_of(97) { 4_000 } else { 8 + drawn % 300 };
            events.push(Event { op: Op::Alloc, object, size, ..Event::default() });
            let mut dead = Some(object);
            if drawn % 5 < 2 {
                live.push(object);
                let nth = (drawn / 5) as usize % live.len();
                dead = (live.len() > 3_000).then(|| live.swap_remove(nth));
            }
            if let Some(object) = dead {
                events.push(Event { op: Op::Free, object, ..Event::default() });
            }
            if object % 50_000 == 49_999 {
                events.push(Event { op: Op::Collect, ..Event::default() });
            }
        }
        // The compiler reuses the slot freed last.
        let (mut free, mut made) = (Vec::new(), 0);
        let mut slots = std::collections::HashMap::new();
        for event in &events {
            match event.op {
                Op::Alloc => {
                    let slot = free.pop().unwrap_or_else(|| {
                        made += 1;
                        made - 1
                    });
                    slots.insert(event.object, slot);
                    steps.push(Step::Birth { slot, size: event.size as usize });
                }
                Op::Free => {
                    let slot = slots[&event.object];
                    free.push(slot);
                    steps.push(Step::Death { slot });
                }
                _ => steps.push(Step::Collect(heaplab_heap::Ask::Full)),
            }
        }
        (events, steps)
    }

    #[test]
    fn who_dies_at_birth_leaves_what_single_steps_leave() {
        let (events, steps) = workload(150_000);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("workload.program");
        let (tables, facts) = (Tables::default(), Facts::default());
        let out = File::create(&path).unwrap();
        program::compile(&mut Slice(&events), &tables, facts, 0, &path, out).unwrap();
        let program = Program::open(&path).unwrap();
        for policy in POLICIES {
            for parameters in ["o=80,s=4k", "o=20,s=32k,O=30", "o=200,s=256k,version=4.12"] {
                let spec = format!("{policy},{parameters}");
                let fast = ours(&spec, &program).unwrap();
                let single = ours_of(&spec, program.facts().slots, &steps).unwrap();
                assert_eq!(fast.report(), single.report(), "{spec}");
                assert_eq!(fast.steps, single.steps, "{spec}");
                assert!(fast.counters.minor_collections > 3, "{spec}");
            }
        }
    }
}
