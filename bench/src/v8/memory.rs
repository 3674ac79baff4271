//! Bytes that the heap keeps beside its pages, an object.

use super::{RULES, workload};
use crate::bounds::Bounds;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

const BYTES_MAX: f64 = 24.0;

/// Prints the table.
pub fn measure(folder: &Path, bounds: &mut Bounds) -> Result<()> {
    println!("\nBytes from malloc when the workload has run, its pages and the driver's table not");
    println!("among them ({RULES}):\n\n| live objects | bytes | for each |\n|---|---|---|");
    let mut most: f64 = 0.0;
    for (births, slots) in [(100_000, 10_000), (1_000_000, 200_000), (4_000_000, 1_000_000)] {
        let more = format!(",slots={slots}");
        let program = workload(births, &more, folder)?;
        let this = std::env::current_exe()?;
        let said = Command::new(this)
            .args(["v8", "--probe", "memory", "--heap", RULES, "--program"])
            .arg(program.path())
            .output()?;
        ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        let said = String::from_utf8(said.stdout)?;
        let (bytes, live) = said.trim().split_once(' ').context("two numbers")?;
        let (bytes, live): (u64, u64) = (bytes.parse()?, live.parse()?);
        let each = bytes as f64 / live as f64;
        println!("| {live} | {bytes} | {each:.2} |");
        most = most.max(each);
    }
    bounds.at_most("beside the pages, each live object", most, "bytes", BYTES_MAX);
    Ok(())
}
