//! The strings' table under each hash: numeric names alone, and other names that meet them, as the document saw.

use super::row;
use anyhow::Result;
use heaplab_snapshot::names::{Hash, StringsStorage};
use std::time::Instant;

const NUMBERS: u32 = 1_000_000;
const OTHERS: u32 = 50_000;

pub fn run() -> Result<()> {
    println!("StringsStorage: numeric names 0..{NUMBERS}, found again; then {OTHERS} other names put in");
    println!("{:<22} {:>6} {:>8} {:>10}   {:>10} {:>9} {:>12}", "hash", "mean", "longest", "ns a name", "others", "longest", "ns a name");
    let mut ours = 0.0;
    for (name, hash) in [("V8 before 11.5.130", Hash::V8Original), ("the document's", Hash::V8Shifted), ("ours", Hash::Mixed)] {
        let mut strings = StringsStorage::new(hash);
        let texts: Vec<String> = (0..NUMBERS).map(|number| number.to_string()).collect();
        for text in &texts {
            strings.intern(text)?;
        }
        strings.reset_counters();
        let start = Instant::now();
        for text in &texts {
            strings.intern(text)?;
        }
        let ns = start.elapsed().as_nanos() as f64 / f64::from(NUMBERS);
        let numbers = strings.counters();
        strings.reset_counters();
        let others: Vec<String> = (0..OTHERS).map(|number| format!("property{number}")).collect();
        let start = Instant::now();
        for text in &others {
            strings.intern(text)?;
        }
        let other_ns = start.elapsed().as_nanos() as f64 / f64::from(OTHERS);
        let put = strings.counters();
        println!(
            "{name:<22} {:6.2} {:8} {ns:10.1}   {:10.1} {:9} {other_ns:12.1}",
            numbers.mean_probe(),
            numbers.longest_probe,
            put.mean_probe(),
            put.longest_probe
        );
        ours = numbers.mean_probe();
    }
    row("mean probe of numeric names, ours", ours, "slots", 1.5);
    Ok(())
}
