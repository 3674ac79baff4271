//! Requested sizes: their weights, and how often a size follows itself.
//!
//! `octane` and `web` are the mixes of "Reducing heap fragmentation in V8" (its section Insights):
//! 77 / 93 / 99 and 87 / 93 / 98 % of allocations up to 80 / 128 / 256 bytes. 40-60 % and 30-40 %
//! of allocations are followed by one of the same size; the middles are taken. The document says no
//! more. The rest is chosen here: within a class all multiples of 8 from 16 on are equally likely;
//! above 256 bytes each doubling up to 16 KiB is half as likely as the one before.

use crate::random::Random;
use std::fs::File;
use std::io::Read;

/// The classes' bounds in the document, bytes.
pub const BOUNDS: [u64; 3] = [80, 128, 256];
/// Largest size of the mixes.
const MIX_BYTES_MAX: u64 = 16 << 10;
/// Largest size of a request.
pub const SIZE_MAX: u64 = 1 << 30;
/// Sizes that a table may have.
pub const ROWS_MAX: usize = 1 << 20;

/// Largest accepted file of sizes, bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads a file of sizes.
///
/// # Errors
/// The file cannot be read, or is too large, in words.
pub fn read_file(path: &str) -> Result<String, String> {
    let file = File::open(path).map_err(|error| format!("cannot open {path}: {error}"))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot read {path}: {error}"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("{path}: larger than {FILE_BYTES_MAX} bytes"));
    }
    Ok(text)
}

/// Sizes with their weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Size and weight, rising by size; weights are not 0.
    rows: Vec<(u64, u64)>,
    /// Of a million allocations, the number followed by one of the same size; `None`: not
    /// controlled.
    pub same: Option<u64>,
    /// Whether the sizes are a mix of the document.
    pub is_mix: bool,
}

impl Sizes {
    /// Sizes with weights, in any order.
    ///
    /// # Errors
    /// The mistake, in words.
    pub fn new(mut rows: Vec<(u64, u64)>, same: Option<u64>) -> Result<Sizes, String> {
        rows.retain(|(_, weight)| *weight > 0);
        rows.sort_unstable();
        if rows.is_empty() {
            return Err("no size has a weight".into());
        }
        if let Some((size, _)) =
            rows.iter().find(|(size, weight)| *size > SIZE_MAX || *weight > u64::from(u32::MAX))
        {
            return Err(format!(
                "size {size}: sizes up to {SIZE_MAX} and weights up to {} are taken",
                u32::MAX
            ));
        }
        if rows.len() > ROWS_MAX {
            return Err(format!("{} sizes; up to {ROWS_MAX} are taken", rows.len()));
        }
        Ok(Sizes { rows, same, is_mix: false })
    }

    /// A mix of the document: percentages up to each of [`BOUNDS`].
    pub fn mix(percentages: [u64; 3], same: u64) -> Sizes {
        let mut rows = Vec::new();
        let (mut from, mut before) = (16, 0);
        for (bound, percentage) in BOUNDS.into_iter().zip(percentages) {
            let sizes = (from..=bound).step_by(8);
            let weight = (percentage - before) * 1_000_000 / sizes.clone().count() as u64;
            rows.extend(sizes.map(|size| (size, weight)));
            (from, before) = (bound + 8, percentage);
        }
        // Each doubling gets half of the remaining weight, the last one all of it.
        let mut left = (100 - before) * 1_000_000;
        while from <= MIX_BYTES_MAX {
            let end = (from - 8) * 2;
            let share = if end >= MIX_BYTES_MAX { left } else { left / 2 };
            let sizes = (from..=end).step_by(8);
            let count = sizes.clone().count() as u64;
            rows.extend(sizes.enumerate().map(|(nth, size)| {
                (size, share / count + u64::from((nth as u64) < share % count))
            }));
            left -= share;
            from = end + 8;
        }
        Sizes {
            is_mix: true,
            ..Sizes::new(rows, Some(same)).unwrap_or_else(|_| Sizes::fixed(BOUNDS[0]))
        }
    }

    /// One size.
    pub fn fixed(size: u64) -> Sizes {
        Sizes { rows: vec![(size, 1)], same: None, is_mix: false }
    }

