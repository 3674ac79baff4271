//! `cargo xtask bench ocaml`: heaplab's OCaml heap beside the real runtime, on the same workloads.
//!
//! - **Instructions**, counted by callgrind in both: within allocation in the major heap, within
//!   sweeping, marking and minor collections, a birth. Counters and the place of every object are
//!   asked to be equal, so that both did the same work.
//! - **Replay**: CPU time of a replay with all its collections beside that of the program that was
//!   recorded.
//! - **The slow corner** of first-fit: a search that walks list and not table.

mod callgrind;
mod corner;
pub mod equal;
mod instructions;
mod replay;

use anyhow::Result;
use heaplab_generate::{Generator, Spec as Statement};
use heaplab_heap::witness::Objects as _;
use heaplab_heap::{Birth, Collected as _, Origin, Workload as _, WorkloadStep, World as _};
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

/// What a run of ours says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Ours {
    counters: Counters,
    placement: u64,
    cpu_ns: u64,
    steps: u64,
}

impl Ours {
    /// As the runtime says it.
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
                let birth = Birth { slot, size, align: 1, origin: Origin::Generated, old: false };
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
