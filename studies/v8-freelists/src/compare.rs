//! One strategy against another over the recorded programs: memory and counted work.

use crate::recordings::{Kind, Workload};
use crate::replay::Outcome;
use crate::runs;
use anyhow::Result;
use heaplab_v8::Counts;
use heaplab_v8::spec::Compact;

/// A strategy under one of V8's ways of compacting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// The strategy's name.
    pub name: &'static str,
    /// Compaction.
    pub compact: Compact,
}

/// A strategy with V8's regular compaction.
pub const fn regular(name: &'static str) -> Side {
    Side { name, compact: Compact::Regular }
}

/// Without compaction.
pub const fn never(name: &'static str) -> Side {
    Side { name, compact: Compact::Never }
}

/// With every page emptied by every full collection.
pub const fn always(name: &'static str) -> Side {
    Side { name, compact: Compact::Always }
}

/// The compared figure of a run.
pub type Measure = fn(&Outcome) -> f64;

/// Peak of old space's committed bytes.
pub fn peak(outcome: &Outcome) -> f64 {
    outcome.peak_committed() as f64
}

/// Mean of old space's committed bytes, before collections.
pub fn average(outcome: &Outcome) -> f64 {
    outcome.mean_committed()
}

/// A ratio over programs.
#[derive(Clone, Debug)]
pub struct Ratio {
    /// By program; `None`: the base is zero.
    pub each: Vec<(&'static str, Option<f64>)>,
}

impl Ratio {
    /// The geometric mean; 1 if there are no ratios.
    pub fn mean(&self) -> f64 {
        let logs = self.each.iter().filter_map(|(_, ratio)| *ratio).filter(|ratio| *ratio > 0.0);
        crate::sizes::mean(logs.map(f64::ln)).exp()
    }

    /// `-1.2 % (-3.0 to +0.4)`.
    pub fn text(&self) -> String {
        let ratios = || self.each.iter().filter_map(|(_, ratio)| *ratio);
        let (low, high) =
            (ratios().fold(f64::INFINITY, f64::min), ratios().fold(f64::NEG_INFINITY, f64::max));
        if ratios().next().is_none() {
            return "nothing to compare".into();
        }
        format!("{} % ({} to {})", change(self.mean()), change(low), change(high))
    }

    /// With every program named.
    pub fn named(&self) -> String {
        let one = |(name, ratio): &(&str, Option<f64>)| match ratio {
            Some(ratio) => format!("{name} {}", change(*ratio)),
            None => format!("{name} none"),
        };
        let each: Vec<String> = self.each.iter().map(one).collect();
        format!("{} % ({})", change(self.mean()), each.join(", "))
    }
}

/// A ratio as a signed percentage; a value that rounds to zero has no sign.
pub fn change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let text = format!("{percent:+.1}");
    if text == "-0.0" || text == "+0.0" { "0.0".into() } else { text }
}

/// The recorded programs of a kind.
///
/// # Errors
/// A recording is missing.
pub fn of_kind(kind: Kind) -> Result<impl Iterator<Item = &'static Workload>> {
    Ok(runs::workloads()?.iter().filter(move |workload| workload.kind == kind))
}

/// `side` over `base`, on the programs of a kind.
///
/// # Errors
/// A recording is missing, or a run fails.
pub fn ratio(kind: Kind, side: Side, base: Side, measure: Measure) -> Result<Ratio> {
    let mut each = Vec::new();
    let runs = |side: Side| runs::outcomes(kind, side.name, side.compact);
    for ((name, mine), (_, base)) in runs(side)?.into_iter().zip(runs(base)?) {
        let (mine, base) = (measure(&mine), measure(&base));
        each.push((name, (base > 0.0).then(|| mine / base)));
    }
    Ok(Ratio { each })
}

/// Memory of `side` relative to `base` on real programs: in tabs the peak, by session, and the
/// mean; alone the peak.
///
/// # Errors
/// As for [`ratio`].
pub fn memory(side: Side, base: Side) -> Result<String> {
    let alone = ratio(Kind::Real, side, base, peak)?.text();
    Ok(format!("in tabs {}; alone at most {alone}", memory_of(Kind::Session, side, base)?))
}

/// The same on the workloads of a kind.
///
/// # Errors
/// As for [`ratio`].
pub fn memory_of(kind: Kind, side: Side, base: Side) -> Result<String> {
    Ok(format!(
        "at most {}, on average {}",
        ratio(kind, side, base, peak)?.named(),
        ratio(kind, side, base, average)?.text()
    ))
}

/// Counted work of scavenges of `side` relative to `base`, of programs in tabs.
///
/// # Errors
/// As for [`ratio`].
pub fn scavenges(side: Side, base: Side) -> Result<String> {
    work(side, base, |outcome| outcome.counts.scavenges)
}

fn work(side: Side, base: Side, of: fn(&Outcome) -> Counts) -> Result<String> {
    let mut sums = [[0u64; 4]; 2];
    for (sum, side) in sums.iter_mut().zip([side, base]) {
        for (_, outcome) in runs::outcomes(Kind::Session, side.name, side.compact)? {
            let counts = of(&outcome);
            let new = [counts.refills, counts.nodes, counts.stolen_pages, counts.swept_pages];
            sum.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
        }
    }
    let [mine, base] = sums;
    let one = |at: usize, what: &str| match base[at] {
        0 => format!("{what} {} for none", mine[at]),
        base => format!("{what} {} %", change(mine[at] as f64 / base as f64)),
    };
    Ok([
        one(0, "refills"),
        one(1, "nodes looked at"),
        one(2, "pages stolen"),
        one(3, "pages swept"),
    ]
    .join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_told_as_changes() {
        assert_eq!(
            [1.0, 1.00049, 0.9996, 1.034, 0.66].map(change),
            ["0.0", "0.0", "0.0", "+3.4", "-34.0"]
        );
        let ratio = Ratio { each: vec![("a", Some(2.0)), ("b", Some(0.5)), ("c", None)] };
        assert_eq!(ratio.text(), "0.0 % (-50.0 to +100.0)");
        assert_eq!(ratio.named(), "0.0 % (a +100.0, b -50.0, c none)");
    }
}
