//! The rows of time: one strategy against another in blocks, by Wilcoxon's signed-rank test as in
//! the document.
//!
//! A block is one recording on both sides, one right after the other; the sides take turns to be
//! first. Times are this thread's CPU times: of scavenges, of full collections, and of the program
//! between them, which includes the driver. The times of a heap of rules show a strategy's work,
//! not V8's speed: its objects have no fields, and one task collects.

use crate::compare::{Side, always, never, of_kind, regular};
use crate::memory::large_categories;
use crate::nodes::told;
use crate::recordings::{Kind, Workload};
use crate::replay::Outcome;
use crate::runs;
use anyhow::Result;
use heaplab_v8::documented;
use std::hint::black_box;

/// Blocks of each recording.
const BLOCKS: usize = 4;
/// Selections of a category that are timed together, and their number.
const SELECTIONS: usize = 200_000;
const ROUNDS: usize = 21;

/// Measures a row; `None`: the row is another module's.
///
/// # Errors
/// A recording is missing, or a run fails.
pub fn row(id: &str) -> Result<Option<String>> {
    let legacy = regular("legacy");
    let (side, base) = match id {
        "v8.retry.time" => (regular("legacy-retry"), regular("legacy-more-smalls-slow")),
        "v8.discard-tiny.time" => (regular("no-tiny"), legacy),
        "v8.singlepage.time" => (regular("single-page"), legacy),
        "v8.singlepage.compacting.time" => (always("single-page"), legacy),
        "v8.fast.time" => (regular("fast-alloc"), legacy),
        "v8.many.precise.time" => (regular("many-46"), legacy),
        "v8.many.fastpath.time" => (regular("many-46-fast-path"), legacy),
        "v8.many.nocompact.time" => (never("many-46"), legacy),
        "v8.full-region.time" => (regular("many-more-2k-region"), regular("many-more-2k")),
        "v8.halfsmall.time" => (regular("half-small-many"), regular("many-46")),
        "v8.moresmalls.time" => (regular("legacy-more-smalls-slow"), regular("legacy-slow")),
        "v8.overallocate.124k.time" => (regular("more-4k-by-4k"), regular("more-1k-by-1k")),
        "v8.overallocate.256.time" => {
            (regular("many-46-fast-path-256"), regular("many-46-fast-path"))
        }
        "v8.stress-compact.web.time" => (always("many-origin"), regular("many-origin")),
        "v8.never-compact.web.time" => (never("many-origin"), regular("many-origin")),
        "v8.large-categories.scavenger.time" => return large_categories(scavenges).map(Some),
        "v8.stress-compact.octane.time" => return octane().map(Some),
        "v8.select" => return select().map(Some),
        _ => return Ok(None),
    };
    Ok(Some(Times::of(side, base, real()?)?.told()))
}

/// Real programs, alone and in two tabs and three.
fn real() -> Result<Vec<&'static Workload>> {
    Ok(of_kind(Kind::Real)?.chain(of_kind(Kind::Session)?.take(2)).collect())
}

/// Scavenges of the strategies with categories of large blocks against Legacy.
fn scavenges(side: Side, base: Side) -> Result<String> {
    Ok(told(&Times::of(side, base, real()?)?.scavenges))
}

/// Always against regular compaction on Octane's programs.
fn octane() -> Result<String> {
    let mut said = Vec::new();
    for name in ["legacy", "many-origin"] {
        let workloads = of_kind(Kind::Synthetic)?.collect();
        let times = Times::of(always(name), regular(name), workloads)?;
        said.push(format!("{name} {}; the whole {}", times.told(), told(&times.whole)));
    }
    Ok(said.join(". "))
}

/// Logarithms of one side's times over the other's, a pair each.
#[derive(Default)]
struct Times {
    scavenges: Vec<f64>,
    full: Vec<f64>,
    longest: Vec<f64>,
    program: Vec<f64>,
    whole: Vec<f64>,
}

