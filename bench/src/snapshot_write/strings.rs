//! The strings' table under each hash: numeric names alone, and other names that collide with them,
//! as in the document.

use crate::bounds::Bounds;
use anyhow::Result;
use heaplab_snapshot::names::{Hash, StringsStorage};
use heaplab_text::words::count;
use std::time::Instant;

const NUMBERS: u32 = 1_000_000;
const OTHERS: u32 = 50_000;

pub fn run(bounds: &mut Bounds) -> Result<()> {
    println!("StringsStorage: slots looked at a name, mean and longest, and ns a name,");
    println!(
        "for the numbers 0..1 M found again and for {} other names put in after them\n",
        count(OTHERS.into())
    );
    println!("| hash | numbers: mean, longest, ns | others: mean, longest | ns |");
    println!("|---|---|---|---|");
    let mut ours = 0.0;
    for (name, hash) in [
        ("V8 before 11.5.130", Hash::V8Original),
        ("the document's", Hash::V8Shifted),
        ("ours", Hash::Mixed),
    ] {
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
            "| {name} | {:.2}, {}, {ns:.0} | {}, {} | {} |",
            numbers.mean_probe(),
            count(numbers.longest_probe),
            if put.mean_probe() < 100.0 {
                format!("{:.1}", put.mean_probe())
            } else {
                count(put.mean_probe() as u64)
            },
            count(put.longest_probe),
            count(other_ns as u64),
        );
        ours = numbers.mean_probe();
    }
    bounds.at_most("numeric names 0..1 M, mean probe of ours", ours, "slots", 1.5);
    Ok(())
}
