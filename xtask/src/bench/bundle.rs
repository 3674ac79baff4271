//! `cargo xtask bench bundle`: bytes and time an event when a bundle is written, column by column.

use super::release;
use anyhow::{Context, Result};
use heaplab_trace::bundle::{Bundle, BundleWriter, EVENT_COLUMNS, Meta, Selection};
use heaplab_trace::generate::{Distribution, Generator};
use heaplab_trace::import::{self, Options};
use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, EventSink, EventSource};
use std::path::PathBuf;

/// Arguments of `cargo xtask bench bundle`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Bundles to write again, beside the generated workload and the small recording of the tests
    bundles: Vec<PathBuf>,
    /// Times that each is written; the fastest counts
    #[arg(long, default_value_t = 5)]
    reps: u32,
}

/// Runs the benchmark.
pub fn run(args: &Args) -> Result<()> {
    if release::again()? {
        return Ok(());
    }
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/trace/tests/data/git-pack-objects.txt.gz");
    let input = std::io::BufReader::new(std::fs::File::open(text).context(text)?);
    let mut events = Vec::new();
    let imported = import::import(input, None, &Options::default(), &mut events)?;
    measure("git pack-objects (no time stamps)", &events, &imported.tables, args.reps)?;

    let mut generator = Generator::new(Distribution::default(), 3_000_000, 1);
    let tables = generator.tables();
    measure("generated, 3 M events", &collect(&mut generator)?, &tables, args.reps)?;

    for path in &args.bundles {
        let bundle = Bundle::open(path)?;
        let events = collect(&mut bundle.events(Selection::default())?)?;
        measure(&path.display().to_string(), &events, bundle.tables(), args.reps)?;
    }
    Ok(())
}

fn collect(source: &mut impl EventSource) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    source.for_each(|event| EventSink::push(&mut events, event))?;
    Ok(events)
}

fn measure(name: &str, events: &[Event], tables: &Tables, reps: u32) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let count = events.len() as f64;
    let (mut best_ns, mut groups) = (f64::INFINITY, Vec::new());
    for rep in 0..reps.max(1) {
        let from = release::cpu_ns()?;
        let mut writer = BundleWriter::create(&folder.path().join(format!("{rep}.heaplab")))?;
        for event in events {
            writer.push(event)?;
        }
        groups = writer.finish_measured(tables, Meta::default())?;
        best_ns = best_ns.min((release::cpu_ns()? - from) as f64 / count);
    }
    let column = |index: usize| groups.iter().map(|group| group.chunks[index].bytes).sum::<u64>() as f64 / count;
    let total: f64 = (0..EVENT_COLUMNS.len()).map(column).sum();
    println!("{name}: {} events, {total:.3} bytes and {best_ns:.1} ns of CPU an event", events.len());
    for (index, spec) in EVENT_COLUMNS.iter().enumerate().filter(|(index, _)| column(*index) >= 0.001) {
        println!("  {:<12} {:.3}", spec.name, column(index));
    }
    Ok(())
}
