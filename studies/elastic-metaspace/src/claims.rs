//! The document's figures, from the recordings.

use super::curves::{self, Look, Phase};
use super::workload::{self, Workload};
use anyhow::{Context, Result};
use heaplab_metaspace::designs::usage_of;
use heaplab_metaspace::old::recording;
use heaplab_metaspace::plan::LoaderKind;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The compared designs, and their names for a reader.
pub const DESIGNS: [(&str, &str); 4] = [
    ("jdk11", "old"),
    ("jdk17,reclaim=none", "elastic, none"),
    ("jdk17", "elastic, balanced"),
    ("jdk17,reclaim=aggressive", "elastic, aggressive"),
];

/// The document calls requests above this many words large.
pub const LARGE_WORDS: usize = 40;
/// The real JVMs' times for churn, in microseconds a cycle (columns `load_us_median` and
/// `gc_us_median`).
const JVMS: &str = include_str!("../../../traces/metaspace/churn-jvm-summary.csv");
/// Classes of a cycle of churn: 300 loaders of 60 on average, and 1500 of one.
const CYCLE_CLASSES: f64 = 19_500.0;
/// Repetitions of a timed replay; the fastest counts.
const REPETITIONS: usize = 7;

/// The looks at a recording on a design; replayed once a process.
pub fn looks(workload: &'static str, design: &'static str) -> Result<Arc<Vec<Look>>> {
    type Kept = Mutex<HashMap<(&'static str, &'static str), Arc<Vec<Look>>>>;
    static KEPT: OnceLock<Kept> = OnceLock::new();
    // Held while replaying: two replays at once would share the process's figures.
    let mut kept = KEPT.get_or_init(Kept::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(looks) = kept.get(&(workload, design)) {
        return Ok(looks.clone());
    }
    let looks = Arc::new(curves::looks(&named(workload)?, design)?);
    kept.insert((workload, design), looks.clone());
    Ok(looks)
}

fn named(name: &str) -> Result<Workload> {
    if name == "churn" { workload::churn() } else { workload::jruby() }
}

/// The look after churn's last drop that left a tenth of the loaders; the program then dropped the
/// rest and ended.
fn last_drop(design: &'static str) -> Result<Look> {
    let looks = looks("churn", design)?;
    looks
        .iter()
        .rev()
        .filter(|look| look.phase == Phase::Dropped)
        .nth(1)
        .copied()
        .context("churn has no two drops")
}

fn percent(part: u64, whole: u64) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    if part > 0 && share < 0.1 { "<0.1 %".into() } else { format!("{share:.1} %") }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / f64::from(1 << 20))
}

/// Share of requests above 40 words.
pub fn large_share() -> Result<String> {
    let mut said = Vec::new();
    for workload in [workload::churn()?, workload::jruby()?] {
        let (mut count, mut large, mut words, mut large_words) = (0, 0, 0, 0);
        for (request, _) in workload.requests().filter(|(_, class)| !class) {
            count += 1;
            words += request as u64;
            if request > LARGE_WORDS {
                large += 1;
                large_words += request as u64;
            }
        }
        said.push(format!(
            "{} {} ({} of the words)",
            workload.name,
            percent(large, count),
            percent(large_words, words)
        ));
    }
    Ok(said.join("; "))
}

/// Blocks put on free lists, freed or left over, and requests served from them, for 1000
/// allocations.
pub fn deallocations() -> Result<String> {
    let mut said = Vec::new();
    for workload in [workload::churn()?, workload::jruby()?] {
        let allocations = workload.requests().count() as f64;
        let given_back = workload
            .events
            .iter()
            .filter(|event| matches!(event, workload::Event::Deallocate(..)))
            .count() as f64;
        let per_1000 = |count: f64| 1000.0 * count / allocations;
        let left_over = |design| -> Result<f64> {
            Ok(per_1000(curves::leftovers(&workload, design)?.len() as f64))
        };
        said.push(format!(
            "{}: {:.2} given back, {:.1} left over in the old design, {:.1} in the elastic one; {:.1} requests served from such blocks",
            workload.name,
            per_1000(given_back),
            left_over("jdk11")?,
            left_over("jdk17")?,
            per_1000(workload.from_free_blocks as f64)
        ));
    }
    Ok(said.join("; "))
}

