//! Reads and analyses a file and says what is in it, how long that took, and how much memory.

use heaplab_snapshot::analysis::{Analysis, Options};
use heaplab_snapshot::{ReadOptions, Snapshot};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = std::env::var("THREADS").ok().and_then(|threads| threads.parse().ok()).unwrap_or(1);
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let from = Instant::now();
        let snapshot = match Snapshot::read_with(&bytes, &ReadOptions { threads, ..ReadOptions::default() }) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                println!("{path}: {error}");
                continue;
            }
        };
        let read_s = from.elapsed().as_secs_f64();
        let graph = &snapshot.graph;
        let gb_per_s = bytes.len() as f64 / read_s / 1e9;
        println!("{path}: {} nodes, {} edges, {} strings", graph.node_count(), graph.edge_count(), snapshot.strings.len());
        println!("  read in {read_s:.3} s, {gb_per_s:.2} GB/s");
        let from = Instant::now();
        let analysis = Analysis::of(&snapshot, &Options { threads, ..Options::default() });
        println!(
            "  analysed in {:.3} s, {} classes, {} bytes",
            from.elapsed().as_secs_f64(),
            analysis.classes().len(),
            analysis.total_bytes()
        );
    }
    Ok(())
}