    /// All multiples of 8 from `least` to `most`, equally likely.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn uniform(least: u64, most: u64) -> Result<Sizes, String> {
        if most > SIZE_MAX || most.saturating_sub(least) / 8 >= ROWS_MAX as u64 {
            return Err(format!(
                "from {least} to {most} bytes; ranges of up to {ROWS_MAX} multiples of 8 below {SIZE_MAX} are taken"
            ));
        }
        let rows: Vec<_> =
            (least.next_multiple_of(8)..=most).step_by(8).map(|size| (size, 1)).collect();
        if rows.is_empty() {
            return Err(format!("no multiple of 8 from {least} to {most}"));
        }
        Sizes::new(rows, None)
    }

    /// Parses lines `size` or `size,weight`; skips a first line of words and lines that begin with
    /// #.
    ///
    /// # Errors
    /// A bad line, with its number.
    pub fn read(text: &str) -> Result<Sizes, String> {
        let mut rows = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            let is_heading =
                index == 0 && line.starts_with(|first: char| first.is_ascii_alphabetic());
            if line.is_empty() || line.starts_with('#') || is_heading {
                continue;
            }
            let (size, weight) = line.split_once(',').unwrap_or((line, "1"));
            match (size.trim().parse(), weight.trim().parse()) {
                (Ok(size), Ok(weight)) => rows.push((size, weight)),
                _ => {
                    return Err(format!(
                        "line {}: expected a size in bytes, or a size, a comma and a weight; found {line:?}",
                        index + 1
                    ));
                }
            }
            if rows.len() > ROWS_MAX {
                return Err(format!("line {}: more than {ROWS_MAX} sizes", index + 1));
            }
        }
        Sizes::new(rows, None)
    }

    /// The share of the weights of sizes up to `bound`.
    pub fn share(&self, bound: u64) -> f64 {
        // The sum of no numbers is -0, which prints its sign.
        let sum =
            |rows: &[(u64, u64)]| rows.iter().fold(0.0, |sum, (_, weight)| sum + *weight as f64);
        sum(&self.rows[..self.rows.partition_point(|(size, _)| *size <= bound)]) / sum(&self.rows)
    }

    /// Mean size, bytes.
    pub fn mean(&self) -> f64 {
        let total: f64 = self.rows.iter().map(|(_, weight)| *weight as f64).sum();
        self.rows.iter().map(|(size, weight)| *size as f64 * *weight as f64).sum::<f64>() / total
    }

    /// The share of independent draws that equal the previous draw.
    pub fn chance_of_same(&self) -> f64 {
        let total: f64 = self.rows.iter().map(|(_, weight)| *weight as f64).sum();
        self.rows
            .chunk_by(|a, b| a.0 == b.0)
            .map(|same| (same.iter().map(|row| row.1 as f64).sum::<f64>() / total).powi(2))
            .sum()
    }
}

/// Draws sizes.
#[derive(Clone, Debug)]
pub struct Drawer {
    sizes: Sizes,
    /// The current rows, and running sums of their weights.
    now: Vec<u64>,
    sums: Vec<u64>,
    /// Of a million draws, the number of forced repetitions of the previous draw.
    repeats: u64,
    before: Option<u64>,
}

impl Drawer {
    /// Draws from all sizes.
    pub fn new(sizes: Sizes) -> Drawer {
        let mut drawer =
            Drawer { sizes, now: Vec::new(), sums: Vec::new(), repeats: 0, before: None };
        let rows = drawer.sizes.rows.clone();
        drawer.set(&rows);
        drawer
    }

    /// From here on draws from only half of the sizes of each class, with the class's whole weight.
    /// A program's sizes change with its work, and the mix stays.
    pub fn change(&mut self, random: &mut Random) {
        let class = |size: u64| BOUNDS.iter().position(|bound| size <= *bound);
        let mut rows = Vec::new();
        for of_class in self.sizes.rows.chunk_by(|a, b| class(a.0) == class(b.0)) {
            // Half of the sizes, rounded up; every subset of this many is equally likely.
            let mut wanted = of_class.len().div_ceil(2) as u64;
            let mut chosen: Vec<(u64, u64)> = Vec::with_capacity(wanted as usize);
            for (nth, row) in of_class.iter().enumerate() {
                if random.below((of_class.len() - nth) as u64) < wanted {
                    wanted -= 1;
                    chosen.push(*row);
                }
            }
            let sum = |rows: &[(u64, u64)]| {
                rows.iter().map(|(_, weight)| u128::from(*weight)).sum::<u128>()
            };
            // The factor 2048 keeps rounding out of the mix. The products are computed as u128; the
            // sums stay below 2^64, with 2^20 rows of weights below 2^32.
            let (all, of_chosen) = (sum(of_class), sum(&chosen));
            rows.extend(chosen.iter().map(|(size, weight)| {
                (*size, (u128::from(*weight) * all * 2048 / of_chosen) as u64)
            }));
        }
        self.set(&rows);
    }

