//! `cargo xtask bench v8`: the cost of V8's old space here and in the real V8, in the same run.
//!
//! - [`instructions`]: a linear area's allocation, a refill, a page's sweep, and collections,
//!   counted by callgrind: the mechanisms alone, beside mimalloc, and the same workload in Node.
//! - [`replay`]: CPU time of ten million births beside Node.
//! - [`memory`]: the heap's bytes beside its pages.
//! - [`grid`]: thirty strategies on five workloads by one command.
//!
//! Both sides place every object alike (docs/collected-heaps.md), so they have the same collections
//! and refills. Two differences are of kind: V8 keeps books for more than one thread, and its
//! objects have maps, in which it looks up their sizes.

mod callgrind;
mod grid;
mod instructions;
mod memory;
mod probe;
mod replay;

use crate::bounds::Bounds;
use anyhow::{Context, Result};
use heaplab_generate::{Generator, Spec};
use heaplab_heap::Ask;
use heaplab_trace::program::{self, Facts, Managed, Program, Step};
use std::fs::File;
use std::path::Path;

/// The peer's Node, and the version of its rules.
const NODE: &str = "13.14.0";
const RULES: &str = "many,version=7.9,compact=never";
/// The workload: sizes of web pages; each birth replaces a random live object.
const WORKLOAD: &str = "sizes=web,lifetimes=random";

/// Arguments of `cargo xtask bench v8`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Births of the workload whose instructions are counted
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(50_000..))]
    births: u64,
    /// Millions of births of the workload that is timed
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    millions: u64,
    /// Repetitions of each time
    #[arg(long, default_value_t = 3, value_parser = super::one_or_more)]
    reps: usize,
    #[command(flatten)]
    probe: probe::Args,
}

/// The measured parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Instructions by mechanism
    Instructions,
    /// Processor time of a replay
    Replay,
    /// Bytes beside the pages
    Memory,
    /// Thirty strategies on five workloads
    Grid,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    if let Some(probe) = args.probe.probe {
        return probe::run(probe, &args.probe);
    }
    let wanted = |part| args.only.is_empty() || args.only.contains(&part);
    let folder = tempfile::tempdir()?;
    let mut bounds = Bounds::default();
    if wanted(Part::Instructions) {
        instructions::measure(args.births, folder.path(), &mut bounds)?;
    }
    if wanted(Part::Memory) {
        memory::measure(folder.path(), &mut bounds)?;
    }
    if wanted(Part::Replay) {
        replay::measure(args.millions * 1_000_000, args.reps, folder.path(), &mut bounds)?;
    }
    if wanted(Part::Grid) {
        grid::measure(folder.path(), &mut bounds)?;
    }
    bounds.finish()
}

/// The compiled workload of this many births. `more` adds to the statement.
fn workload(births: u64, more: &str, folder: &Path) -> Result<Program> {
    let text = format!("{WORKLOAD},births={births},collect=0{more}");
    let spec = Spec::parse(&text, |_| Err("no file".into()))?;
    let path = folder.join(format!("{}.program", text.replace(['=', ','], "-")));
    let mut generator = Generator::new(spec);
    let tables = generator.tables();
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    program::compile(&mut generator, &tables, Facts::default(), 0, &path, file)?;
    Ok(Program::open(&path)?)
}

/// Runs a program in a real Node; without a program, only its start and end.
fn node(spec: &heaplab_node::Spec, program: Option<&Program>) -> Result<heaplab_node::Run> {
    let slots = program.map_or(1, |program| program.facts().slots);
    let ran = heaplab_node::run(spec, slots, &mut |visit| {
        let Some(program) = program else { return Ok(()) };
        for step in program.steps() {
            match step.map_err(|error| error.to_string())?.1 {
                Step::Allocate { slot, size, .. } | Step::Reallocate { slot, size, .. } => {
                    visit(heaplab_node::Step::Birth { slot, size })?
                }
                Step::Free { slot } => visit(heaplab_node::Step::Death { slot })?,
                Step::Managed(Managed::Collect) => visit(heaplab_node::Step::Collect(Ask::Full))?,
                _ => {}
            }
        }
        Ok(())
    })?;
    Ok(ran)
}