impl Times {
    /// Times of `side` over `base`.
    fn of(side: Side, base: Side, workloads: Vec<&'static Workload>) -> Result<Times> {
        let mut times = Times::default();
        for workload in workloads {
            for block in 0..BLOCKS {
                let (mine, base) = in_turns(workload, side, base, block)?;
                let log = |of: fn(&Outcome) -> u64| {
                    (of(&mine).max(1) as f64 / of(&base).max(1) as f64).ln()
                };
                times.scavenges.push(log(Outcome::scavenge_ns));
                times.full.push(log(Outcome::full_ns));
                times.longest.push(log(Outcome::longest_full_ns));
                times.program.push(log(Outcome::program_ns));
                times.whole.push(log(|outcome| outcome.cpu_ns));
            }
        }
        Ok(times)
    }

    fn told(&self) -> String {
        format!(
            "scavenges {}; full collections {}, the longest {}; program {}",
            told(&self.scavenges),
            told(&self.full),
            told(&self.longest),
            told(&self.program)
        )
    }
}

fn in_turns(
    workload: &'static Workload,
    side: Side,
    base: Side,
    block: usize,
) -> Result<(Outcome, Outcome)> {
    let fresh = |side: Side| runs::fresh(workload, side.name, side.compact);
    if block.is_multiple_of(2) {
        let mine = fresh(side)?;
        Ok((mine, fresh(base)?))
    } else {
        let base = fresh(base)?;
        Ok((fresh(side)?, base))
    }
}

/// The cost of choosing a category among ManyMore's 99: by a loop from the smallest, by halving, by
/// a table (one entry a word), on the sizes of a recording; the least of some rounds, ns a choice.
fn select() -> Result<String> {
    let all = documented::all();
    let Some(more) = all.iter().find(|strategy| strategy.name == "many-more") else {
        anyhow::bail!("heaplab has no strategy many-more");
    };
    let Some(workload) = of_kind(Kind::Real)?.next() else { anyhow::bail!("no recording") };
    let sizes: Vec<usize> =
        workload.sizes().map(|bytes| bytes.max(24) as usize).take(SELECTIONS).collect();
    let minimums = &more.minimums;
    let table: Vec<u8> =
        (0..=(1usize << 17) / 8).map(|words| more.category((words * 8).max(24)) as u8).collect();
    let by_loop = |bytes: usize| {
        minimums.iter().take_while(|minimum| **minimum <= bytes).count().saturating_sub(1)
    };
    let by_table = |bytes: usize| usize::from(table[(bytes / 8).min(table.len() - 1)]);
    for bytes in sizes.iter().copied().filter(|bytes| *bytes < 1 << 17) {
        anyhow::ensure!(by_loop(bytes) == by_table(bytes), "a choice differs at {bytes} bytes");
    }
    let each = [
        ("loop", least(&sizes, by_loop)),
        ("halving", least(&sizes, |bytes| more.category(bytes))),
        ("table", least(&sizes, by_table)),
    ];
    let outcome = runs::fresh(workload, "many-more", heaplab_v8::spec::Compact::Regular)?;
    let counts = outcome.counts.scavenges;
    let saved = (each[0].1 - each[2].1) * counts.searches as f64;
    let said: Vec<String> = each.iter().map(|(name, ns)| format!("{name} {ns:.1} ns")).collect();
    Ok(format!(
        "{}; the {} choices of {}'s scavenges would save {:.2} % of their time",
        said.join(", "),
        counts.searches,
        workload.name,
        100.0 * saved / outcome.scavenge_ns().max(1) as f64
    ))
}

fn least(sizes: &[usize], choose: impl Fn(usize) -> usize) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let began = heaplab_replay::system::cpu_ns();
        let mut sum = 0usize;
        for &bytes in sizes {
            sum = sum.wrapping_add(choose(black_box(bytes)));
        }
        black_box(sum);
        let ns = heaplab_replay::system::cpu_ns() - began;
        least = least.min(ns as f64 / sizes.len().max(1) as f64);
    }
    least
}
