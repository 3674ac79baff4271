//! Every strategy on the real programs as one table in Markdown: peak memory relative to Legacy,
//! and, for programs in tabs, mean memory, waste, and the work of scavenges and full collections.
//! `cargo xtask study v8-freelists table [WAY [STRATEGY...]]`.

use crate::compare::{Side, average, change, peak, ratio};
use crate::recordings::Kind;
use crate::runs;
use anyhow::Result;
use heaplab_v8::documented;
use heaplab_v8::spec::Compact;
use heaplab_v8::strategy::Strategy;
use std::fmt::Write;

/// The rows, of all strategies or of some, with one of V8's ways of compacting.
///
/// # Errors
/// A recording is missing, or a run fails.
pub fn table(compact: Compact, only: &[String]) -> Result<String> {
    let mut text = String::from(
        "| strategy | alone | in tabs | on average | waste | refills | nodes looked at | a refill | pages stolen | MB moved off pages |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let base = Side { name: "legacy", compact };
    let wanted = |strategy: &Strategy| only.is_empty() || only.contains(&strategy.name);
    for strategy in documented::all().into_iter().filter(wanted) {
        let name: &'static str = String::leak(strategy.name);
        let side = Side { name, compact };
        let sum = Sum::of(side)?;
        let _ = writeln!(
            text,
            "| `{name}` | {} % | {} % | {} % | {:.2} % | {} k | {} k | {:.2} | {} | {:.1} |",
            change(ratio(Kind::Real, side, base, peak)?.mean()),
            change(ratio(Kind::Session, side, base, peak)?.mean()),
            change(ratio(Kind::Session, side, base, average)?.mean()),
            100.0 * sum.waste / sum.committed.max(1.0),
            sum.refills / 1000,
            sum.nodes / 1000,
            sum.nodes as f64 / sum.refills.max(1) as f64,
            sum.stolen,
            sum.moved as f64 / f64::from(1 << 20)
        );
    }
    Ok(text)
}

/// The programs: their allocations, and the findings of collections under Legacy.
///
/// # Errors
/// As for [`table`].
pub fn programs(compact: Compact) -> Result<String> {
    let mut text = String::from(
        "| program | objects | MB born | scavenges | full collections | MB promoted | old space at most, MB | of that used |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for workload in runs::workloads()? {
        let outcome = runs::outcome(workload, "legacy", compact)?;
        let of = |full: bool| {
            outcome.collections.iter().filter(move |one| (one.kind != "scavenge") == full)
        };
        let work = outcome.collections.iter().filter_map(|one| one.work);
        let promoted: u64 = work.map(|work| work.promoted_bytes).sum();
        let born: u64 = workload.sizes().map(u64::from).sum();
        let most = outcome.collections.iter().map(|one| one.before);
        let most = most.max_by_key(|state| state.committed_bytes).unwrap_or_default();
        let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let _ = writeln!(
            text,
            "| {} | {} k | {:.0} | {} | {} | {:.1} | {:.1} | {:.0} % |",
            workload.name,
            workload.sizes().count() / 1000,
            megabytes(born),
            of(false).count(),
            of(true).count(),
            megabytes(promoted),
            megabytes(most.committed_bytes),
            100.0 * most.used_bytes as f64 / most.committed_bytes.max(1) as f64
        );
    }
    Ok(text)
}

/// Figures of one strategy over the programs in tabs: bytes before full collections, counts of
/// scavenges, and bytes moved by full collections.
#[derive(Default)]
struct Sum {
    waste: f64,
    committed: f64,
    refills: u64,
    nodes: u64,
    stolen: u64,
    moved: u64,
}

impl Sum {
    fn of(side: Side) -> Result<Sum> {
        let mut sum = Sum::default();
        for (_, outcome) in runs::outcomes(Kind::Session, side.name, side.compact)? {
            for one in outcome.collections.iter().filter(|one| one.kind != "scavenge") {
                sum.waste += one.before.waste_bytes.unwrap_or(0) as f64;
                sum.committed += one.before.committed_bytes as f64;
            }
            sum.refills += outcome.counts.scavenges.refills;
            sum.nodes += outcome.counts.scavenges.nodes;
            sum.stolen += outcome.counts.scavenges.stolen_pages;
            sum.moved += outcome.counts.full.evacuated_bytes;
        }
        Ok(sum)
    }
}
