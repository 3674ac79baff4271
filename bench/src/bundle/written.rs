//! The cost of writing a bundle without a recorder, and of compressing a text of the same events.

use crate::measure::Spread;
use crate::{measure, programs};
use anyhow::Result;
use heaplab_trace::Event;
use heaplab_trace::bundle::{BundleWriter, EVENT_COLUMNS, Meta};
use heaplab_trace::tables::Tables;
use std::path::Path;

/// Writes the events as a bundle and prints the cost of every column.
pub fn bench(name: &str, events: &[Event], tables: &Tables, reps: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let count = events.len() as f64;
    let (mut times, mut groups) = (Vec::new(), Vec::new());
    for rep in 0..reps {
        let from = measure::cpu_ns()?;
        let mut writer = BundleWriter::create(&folder.path().join(format!("{rep}.heaplab")))?;
        for event in events {
            heaplab_trace::EventSink::push(&mut writer, event)?;
        }
        groups = writer.finish_measured(tables, Meta::default())?;
        times.push((measure::cpu_ns()? - from) as f64 / count);
    }
    let column = |index: usize| {
        groups.iter().map(|group| group.chunks[index].bytes).sum::<u64>() as f64 / count
    };
    let total: f64 = (0..EVENT_COLUMNS.len()).map(column).sum();
    println!("\n{name}: {} events", events.len());
    println!("{:<28} {total:>8.3} {:>28}", "bundle", Spread::of(times).to_string());
    for (index, spec) in
        EVENT_COLUMNS.iter().enumerate().filter(|(index, _)| column(*index) >= 0.001)
    {
        println!("  of it {:<20} {:>8.3}", spec.name, column(index));
    }
    Ok(())
}

/// Compresses the text with the same content and prints the cost.
pub fn compressed(text: &Path, events: usize, reps: usize) -> Result<()> {
    const COMPRESSORS: [&str; 2] = ["gzip", "zstd"];
    let count = events as f64;
    let mut times = [Vec::new(), Vec::new()];
    let mut bytes = [0; 2];
    for _ in 0..reps {
        for (place, compressor) in COMPRESSORS.iter().enumerate() {
            let compressed = text.with_extension(compressor);
            times[place].push(programs::compress(compressor, text, &compressed)? / count * 1e9);
            bytes[place] = compressed.metadata()?.len();
        }
    }
    println!("{:<28} {:>8.3}", "the same as text", text.metadata()?.len() as f64 / count);
    for (place, compressor) in COMPRESSORS.iter().enumerate() {
        let time = Spread::of(times[place].iter().copied()).to_string();
        println!(
            "{:<28} {:>8.3} {time:>28}",
            format!("  compressed by {compressor}"),
            bytes[place] as f64 / count
        );
    }
    Ok(())
}
