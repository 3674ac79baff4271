//! `cargo xtask bench replay`: what the replay driver costs an event, and what heaps cost beside it in the same run.
//!
//! The null heap is the driver alone. Three workloads: one shaped after SQLite, one whose million live objects die in
//! random order (the driver's table is then out of the cache), and a bundle's own where one is named.

use super::release;
use anyhow::{Context, Result, bail};
use heaplab_replay::{CellKind, CellReport, CellRequest, Touch, cell};
use heaplab_system::{Malloc, System, glibc::Glibc, jemalloc::Jemalloc, mimalloc::Mimalloc, null::Null};
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::generate::{Distribution, Generator};
use heaplab_trace::program::{self, Facts, Program};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Arguments of `cargo xtask bench replay`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Millions of events of each generated workload
    #[arg(long, default_value_t = 10)]
    millions: u64,
    /// Repetitions of each figure; the median is printed
    #[arg(long, default_value_t = 5)]
    repetitions: u32,
    /// Measure this recording too
    #[arg(long, value_name = "BUNDLE")]
    bundle: Option<PathBuf>,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    if release::again()? {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let million = Distribution { live_objects: 1_000_000, young_deaths_permille: 0, ..Distribution::default() };
    println!("| workload | heap | events | births | slots | ns an event | first pass | bytes an event |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, distribution) in [("like SQLite", Distribution::default()), ("1 M live, random deaths", million)] {
        let path = folder.path().join(format!("{name}.program"));
        let mut generator = Generator::new(distribution, args.millions * 1_000_000, 1);
        let tables = generator.tables();
        let file = File::create(&path)?;
        program::compile(&mut generator, &tables, Facts::default(), 0, &path, file)?;
        measure(name, &Program::open(&path)?, args.repetitions)?;
    }
    if let Some(bundle) = &args.bundle {
        let program = program::cached(&Bundle::open(bundle)?, Selection::default())?;
        measure(&bundle.display().to_string(), &program, args.repetitions)?;
    }
    Ok(())
}

fn measure(name: &str, program: &Program, repetitions: u32) -> Result<()> {
    let null = || Null::new(program.facts().block_size_max).context("no memory for the null heap's window");
    let mut rows: Vec<(&str, Vec<(f64, f64)>)> = ["null", "glibc", "jemalloc", "mimalloc"].map(|heap| (heap, Vec::new())).into();
    // Interleaved, so that what the machine does meanwhile touches all alike.
    for _ in 0..repetitions {
        for (heap, figures) in &mut rows {
            let request = request(heap, program.path());
            let report = match *heap {
                "null" => cell::run(null()?, String::new, program, &request),
                "glibc" => cell::run(System(Glibc), || Glibc.version(), program, &request),
                "jemalloc" => cell::run(System(Jemalloc), || Jemalloc.version(), program, &request),
                _ => cell::run(System(Mimalloc), || Mimalloc.version(), program, &request),
            };
            let CellReport::Time(time) = report else { bail!("{heap}: {report:?}") };
            let events = program.facts().events as f64;
            let all: u64 = time.passes_ns.iter().sum();
            figures.push((all as f64 / events / time.passes_ns.len() as f64, time.passes_ns[0] as f64 / events));
        }
    }
    let facts = program.facts();
    let bytes = program.words().len() as f64 * 4.0 / facts.events as f64;
    for (heap, figures) in rows {
        let (all, first) = (median(figures.iter().map(|figure| figure.0)), median(figures.iter().map(|figure| figure.1)));
        let (events, births, slots) = (facts.events, facts.objects, facts.slots);
        println!("| {name} | {heap} | {events} | {births} | {slots} | {all:.2} | {first:.2} | {bytes:.2} |");
    }
    Ok(())
}

fn request(heap: &str, program: &Path) -> CellRequest {
    let (heap, kind, program) = (heap.to_string(), CellKind::Time, program.to_path_buf());
    CellRequest { heap, kind, program, touch: Touch::Known, threads: false, passes: 2, core: None }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