/// Requests of a loader of one class.
pub fn micro_loaders() -> Result<String> {
    let workload = workload::jruby()?;
    let mut counts = vec![(0u64, 0u64); workload.arenas.len()];
    for event in &workload.events {
        if let workload::Event::Allocate(arena, words) = event {
            counts[*arena].0 += 1;
            counts[*arena].1 += *words as u64;
        }
    }
    // An arena of class space carries its loader's kind only as "micro"; the loader's other arena
    // was born just before it.
    let is_micro =
        |loader: LoaderKind| matches!(loader, LoaderKind::Hidden | LoaderKind::Reflection);
    let of = |class: bool| {
        let mut chosen: Vec<(u64, u64)> = workload
            .arenas
            .iter()
            .zip(&counts)
            .filter(|(plan, _)| plan.class == class && is_micro(plan.loader))
            .map(|(_, count)| *count)
            .collect();
        chosen.sort_unstable();
        chosen
    };
    let (class, rest) = (of(true), of(false));
    let at = |list: &[(u64, u64)], share: usize| {
        list.get((list.len() * share / 100).min(list.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    };
    let mut words: Vec<u64> = rest.iter().map(|(_, words)| *words).collect();
    words.sort_unstable();
    Ok(format!(
        "{} loaders: class space {}, non-class {} (from {} to {}), {} words",
        rest.len(),
        at(&class, 50).0,
        at(&rest, 50).0,
        at(&rest, 5).0,
        at(&rest, 95).0,
        words.get(words.len() / 2).copied().unwrap_or_default()
    ))
}

/// Free chunks after unloading, in the old design: those of JDK 11 itself, and those for the
/// recording of JDK 17.
pub fn free_chunks() -> Result<String> {
    let (_, comparison) = recording::replay(&workload::jdk11()?).context("jdk11-churn.txt.gz")?;
    let dropped = comparison
        .moments
        .iter()
        .rev()
        .find(|moment| moment.said.step == "dropped")
        .context("no drop was recorded")?;
    let jvm = usage_of(&dropped.ours);
    let replayed = last_drop("jdk11")?.moment;
    let ratio = |moment: &heaplab_metaspace::designs::Usage| {
        format!(
            "{} of {}",
            percent(moment.free_chunks, moment.committed),
            megabytes(moment.committed)
        )
    };
    Ok(format!(
        "JDK 11's churn: {}, used:free 1:{:.1}; churn of 17 replayed: {}, used:free 1:{:.1}",
        ratio(&jvm),
        jvm.free_chunks as f64 / dropped.said.used_bytes as f64,
        ratio(&replayed),
        replayed.free_chunks as f64 / replayed.used as f64
    ))
}

/// Bytes lost inside of chunks in use, in the old design.
pub fn waste_in_chunks() -> Result<String> {
    let moment = last_drop("jdk11")?.moment;
    let share = |part| percent(part, moment.committed);
    Ok(format!(
        "free {}, overhead {}, waste {}, deallocated {} of {}",
        share(moment.free),
        share(moment.overhead),
        share(moment.waste),
        share(moment.deallocated),
        megabytes(moment.committed)
    ))
}

/// Committed over used, after every drop.
pub fn committed_follows_used() -> Result<String> {
    let mut said = Vec::new();
    for (design, name) in DESIGNS {
        let looks = looks("churn", design)?;
        let ratios: Vec<String> = looks
            .iter()
            .filter(|look| look.phase == Phase::Dropped)
            .map(|look| format!("{:.2}", look.moment.committed as f64 / look.moment.used as f64))
            .collect();
        let empty = looks
            .iter()
            .find(|look| look.phase == Phase::Empty)
            .map_or(0, |look| look.moment.committed);
        said.push(format!("{name} {}, nothing alive {}", ratios.join(" "), megabytes(empty)));
    }
    Ok(format!("committed/used after each drop: {}", said.join("; ")))
}

/// Memory of the process, after the last drop.
pub fn resident_follows_used() -> Result<String> {
    let mut said = Vec::new();
    for (design, name) in DESIGNS {
        let loaded = looks("churn", design)?.iter().map(|look| look.resident).max().unwrap_or(0);
        said.push(format!(
            "{name} {} of {}",
            megabytes(last_drop(design)?.resident),
            megabytes(loaded)
        ));
    }
    Ok(format!("RSS after the last drop, of the most before: {}", said.join("; ")))
}

/// Committed once everything is loaded.
pub fn after_startup() -> Result<String> {
    let committed = |design| -> Result<u64> {
        let looks = looks("jruby", design)?;
        Ok(looks
            .iter()
            .rev()
            .find(|look| look.phase == Phase::Running)
            .context("an empty recording")?
            .moment
            .committed)
    };
    let (old, elastic) = (committed("jdk11")?, committed("jdk17")?);
    Ok(format!(
        "jruby: {} -> {} ({:+.1} %)",
        megabytes(old),
        megabytes(elastic),
        100.0 * (elastic as f64 / old as f64 - 1.0)
    ))
}

/// Microseconds of a JVM in churn's summary: for a cycle's loading, and for the collection that
/// ends it.
fn jvm_times(run: &str) -> Result<[f64; 2]> {
    let mut lines = JVMS.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().context("churn-jvm-summary.csv is empty")?;
    let row = lines
        .find(|row| row[0] == run)
        .with_context(|| format!("churn-jvm-summary.csv has no {run}"))?;
    let field = |name: &str| -> Result<f64> {
        let at = names.iter().position(|column| *column == name);
        let text = at
            .and_then(|at| row.get(at))
            .with_context(|| format!("churn-jvm-summary.csv has no {name} of {run}"))?;
        text.parse().with_context(|| {
            format!("churn-jvm-summary.csv, {name} of {run}: {text:?} is not a number")
        })
    };
    Ok([field("load_us_median")?, field("gc_us_median")?])
}

/// Additional time of churn in the JVM of the elastic design over that of the old one: loading,
/// unloading, both.
fn jvms_cost() -> Result<String> {
    let ([old_load, old_gc], [load, gc]) =
        (jvm_times("jdk11_stock")?, jvm_times("jdk17_balanced")?);
    let more = |old: f64, new: f64| 100.0 * (new / old - 1.0);
    Ok(format!(
        "real JVMs 11 and 17 on churn, a cycle: loading {:.3} and {:.3} s ({:+.1} %), collection {:.1} and {:.1} ms ({:+.0} %), both {:+.1} %",
        old_load / 1e6,
        load / 1e6,
        more(old_load, load),
        old_gc / 1e3,
        gc / 1e3,
        more(old_gc, gc),
        more(old_load + old_gc, load + gc)
    ))
}

/// Time of a replay on three designs (the old one, the elastic one, and the elastic one that never
/// returns memory to the kernel), and in the real JVMs.
pub fn cost() -> Result<String> {
    let mut said = Vec::new();
    if cfg!(debug_assertions) {
        said.push("in a build that is not optimised".to_owned());
    }
    for workload in [workload::churn()?, workload::jruby()?] {
        let designs = ["jdk11", "jdk17", "jdk17,reclaim=none"];
        let mut fastest = [f64::INFINITY; 3];
        for _ in 0..REPETITIONS {
            for (design, fastest) in designs.into_iter().zip(&mut fastest) {
                *fastest = fastest.min(
                    curves::time(&workload, design)?.as_nanos() as f64
                        / workload.events.len() as f64,
                );
            }
        }
        // A class makes one request of class space.
        let events_per_class = workload.events.len() as f64
            / workload.requests().filter(|(_, class)| *class).count().max(1) as f64;
        let [old, elastic, none] = fastest;
        let class_us = (elastic - old) * events_per_class / 1e3;
        let churn_class_us = jvm_times("jdk11_stock")?[0] / CYCLE_CLASSES;
        said.push(format!(
            "{}: old {old:.0}, elastic {elastic:.0}, none {none:.0} ns an event; elastic {class_us:+.2} us a class, {:+.1} % of the {churn_class_us:.1} us that JDK 11 took for one of churn's",
            workload.name,
            100.0 * class_us / churn_class_us
        ));
    }
    said.push(jvms_cost()?);
    Ok(said.join("; "))
}

/// Share of free memory in chunks larger than 64 KB.
pub fn contiguity() -> Result<String> {
    let mut said = Vec::new();
    for (design, name) in DESIGNS {
        let moment = last_drop(design)?.moment;
        said.push(format!(
            "{name} {} of {}",
            percent(moment.free_capacity_large, moment.free_capacity),
            megabytes(moment.free_capacity)
        ));
    }
    Ok(format!("free chunks larger than 64 KB after the last drop: {}", said.join("; ")))
}

/// Mappings and kept memory, by size of granule.
pub fn granules() -> Result<String> {
    let mut said = Vec::new();
    for (design, name) in [
        ("jdk17,reclaim=aggressive", "16 KB"),
        ("jdk17", "64 KB"),
        ("jdk17,reclaim=none", "never uncommitted"),
    ] {
        let mappings = looks("churn", design)?.iter().map(|look| look.mappings).max().unwrap_or(0);
        said.push(format!(
            "{name}: {} committed after the last drop, {mappings} mappings at most",
            megabytes(last_drop(design)?.moment.committed)
        ));
    }
    Ok(said.join("; "))
}

/// Compares the old design's decisions with JDK 11's.
pub fn as_jdk_11() -> Result<String> {
    let (_, comparison) = recording::replay(&workload::jdk11()?).context("jdk11-churn.txt.gz")?;
    let equal = |moment: &&recording::ComparedMoment| {
        moment.ours.committed_bytes() == moment.said.committed_bytes
    };
    Ok(format!(
        "{} of {} chunks at the same place, {} of {} reused blocks, {} of {} nodes unmapped, committed bytes equal at {} of {} moments",
        comparison.chunks_equal,
        comparison.chunks,
        comparison.blocks_equal,
        comparison.blocks,
        comparison.unmapped_here,
        comparison.unmapped,
        comparison.moments.iter().filter(equal).count(),
        comparison.moments.len()
    ))
}