    fn set(&mut self, rows: &[(u64, u64)]) {
        let mut sum = 0_u64;
        self.now = rows.iter().map(|(size, _)| *size).collect();
        self.sums = rows
            .iter()
            .map(|(_, weight)| {
                sum = sum.saturating_add(*weight);
                sum
            })
            .collect();
        // Integers only, so that draws are the same everywhere. Independent draws repeat by
        // themselves with chance c: same = repeats + (1 - repeats) c.
        let million = 1_000_000_u128;
        let total = u128::from(sum.max(1));
        let by_itself = |rows: &[(u64, u64)]| -> u128 {
            let of_size = |same: &[(u64, u64)]| {
                same.iter().map(|(_, weight)| u128::from(*weight)).sum::<u128>() * (million * 1000)
                    / total
            };
            rows.chunk_by(|a, b| a.0 == b.0).map(|same| of_size(same).pow(2)).sum::<u128>()
                / (million * million)
        };
        self.repeats = self.sizes.same.map_or(0, |same| {
            let c = by_itself(rows).min(million - 1);
            (u128::from(same).saturating_sub(c) * million / (million - c)) as u64
        });
    }

    /// The next size.
    pub fn draw(&mut self, random: &mut Random) -> u64 {
        if let Some(before) = self.before
            && self.repeats > 0
            && random.chance(self.repeats)
        {
            return before;
        }
        let total = self.sums.last().copied().unwrap_or(1);
        let chosen = random.below(total);
        let size = self.now[self.sums.partition_point(|sum| *sum <= chosen)];
        self.before = Some(size);
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_mixes_are_the_document_s() {
        for percentages in [[77, 93, 99], [87, 93, 98]] {
            let sizes = Sizes::mix(percentages, 400_000);
            for (bound, percentage) in BOUNDS.into_iter().zip(percentages) {
                assert!(
                    (sizes.share(bound) * 100.0 - percentage as f64).abs() < 0.001,
                    "{bound} {}",
                    sizes.share(bound)
                );
            }
            assert_eq!((sizes.rows[0].0, sizes.rows.last().unwrap().0), (16, MIX_BYTES_MAX));
        }
    }

    #[test]
    fn a_table_of_sizes_is_read_or_the_line_is_named() {
        let sizes = Sizes::read("size,weight\n# a comment\n64, 3\n\n128\n").unwrap();
        assert_eq!((sizes.rows, sizes.same), (vec![(64, 3), (128, 1)], None));
        assert_eq!(
            Sizes::read("64\nx,1").unwrap_err(),
            "line 2: expected a size in bytes, or a size, a comma and a weight; found \"x,1\""
        );
        assert_eq!(Sizes::read("64,0").unwrap_err(), "no size has a weight");
        assert!(Sizes::read("99999999999,1").unwrap_err().contains("sizes up to"));
        assert!(Sizes::uniform(0, u64::MAX).is_err() && Sizes::uniform(9, 15).is_err());
        assert_eq!(Sizes::uniform(9, 24).unwrap().rows, [(16, 1), (24, 1)]);
    }

    proptest! {
        #[test]
        fn what_is_drawn_is_of_the_table_in_each_phase(rows in prop::collection::vec((0u64..3000, 0u64..1000), 1..50), same in prop::option::of(0u64..1_000_000), seed: u64) {
            let Ok(sizes) = Sizes::new(rows, same) else { return Ok(()) };
            let mut drawer = Drawer::new(sizes.clone());
            let mut random = Random::new(seed);
            for _ in 0..5 {
                for _ in 0..20 {
                    let size = drawer.draw(&mut random);
                    prop_assert!(sizes.rows.iter().any(|row| row.0 == size));
                }
                drawer.change(&mut random);
            }
        }
    }
}
