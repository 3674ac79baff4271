//! Sizes of objects, and how often the next object has the same size.

use crate::recordings::{Kind, Workload};
use anyhow::Result;

/// The document's three bounds.
const BOUNDS: [u32; 3] = [80, 128, 256];

/// Shares in percent of the sizes of one recording.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// Births.
    pub births: u64,
    /// Sizes at or below each of the bounds.
    pub under: [f64; 3],
    /// Followed by an object of the same size.
    pub same: f64,
    /// Of objects of up to 80 bytes, those followed by one of the same size.
    pub same_small: f64,
    /// Objects of 65,536 bytes and more.
    pub large: u64,
}

impl Shares {
    /// Computes the shares of sizes in the order of births.
    pub fn of(sizes: impl Iterator<Item = u32>) -> Shares {
        let (mut births, mut under, mut large) = (0u64, [0u64; 3], 0);
        let (mut same, mut small, mut same_small) = (0u64, 0u64, 0u64);
        let mut before = None;
        for bytes in sizes {
            births += 1;
            large += u64::from(bytes >= 1 << 16);
            for (count, bound) in under.iter_mut().zip(BOUNDS) {
                *count += u64::from(bytes <= bound);
            }
            if let Some(before) = before {
                let (is_same, is_small) = (before == bytes, before <= BOUNDS[0]);
                same += u64::from(is_same);
                small += u64::from(is_small);
                same_small += u64::from(is_same && is_small);
            }
            before = Some(bytes);
        }
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        Shares {
            births,
            under: under.map(|count| share(count, births)),
            same: share(same, births.saturating_sub(1)),
            same_small: share(same_small, small),
            large,
        }
    }
}

/// The shares of all programs of a kind, and their means.
pub fn shares(kind: Kind) -> Result<String> {
    let all = of_kind(kind)?;
    let line = |under: [f64; 3]| under.map(|share| format!("{share:.0}")).join(" / ");
    let parts: Vec<String> =
        all.iter().map(|(name, shares)| format!("{name} {}", line(shares.under))).collect();
    let mean = [0, 1, 2].map(|at| mean(all.iter().map(|(_, shares)| shares.under[at])));
    Ok(format!("mean {} %: {}", line(mean), parts.join(", ")))
}

/// How often the next object has the same size, by program of a kind.
pub fn succession(kind: Kind) -> Result<String> {
    let all = of_kind(kind)?;
    let line = |same: f64, small: f64| format!("{same:.0} ({small:.0})");
    let parts: Vec<String> = all
        .iter()
        .map(|(name, shares)| format!("{name} {}", line(shares.same, shares.same_small)))
        .collect();
    let same = mean(all.iter().map(|(_, shares)| shares.same));
    let small = mean(all.iter().map(|(_, shares)| shares.same_small));
    Ok(format!(
        "mean {} %, in brackets after one of up to 80 bytes: {}",
        line(same, small),
        parts.join(", ")
    ))
}

fn of_kind(kind: Kind) -> Result<Vec<(&'static str, Shares)>> {
    let of = |workload: &&'static Workload| (workload.name, Shares::of(workload.sizes()));
    Ok(crate::runs::workloads()?
        .iter()
        .filter(|workload| workload.kind == kind)
        .map(|workload| of(&workload))
        .collect())
}

/// The mean of some figures; 0 without any.
pub fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_sizes_and_successions() {
        let shares = Shares::of([24, 24, 88, 88, 300, 16, 24, 70_000].into_iter());
        assert_eq!((shares.births, shares.large), (8, 1));
        assert_eq!(shares.under, [50.0, 75.0, 75.0]);
        // The pairs 24-24 and 88-88 of seven; and one of the four pairs that begin with a small
        // size.
        assert!((shares.same - 200.0 / 7.0).abs() < 1e-9 && shares.same_small == 25.0);
        assert_eq!(Shares::of(std::iter::empty()), Shares::default());
    }
}
