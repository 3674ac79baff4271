//! The document's tables, and the distance of names from their slot under either hash.

use anyhow::Result;
use heaplab_snapshot::names::{Hash, StringsStorage};
use heaplab_text::words::count;

/// Numbers from 0 in the table before other names, as in a heap full of numeric property names.
const NUMBERS: u32 = 50_000;
/// Other names that come then.
const OTHERS: u32 = 2_000;
/// A distance that the document calls large.
const FAR: u64 = 20;

/// Both hashes of the numbers that the document prints.
pub fn values() -> String {
    let row = |number: &u32| {
        let of = |hash: Hash| hash.of(number.to_string().as_bytes());
        format!("{number}: {:#x} {:#x}", of(Hash::V8Original), of(Hash::V8Shifted))
    };
    [0, 1, 2, 3, 10, 11, 100].iter().map(row).collect::<Vec<_>>().join(", ")
}

/// The free slots that the shifted hash leaves between neighbours with equally many digits.
pub fn gaps() -> String {
    let of = |number: u32| Hash::V8Shifted.of(number.to_string().as_bytes());
    let neighbours =
        (0..999_999).filter(|number| number.to_string().len() == (number + 1).to_string().len());
    let gaps: Vec<u32> =
        neighbours.map(|number| of(number + 1).wrapping_sub(of(number)) - 1).collect();
    let (least, most) =
        (gaps.iter().min().copied().unwrap_or(0), gaps.iter().max().copied().unwrap_or(0));
    format!("{least} to {most} between {} pairs", count(gaps.len() as u64))
}

/// The distance of names from their hash's slot when they are inserted.
pub fn offsets() -> Result<String> {
    let row = |(name, hash): (&str, Hash)| -> Result<String> {
        let mut strings = StringsStorage::new(hash);
        for number in 0..NUMBERS {
            strings.intern(&number.to_string())?;
        }
        let mut far = 0;
        strings.reset_counters();
        let mut before = 0;
        for number in 0..OTHERS {
            strings.intern(&format!("name{number}"))?;
            let probes = strings.counters().probes;
            far += u64::from(probes - before > FAR);
            before = probes;
        }
        let counters = strings.counters();
        let farthest = counters.longest_probe - 1;
        Ok(format!(
            "{name}: {} of {} over {FAR}, worst {}, mean {:.1} slots",
            count(far),
            count(OTHERS.into()),
            count(farthest),
            counters.mean_probe()
        ))
    };
    let rows: Result<Vec<String>> =
        [("original", Hash::V8Original), ("shifted", Hash::V8Shifted), ("ours", Hash::Mixed)]
            .into_iter()
            .map(row)
            .collect();
    Ok(rows?.join("; "))
}
