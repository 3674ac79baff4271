//! Compares the heap of `segregated.rs` with glibc's on a recording: `cargo run --release -p
//! own-heap -- app.heaplab`.
//!
//! This is all that a heap of one's own needs: a contract implemented, a family of one name, and
//! this main.

mod family;
mod segregated;

use heaplab_experiment::own_heaps;
use heaplab_replay::{Families, Of};
use heaplab_system::Allocators;
use std::path::Path;

const FAMILIES: Families = Families(&[&Of(Allocators), &Of(family::Segregate)]);

fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).ok_or_else(|| anyhow::anyhow!("usage: own-heap BUNDLE"))?;
    if path == own_heaps::CELL {
        return Ok(own_heaps::serve(&FAMILIES)?);
    }
    let results = own_heaps::compare(&FAMILIES, "glibc,segregated", Path::new(&path), 10)?;
    for found in results.comparisons {
        let (ratio, measure) = (found.ratio, format!("{:?}", found.measure).to_lowercase());
        println!(
            "{measure} of {} over {}: {:.3} ({:.3} to {:.3})",
            found.heap, found.baseline, ratio.value, ratio.low, ratio.high
        );
    }
    results.verdict.iter().chain(&results.cautions).for_each(|sentence| println!("{sentence}"));
    Ok(())
}
