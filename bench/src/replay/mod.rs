//! `cargo xtask bench replay`: the replay driver's cost an event, heaps' costs beside it, and other
//! replay drivers' costs on the same workload ([`peers`]), in the same run.
//!
//! The null heap is the driver alone. Three workloads: one shaped after SQLite; one whose million
//! live objects die in random order, which pushes the driver's table out of the cache; and SQLite's
//! own, recorded for the purpose, or that of a given bundle.

mod formats;
mod instructions;
mod peers;

use super::measure::Spread;
use super::programs;
use anyhow::{Context, Result, bail};
use heaplab_replay::{CellKind, CellReport, CellRequest, Touch, cell};
use heaplab_system::{System, glibc::Glibc, jemalloc::Jemalloc, mimalloc::Mimalloc, null::Null};
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::generate::{Distribution, Generator};
use heaplab_trace::program::{self, Facts, Program};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Arguments of `cargo xtask bench replay`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Millions of events of each generated workload; 0: only the recording
    #[arg(long, default_value_t = 10)]
    millions: u64,
    /// Repetitions of each figure
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Replay this recording [default: traces/sqlite-workload.sql in sqlite3, recorded for the
    /// purpose]
    #[arg(long, value_name = "BUNDLE", value_parser = super::existing)]
    bundle: Option<PathBuf>,
    /// The heaplab to record with [default: a release build of this tree]
    #[arg(long, value_parser = super::existing)]
    heaplab: Option<PathBuf>,
    /// Count the driver's instructions an event by callgrind instead [of the recording that is
    /// named, or of traces/sqlite.heaplab]
    #[arg(long)]
    instructions: bool,
    #[command(flatten)]
    peers: peers::Args,
    /// Make passes on this heap and print the CPU time of each, ns (what the benchmark runs in a
    /// process of its own)
    #[arg(long, hide = true, requires = "program")]
    cell: Option<String>,
    /// With --cell: the replay program
    #[arg(long, hide = true)]
    program: Option<PathBuf>,
    /// With --cell: how many passes
    #[arg(long, hide = true, default_value_t = 1)]
    passes: u32,
}

/// SQLite's recording in the repository.
const SQLITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/sqlite.heaplab");

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    if let (Some(heap), Some(program)) = (&args.cell, &args.program) {
        for pass in cell(heap, &Program::open(program)?, args.passes)? {
            println!("{pass}");
        }
        return Ok(());
    }
    if args.instructions {
        let bundle = args.bundle.as_deref().unwrap_or(Path::new(SQLITE));
        let name = bundle.file_name().unwrap_or_default().to_string_lossy();
        let program = program::cached(&Bundle::open(bundle)?, Selection::default())?;
        return instructions::bench(&name, &program);
    }
    if args.repetitions == 0 {
        bail!("--repetitions 0 measures nothing: 1 or more");
    }
    let folder = tempfile::tempdir()?;
    let million = Distribution {
        live_objects: 1_000_000,
        young_deaths_permille: 0,
        ..Distribution::default()
    };
    println!("ns of CPU an event: median (range) of {}, of two passes each", args.repetitions);
    let generated =
        [("like SQLite", Distribution::default()), ("1 M live, random deaths", million)];
    for (name, distribution) in generated.into_iter().filter(|_| args.millions > 0) {
        let path = folder.path().join(format!("{name}.program"));
        let mut generator = Generator::new(distribution, args.millions * 1_000_000, 1);
        let tables = generator.tables();
        let file = File::create(&path)?;
        program::compile(&mut generator, &tables, Facts::default(), 0, &path, file)?;
        measure(name, &Program::open(&path)?, args.repetitions)?;
        std::fs::remove_file(path)?;
    }
    let (name, bundle) = match &args.bundle {
        Some(bundle) => (bundle.display().to_string(), bundle.clone()),
        None => {
            let sqlite = programs::sqlite(folder.path(), 1)?;
            let bundle = folder.path().join("recorded.heaplab");
            programs::record(
                &programs::heaplab(args.heaplab.as_deref())?,
                0,
                &sqlite,
                &sqlite.command,
                &bundle,
            )?;
            ("sqlite, recorded".into(), bundle)
        }
    };
    let program = program::cached(&Bundle::open(&bundle)?, Selection::default())?;
    measure(&name, &program, args.repetitions)?;
    peers::bench(&name, &program, &args.peers)
}

/// CPU time of each pass, ns.
fn cell(heap: &str, program: &Program, passes: u32) -> Result<Vec<u64>> {
    let null = || {
        Null::new(program.facts().block_size_max).context("no memory for the null heap's window")
    };
    let request = request(heap, program.path(), passes);
    let report = match heap {
        "null" => cell::run(null()?, program, &request),
        "glibc" => cell::run(System(Glibc), program, &request),
        "jemalloc" => cell::run(System(Jemalloc), program, &request),
        "mimalloc" => cell::run(System(Mimalloc), program, &request),
        _ => bail!("{heap} is not measured here"),
    };
    match report {
        CellReport::Time(time) => Ok(time.passes_ns),
        other => bail!("{heap}: {other:?}"),
    }
}

fn measure(name: &str, program: &Program, repetitions: u32) -> Result<()> {
    let mut rows: Vec<(&str, Vec<Vec<u64>>)> =
        ["null", "glibc", "jemalloc", "mimalloc"].map(|heap| (heap, Vec::new())).into();
    // Interleaved, so that other work on the machine affects all alike.
    for _ in 0..repetitions {
        for (heap, figures) in &mut rows {
            figures.push(cell(heap, program, 2)?);
        }
    }
    let facts = program.facts();
    let events = facts.events as f64;
    let bytes = program.words().len() as f64 * 4.0 / events;
    let (objects, slots) = (facts.objects, facts.slots);
    println!(
        "\n{name}: {events} events, {objects} births, {slots} slots, {bytes:.2} bytes an event"
    );
    println!("{:<10} {:>28} {:>28}", "heap", "both passes", "first pass");
    for (heap, figures) in rows {
        let spread = |of: fn(&[u64]) -> f64| {
            let Spread { median, least, most } =
                Spread::of(figures.iter().map(|passes| of(passes) / events));
            format!("{median:.2} ({least:.2} to {most:.2})")
        };
        let both = spread(|passes| passes.iter().sum::<u64>() as f64 / passes.len() as f64);
        println!("{heap:<10} {both:>28} {:>28}", spread(|passes| passes[0] as f64));
    }
    Ok(())
}

fn request(heap: &str, program: &Path, passes: u32) -> CellRequest {
    let (heap, kind, program) = (heap.to_string(), CellKind::Time, program.to_path_buf());
    CellRequest {
        heap,
        kind,
        program,
        touch: Touch::Known,
        threads: false,
        passes,
        core: None,
        huge_pages: true,
    }
}
