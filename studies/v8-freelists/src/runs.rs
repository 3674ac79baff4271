//! Every recording, the places of its full collections, and its runs on strategies; each is
//! computed once for all claims.

use crate::recordings::{Kind, PROGRAMS, Recording, Workload};
use crate::replay::{self, Outcome};
use anyhow::{Context, Result};
use heaplab_v8::refills::Refill;
use heaplab_v8::spec::{Compact, Shape};
use heaplab_v8::strategy::Strategy;
use heaplab_v8::{described, documented};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// The recordings, read once.
///
/// # Errors
/// One is missing or damaged.
pub fn recordings() -> Result<&'static [Recording]> {
    static READ: OnceLock<Result<Vec<Recording>, String>> = OnceLock::new();
    let read = READ.get_or_init(|| {
        let read: Result<Vec<Recording>> = PROGRAMS.into_iter().map(Recording::read).collect();
        read.map_err(|error| format!("{error:#}"))
    });
    read.as_deref().map_err(|error| anyhow::anyhow!("{error}"))
}

/// Each recording alone, and three sessions of the real programs.
///
/// # Errors
/// As for [`recordings`].
pub fn workloads() -> Result<&'static [Workload]> {
    static MADE: OnceLock<Vec<Workload>> = OnceLock::new();
    let recordings = recordings()?;
    Ok(MADE.get_or_init(|| {
        let real = recordings.iter().filter(|one| one.program.kind == Kind::Real);
        let real: Vec<&'static Recording> = real.collect();
        let sessions = [
            Workload::session("2 tabs", &real, 2, 3),
            Workload::session("3 tabs", &real, 3, 3),
            Workload::session("4 tabs", &real, 4, 3),
        ];
        recordings.iter().map(Workload::alone).chain(sessions).collect()
    }))
}

/// A strategy by its name in `heaplab heaps`, or one of this study's own ([`own`]).
///
/// # Errors
/// No strategy has this name.
pub fn strategy(name: &str) -> Result<Strategy> {
    if let Some(text) = own(name) {
        let described = described::from_toml(&text).map_err(|error| anyhow::anyhow!("{error}"));
        return Ok(Strategy { name: name.into(), ..described? });
    }
    documented::find(name).with_context(|| format!("heaplab has no strategy {name}"))
}

/// Strategies of the document that heaplab lacks, as a file for `v8:file=`.
fn own(name: &str) -> Option<String> {
    let file =
        |minimums: Vec<usize>, rest: &str| Some(format!("minimums = {minimums:?}\n{rest}\n"));
    let linear = |step: usize| {
        let small = (3..=32).map(|words| words * 8);
        let middle = (2..=8).map(|at| at * 256);
        let large = (1..).map(move |at| 2048 + at * step).take_while(|minimum| *minimum <= 65_536);
        small.chain(middle).chain(large).collect()
    };
    match name {
        "more-1k-by-1k" => file(linear(1024), "search = \"fast-path\"\nroom_bytes = 1024"),
        "more-2k-by-2k" => file(linear(2048), "search = \"fast-path\"\nroom_bytes = 2048"),
        "more-4k-by-4k" => file(linear(4096), "search = \"fast-path\"\nroom_bytes = 4096"),
        _ => None,
    }
}

/// The run of a recording on a strategy, done once.
///
/// # Errors
/// There is no such strategy, or the heap fails.
pub fn outcome(workload: &'static Workload, name: &str, compact: Compact) -> Result<Arc<Outcome>> {
    static DONE: OnceLock<Mutex<HashMap<String, Arc<Outcome>>>> = OnceLock::new();
    let done = DONE.get_or_init(Mutex::default);
    let key = format!("{} {name} {compact:?}", workload.name);
    if let Some(outcome) = lock(done).get(&key) {
        return Ok(outcome.clone());
    }
    let outcome = Arc::new(fresh(workload, name, compact)?);
    lock(done).insert(key, outcome.clone());
    Ok(outcome)
}

/// The runs of all workloads of a kind on a strategy, in parallel.
///
/// # Errors
/// As for [`outcome`].
pub fn outcomes(
    kind: Kind,
    name: &str,
    compact: Compact,
) -> Result<Vec<(&'static str, Arc<Outcome>)>> {
    let of_kind: Vec<&'static Workload> =
        workloads()?.iter().filter(|workload| workload.kind == kind).collect();
    std::thread::scope(|scope| {
        let run = |workload: &'static Workload| {
            scope.spawn(move || Ok((workload.name, outcome(workload, name, compact)?)))
        };
        let running: Vec<_> = of_kind.into_iter().map(run).collect();
        let joined = running.into_iter().map(|run| run.join());
        joined.map(|run| run.unwrap_or_else(|_| anyhow::bail!("a run panicked"))).collect()
    })
}

/// A run done anew: for times.
///
/// # Errors
/// As for [`outcome`].
pub fn fresh(workload: &'static Workload, name: &str, compact: Compact) -> Result<Outcome> {
    let spec = replay::spec(&strategy(name)?, compact, Shape::Recorded);
    replay::replay(workload, &places(workload)?, spec)
}

/// Each refill of each cycle of a recording.
///
/// # Errors
/// As for [`outcome`].
pub fn refills(workload: &'static Workload, name: &str) -> Result<Vec<Vec<Refill>>> {
    let spec = replay::spec(&strategy(name)?, Compact::Regular, Shape::Recorded);
    replay::refills(workload, &places(workload)?, spec)
}

/// The places of a recording's full collections.
///
/// # Errors
/// The heap fails.
pub fn places(workload: &'static Workload) -> Result<Arc<Vec<usize>>> {
    type Places = HashMap<&'static str, Arc<Vec<usize>>>;
    static DONE: OnceLock<Mutex<Places>> = OnceLock::new();
    let done = DONE.get_or_init(Mutex::default);
    if let Some(places) = lock(done).get(workload.name) {
        return Ok(places.clone());
    }
    let places = Arc::new(replay::schedule(workload, Shape::Recorded)?);
    lock(done).insert(workload.name, places.clone());
    Ok(places)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
