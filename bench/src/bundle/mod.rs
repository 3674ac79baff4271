//! `cargo xtask bench bundle`: bytes an event in recorders' files, and the CPU time of writing
//! them.
//!
//! Three parts: a program recorded by heaplab and by heaptrack in turns ([`recorded`]); the
//! bundle's writer alone, column by column, on that recording, on a generated workload and on a
//! text trace ([`written`]); and that trace as its original text, compressed.

mod recorded;
mod written;

use super::programs;
use anyhow::{Context, Result};
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::generate::{Distribution, Generator};
use heaplab_trace::import::{self, ImportOptions};
use heaplab_trace::{Event, EventSink, EventSource};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Arguments of `cargo xtask bench bundle`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Bundles to write again besides
    #[arg(value_parser = super::existing)]
    bundles: Vec<PathBuf>,
    /// Repetitions
    #[arg(long, default_value_t = 5, value_parser = super::one_or_more)]
    reps: usize,
    /// Times that the recorded program does its work
    #[arg(long, default_value_t = 1, value_parser = super::one_or_more)]
    times: usize,
    /// Millions of events of the generated workload
    #[arg(long, default_value_t = 3)]
    millions: u64,
    /// The heaplab to record with [default: a release build of this tree]
    #[arg(long, value_parser = super::existing)]
    heaplab: Option<PathBuf>,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let heaplab = programs::heaplab(args.heaplab.as_deref())?;
    let program = programs::sqlite(folder.path(), args.times)?;
    let bundle = recorded::bench(&heaplab, &program, args.reps, folder.path())?;

    println!("\nthe writer alone, from memory to disk: bytes an event, CPU ns an event");
    for path in [&bundle].into_iter().chain(&args.bundles) {
        let opened = Bundle::open(path)?;
        let events = collect(&mut opened.events(Selection::default())?)?;
        let name = if *path == bundle { program.name.into() } else { path.display().to_string() };
        written::bench(&name, &events, opened.tables(), args.reps)?;
    }
    let mut generator = Generator::new(Distribution::default(), args.millions * 1_000_000, 1);
    let tables = generator.tables();
    written::bench("generated", &collect(&mut generator)?, &tables, args.reps)?;
    text(folder.path(), args.reps)
}

/// A small recording of git pack-objects without time stamps, kept as text for the importer's
/// tests.
fn text(folder: &Path, reps: usize) -> Result<()> {
    let packed = programs::root().join("crates/trace/tests/data/git-pack-objects.txt.gz");
    let open = || std::fs::File::open(&packed).with_context(|| packed.display().to_string());
    let mut events = Vec::new();
    let imported =
        import::import(BufReader::new(open()?), None, &ImportOptions::default(), &mut events)?;
    written::bench("git pack-objects, no time stamps", &events, &imported.tables, reps)?;
    let plain = folder.join("trace.txt");
    std::io::copy(&mut flate2::read::GzDecoder::new(open()?), &mut std::fs::File::create(&plain)?)?;
    written::compressed(&plain, events.len(), reps)
}

fn collect(source: &mut impl EventSource) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    source.for_each(|event| EventSink::push(&mut events, event))?;
    Ok(events)
}
