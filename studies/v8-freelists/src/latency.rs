//! The cost of refills towards the end of a cycle: the document's third idea for the future.
//!
//! A cycle is the time from one full collection to the next. Its tenths are tenths of the bytes
//! that linear areas take in it, so they do not depend on the program's other work. The figures
//! cover programs in tabs, all cycles together.

use crate::compare::of_kind;
use crate::recordings::Kind;
use crate::runs;
use anyhow::Result;
use heaplab_v8::refills::{Found, Refill};
use std::fmt::Write;

const TENTHS: usize = 10;
/// Strategies in the table by default.
const SHOWN: [&str; 4] = ["legacy", "many-origin", "many-fast-path", "many-feedback"];

/// Refills of one tenth of all cycles.
#[derive(Default)]
struct Tenth {
    refills: u64,
    area_bytes: u64,
    /// Served by the free list, but not by the first step of its search.
    later: u64,
    /// Served by sweeping, stealing or a new page.
    outside: u64,
    nodes: u64,
    nodes_most: u32,
    ns: Vec<u32>,
}

impl Tenth {
    fn add(&mut self, refill: &Refill) {
        self.refills += 1;
        self.area_bytes += u64::from(refill.area_bytes);
        match refill.found {
            Found::Step(0) => {}
            Found::Step(_) => self.later += 1,
            Found::Swept | Found::Stolen | Found::New | Found::Nowhere => self.outside += 1,
        }
        self.nodes += u64::from(refill.nodes);
        self.nodes_most = self.nodes_most.max(refill.nodes);
        self.ns.push(refill.ns);
    }

    /// Refills for each MB that linear areas take.
    fn a_megabyte(&self) -> f64 {
        self.refills as f64 * f64::from(1 << 20) / self.area_bytes.max(1) as f64
    }

    fn percent(&self, of: u64) -> f64 {
        100.0 * of as f64 / self.refills.max(1) as f64
    }

    fn nodes_each(&self) -> f64 {
        self.nodes as f64 / self.refills.max(1) as f64
    }

    /// The time that `permille` of a thousand refills do not exceed, ns.
    fn ns(&mut self, permille: usize) -> u32 {
        self.ns.sort_unstable();
        let at = (self.ns.len() * permille / 1000).min(self.ns.len().saturating_sub(1));
        self.ns.get(at).copied().unwrap_or(0)
    }
}

/// Tenths of all cycles under a strategy.
fn tenths(name: &str) -> Result<Vec<Tenth>> {
    let mut tenths: Vec<Tenth> = (0..TENTHS).map(|_| Tenth::default()).collect();
    for workload in of_kind(Kind::Session)? {
        for cycle in runs::refills(workload, name)? {
            let Some(last) = cycle.last() else { continue };
            let all = (last.taken_bytes + u64::from(last.area_bytes)).max(1);
            for refill in &cycle {
                let at = refill.taken_bytes as u128 * TENTHS as u128 / u128::from(all);
                tenths[(at as usize).min(TENTHS - 1)].add(refill);
            }
        }
    }
    Ok(tenths)
}

/// The row of counts: first and last tenth.
///
/// # Errors
/// A recording is missing, or a run fails.
pub fn row() -> Result<String> {
    let mut said = Vec::new();
    for name in SHOWN {
        let tenths = tenths(name)?;
        let [first, .., last] = &tenths[..] else { continue };
        said.push(format!(
            "{name} refills a MB {:.0} -> {:.0}, by a later step {:.1} -> {:.1} %, from outside {:.1} -> {:.1} %, nodes a refill {:.2} -> {:.2}, at most {} -> {}",
            first.a_megabyte(),
            last.a_megabyte(),
            first.percent(first.later),
            last.percent(last.later),
            first.percent(first.outside),
            last.percent(last.outside),
            first.nodes_each(),
            last.nodes_each(),
            first.nodes_most,
            last.nodes_most,
        ));
    }
    Ok(said.join("; "))
}

/// The distribution by tenth, as a table in Markdown; times by the clock of this machine.
///
/// # Errors
/// As for [`row`].
pub fn table(names: &[String]) -> Result<String> {
    let mut text = String::new();
    let shown = SHOWN.map(String::from);
    for name in if names.is_empty() { &shown[..] } else { names } {
        let _ = writeln!(
            text,
            "`{name}`, by tenth of a cycle:\n\n| tenth | refills a MB | by a later step | from outside | nodes a refill | at most | ns, half | 99 % | 99.9 % |\n\
             |---|---|---|---|---|---|---|---|---|"
        );
        for (at, tenth) in tenths(name)?.iter_mut().enumerate() {
            let [half, most, nearly_all] = [500, 990, 999].map(|permille| tenth.ns(permille));
            let _ = writeln!(
                text,
                "| {} | {:.0} | {:.1} % | {:.1} % | {:.2} | {} | {half} | {most} | {nearly_all} |",
                at + 1,
                tenth.a_megabyte(),
                tenth.percent(tenth.later),
                tenth.percent(tenth.outside),
                tenth.nodes_each(),
                tenth.nodes_most,
            );
        }
        text.push('\n');
    }
    Ok(text)
}
