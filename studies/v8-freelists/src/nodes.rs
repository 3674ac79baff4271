//! The strategies that V8 shipped, in the real V8 7.9 of Node 13.14.0, beside heaplab's heap;
//! [`equal`] has the V8s of three other Nodes too.
//!
//! The driver of the real V8 makes arrays ([`replay::asked`]). So both sides run the recordings as
//! arrays here, with full collections at the same places.

use crate::compare::{Ratio, change, of_kind};
use crate::recordings::{Kind, Step, Workload, installed};
use crate::replay::{self, asked};
use anyhow::{Context, Result};
use heaplab_heap::{Ask, Collection};
use heaplab_node as node;
use heaplab_statistics::{hodges_lehmann, wilcoxon};
use heaplab_v8::facts::{VERSIONS, Version};
use heaplab_v8::own;
use heaplab_v8::spec::{Compact, Shape};
use heaplab_v8::strategy;
use std::fmt;

/// The Node whose V8 is 7.9.
const NODE: &str = "13.14.0";
/// Blocks of a comparison of times: six are enough for Wilcoxon's test at 5 %.
const BLOCKS: usize = 6;

/// The Node of the study's folder, or of `HEAPLAB_NODES`; `None`: there is none.
fn spec(node: &str, strategy: usize, compact: Compact) -> Result<Option<node::Spec>> {
    let way = match compact {
        Compact::Never => "never",
        Compact::Regular => "regular",
        Compact::Always => "always",
    };
    let mut text = format!("version={node},strategy={strategy},compact={way}");
    if let Some(path) = installed("node13").filter(|_| node == NODE) {
        text.push_str(&format!(",node={}", path.display()));
    }
    let spec = node::Spec::parse(&text)?;
    Ok(node::find::node(&spec).is_ok().then_some(spec))
}

/// A recording in the real V8, with full collections at these places.
fn run(workload: &Workload, places: &[usize], spec: &node::Spec) -> Result<node::Run> {
    let mut feed = |visit: &mut dyn FnMut(node::Step) -> Result<(), String>| {
        let mut next = places.iter().peekable();
        for (at, step) in workload.steps().enumerate() {
            visit(match step {
                Step::Birth { slot, bytes } => {
                    node::Step::Birth { slot, size: asked(bytes, Shape::Array) as u64 }
                }
                Step::Death(slot) => node::Step::Death { slot },
            })?;
            if next.next_if_eq(&&at).is_some() {
                visit(node::Step::Collect(Ask::Full))?;
            }
        }
        Ok(())
    };
    node::run(spec, workload.slots, &mut feed)
        .with_context(|| format!("{} in Node {}", workload.name, spec.version))
}

/// The workloads that run in both: the real programs, and the smaller of the sessions.
fn shared() -> Result<impl Iterator<Item = &'static Workload>> {
    Ok(of_kind(Kind::Real)?.chain(of_kind(Kind::Session)?.take(1)))
}

/// Peak of old space's committed bytes.
fn peak(collections: &[Collection]) -> u64 {
    let states = collections.iter().flat_map(|one| [one.before, one.after]);
    states.map(|state| state.committed_bytes).max().unwrap_or(0)
}

/// Memory of strategies 1 to 5 relative to 0 in the real V8, without compaction, with V8's regular
/// one, and always.
pub fn memory() -> Result<Option<String>> {
    let mut said = Vec::new();
    let ways =
        [("never", Compact::Never), ("regular", Compact::Regular), ("always", Compact::Always)];
    for (way, compact) in ways {
        let mut ratios = vec![Ratio { each: Vec::new() }; 6];
        for workload in shared()? {
            let places = replay::schedule(workload, Shape::Array)?;
            let mut base = 0;
            for (number, ratio) in ratios.iter_mut().enumerate() {
                let Some(spec) = spec(NODE, number, compact)? else { return Ok(None) };
                let most = peak(&run(workload, &places, &spec)?.collections);
                base = if number == 0 { most } else { base };
                let over = (base > 0).then(|| most as f64 / base as f64);
                ratio.each.push((workload.name, over));
            }
        }
        let names = strategy::released().into_iter().map(|strategy| strategy.name);
        let each: Vec<String> = names
            .zip(&ratios)
            .skip(1)
            .map(|(name, ratio)| format!("{name} {}", ratio.text()))
            .collect();
        said.push(format!("compact={way}: {}", each.join(", ")));
    }
    Ok(Some(said.join("; ")))
}

/// Number of collections that leave old space like the real V8, without compaction: committed, used
/// and available bytes, in each V8 whose rules heaplab has. heaplab's heap begins with Node's own
/// objects at their places in that run, and once more with the set that heaplab keeps for the
/// version. Needs [`NODE`]; names each other Node that is not installed.
pub fn equal() -> Result<Option<String>> {
    let (mut said, mut kept) = (Vec::new(), Equal::default());
    for version in &VERSIONS {
        if spec(version.node, 0, Compact::Never)?.is_none() {
            if version.node == NODE {
                return Ok(None);
            }
            said.push(format!("Node {} is not installed", version.node));
            continue;
        }
        let mut each = Vec::new();
        for workload in shared()? {
            let own = equal_on(workload, version, &mut kept)?;
            each.push(format!("{} {own}", workload.name));
        }
        said.push(format!("V8 {}: {}", version.name, each.join("; ")));
    }
    Ok(Some(format!(
        "collections equal, six strategies: {}; from the objects kept for a version: {kept}",
        said.join(" | ")
    )))
}

