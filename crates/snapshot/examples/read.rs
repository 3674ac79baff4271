//! Reads a file and says what is in it and how long that took.

use heaplab_snapshot::{ReadOptions, Snapshot};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let from = Instant::now();
        match Snapshot::read_with(&bytes, &ReadOptions { threads: 1, ..ReadOptions::default() }) {
            Ok(snapshot) => {
                let ms = from.elapsed().as_secs_f64() * 1e3;
                let graph = &snapshot.graph;
                let gb_per_s = bytes.len() as f64 / ms / 1e6;
                println!(
                    "{path}: {} nodes, {} edges, {} strings: {ms:.1} ms, {gb_per_s:.2} GB/s",
                    graph.node_count(),
                    graph.edge_count(),
                    snapshot.strings.len()
                );
            }
            Err(error) => println!("{path}: {error}"),
        }
    }
    Ok(())
}
