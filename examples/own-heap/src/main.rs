//! Replays a recording on the heap of `segregated.rs`: `cargo run --release -p own-heap -- app.heaplab`.
//!
//! This is all that a heap of one's own needs: the contract implemented, and this main.

mod segregated;

use heaplab_replay::{CellKind, CellRequest, Touch, cell};
use heaplab_trace::{bundle::Bundle, bundle::Selection, program};
use segregated::Segregated;
use std::path::Path;

fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).ok_or_else(|| anyhow::anyhow!("usage: own-heap BUNDLE"))?;
    let program = program::cached(&Bundle::open(Path::new(&path))?, Selection::default())?;
    for kind in [CellKind::Verify, CellKind::Space, CellKind::Time] {
        let (heap, touch) = (String::from("segregated"), Touch::Known);
        let request = CellRequest { heap, kind, program: program.path().into(), touch, threads: false, passes: 5, core: None };
        let report = cell::run(Segregated::default(), &program, &request);
        println!("{}", serde_json::to_string(&report)?);
    }
    Ok(())
}