/// Number of collections that left old space equal, number of all, and the first difference of each
/// run.
#[derive(Default)]
struct Equal {
    equal: usize,
    all: usize,
    first_of_each: Vec<String>,
}

impl fmt::Display for Equal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {}", self.equal, self.all)?;
        if !self.first_of_each.is_empty() {
            write!(out, " ({})", self.first_of_each.join(", "))?;
        }
        Ok(())
    }
}

/// Runs a workload from the places of Node's own objects in each run; `kept` counts the same runs
/// from the objects that heaplab keeps for the version.
fn equal_on(workload: &Workload, version: &Version, kept: &mut Equal) -> Result<Equal> {
    let places = replay::schedule(workload, Shape::Array)?;
    let mut as_run = Equal::default();
    for (number, strategy) in strategy::released().iter().enumerate() {
        let real = spec(version.node, number, Compact::Never)?.context("it was there")?;
        let theirs = run(workload, &places, &real)?.collections;
        // Sorting and sweeping include Node's own pages, by their live bytes, and these depend on
        // the workload's slots.
        let own = node::own::objects(
            &real,
            node::Table { slots: workload.slots, hidden_classes: false },
        )?
        .to_toml();
        let own = own::from_toml(&own, version, strategy.minimum_block())
            .map_err(|what| anyhow::anyhow!("Node's own objects: {what}"))?;
        for (base, counts) in [(Some(own), &mut as_run), (None, &mut *kept)] {
            let mut spec = replay::spec(strategy, Compact::Never, Shape::Array);
            (spec.version, spec.base) = (*version, base);
            let ours = replay::replay(workload, &places, spec)?.collections;
            let (same, first) = ours_against(&ours, &theirs).with_context(|| workload.name)?;
            counts.equal += same;
            counts.all += theirs.len();
            let place = format!("V8 {}, {}, {}", version.name, workload.name, strategy.name);
            counts.first_of_each.extend(first.map(|first| format!("{place}: {first}")));
        }
    }
    Ok(as_run)
}

/// Number of our forced collections that leave old space like theirs, and the first that does not.
fn ours_against(ours: &[Collection], theirs: &[Collection]) -> Result<(usize, Option<String>)> {
    let ours: Vec<_> = ours.iter().filter(|one| one.cause == "forced").collect();
    anyhow::ensure!(
        ours.len() == theirs.len(),
        "{} forced collections, and {} in Node",
        ours.len(),
        theirs.len()
    );
    let state = |one: &Collection| {
        (one.after.committed_bytes, one.after.used_bytes, one.after.available_bytes)
    };
    let pairs = || ours.iter().zip(theirs).map(|(ours, theirs)| (state(ours), state(theirs)));
    let same = pairs().filter(|(ours, theirs)| ours == theirs).count();
    let first = pairs().enumerate().find(|(_, (ours, theirs))| ours != theirs);
    let first = first.map(|(at, (ours, theirs))| {
        format!("first collection {}: {ours:?}, in Node {theirs:?}", at + 1)
    });
    Ok((same, first))
}

/// Times of one strategy of the real V8 relative to another, in blocks: V8's own pauses of
/// scavenges, and CPU time of the whole process.
pub fn times(mine: usize, base: usize) -> Result<Option<String>> {
    let (mut scavenges, mut cpu) = (Vec::new(), Vec::new());
    for workload in of_kind(Kind::Real)? {
        let places = replay::schedule(workload, Shape::Array)?;
        for block in 0..BLOCKS {
            let mut figures = [(0.0, 0.0); 2];
            for at in [block % 2, 1 - block % 2] {
                let number = [mine, base][at];
                let Some(spec) = spec(NODE, number, Compact::Regular)? else { return Ok(None) };
                let run = run(workload, &places, &spec)?;
                figures[at] = (run.scavenges_ns as f64, run.cpu_ns as f64);
            }
            let [mine, base] = figures;
            scavenges.push((mine.0 / base.0).ln());
            cpu.push((mine.1 / base.1).ln());
        }
    }
    Ok(Some(format!("scavenges {}; the whole process {}", told(&scavenges), told(&cpu))))
}

/// A shift of logarithms of ratios as a change, with its interval and Wilcoxon's p.
pub fn told(logs: &[f64]) -> String {
    let Some(shift) = hodges_lehmann(logs, 0.95) else { return "nothing to compare".into() };
    let p = wilcoxon(logs).map_or_else(|| "none".into(), |p| format!("{p:.3}"));
    let of = |log: f64| change(log.exp());
    format!("{} % ({} to {}, p {p})", of(shift.value), of(shift.low), of(shift.high))
}
