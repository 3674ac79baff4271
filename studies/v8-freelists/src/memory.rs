//! The rows of memory and of counted work, the same in every run.

use crate::compare::{
    Measure, Side, always, average, memory, memory_of, never, peak, ratio, regular, scavenges,
};
use crate::recordings::Kind;
use crate::replay::Outcome;
use crate::runs;
use anyhow::Result;
use heaplab_v8::page::Category;
use heaplab_v8::spec::Compact;

/// Measures a row; `None`: the row is another module's.
///
/// # Errors
/// A recording is missing, or a run fails.
pub fn row(id: &str) -> Result<Option<String>> {
    let legacy = regular("legacy");
    let said = match id {
        "v8.freelist-overhead" => overhead(),
        "v8.retry.memory" => both(regular("legacy-retry"), regular("legacy-more-smalls-slow"))?,
        "v8.discard-tiny" => both(regular("no-tiny"), legacy)?,
        "v8.singlepage" => single_page()?,
        "v8.fast" => both(regular("fast-alloc"), legacy)?,
        "v8.many.precise" => {
            format!(
                "{}; 24 categories: {}",
                both(regular("many-46"), legacy)?,
                memory(regular("many"), legacy)?
            )
        }
        "v8.many.fastpath" => {
            let shipped = memory(regular("many-fast-path"), legacy)?;
            format!("{}; 24 categories: {shipped}", both(regular("many-46-fast-path"), legacy)?)
        }
        "v8.many.nocompact" => no_compaction()?,
        "v8.segregation" => {
            let never_moved = |name| memory(never(name), never("many-origin"));
            format!(
                "pages of 8 KiB, Go's classes: {}; pages of 4 KiB: {}; pages of 8 KiB against many-origin with regular compaction: {}",
                never_moved("segregated")?,
                never_moved("segregated-4k")?,
                memory(never("segregated"), regular("many-origin"))?
            )
        }
        "v8.feedback" => format!(
            "many-feedback against many-fast-path: {}; against many-origin: {}; many-pressure against many-fast-path: {}",
            both(regular("many-feedback"), regular("many-fast-path"))?,
            both(regular("many-feedback"), regular("many-origin"))?,
            memory(regular("many-pressure"), regular("many-fast-path"))?
        ),
        "v8.full-region" => both(regular("many-more-2k-region"), regular("many-more-2k"))?,
        "v8.over65k" => over_65k()?,
        "v8.halfsmall" => {
            let bytes = 14 * 4;
            format!(
                "{}; 14 categories fewer are {bytes} bytes a page at 4 bytes each, {} at heaplab's {}",
                both(regular("half-small-many"), regular("many-46"))?,
                14 * size_of::<Category>(),
                size_of::<Category>()
            )
        }
        "v8.moresmalls" => both(regular("legacy-more-smalls-slow"), regular("legacy-slow"))?,
        "v8.overallocate.124k" => {
            let base = regular("more-1k-by-1k");
            format!(
                "1k -> 2k: {}; 1k -> 4k: {}",
                both(regular("more-2k-by-2k"), base)?,
                both(regular("more-4k-by-4k"), base)?
            )
        }
        "v8.overallocate.256" => {
            both(regular("many-46-fast-path-256"), regular("many-46-fast-path"))?
        }
        "v8.large-categories.size" => large_categories(|side, base| {
            Ok(format!(
                "in tabs at most {}, on average {}, alone {}",
                ratio(Kind::Session, side, base, peak)?.text(),
                ratio(Kind::Session, side, base, average)?.text(),
                ratio(Kind::Real, side, base, peak)?.text()
            ))
        })?,
        "v8.large-categories.scavenger" => large_categories(scavenges)?,
        "v8.stress-compact.octane" => {
            compaction(&[Kind::Synthetic], Compact::Always, Compact::Never)?
        }
        "v8.stress-compact.web" => {
            compaction(&[Kind::Session, Kind::Real], Compact::Always, Compact::Regular)?
        }
        "v8.never-compact.web" => {
            compaction(&[Kind::Session, Kind::Real], Compact::Never, Compact::Regular)?
        }
        "v8.large-pages-need-compaction" => {
            let (side, base) = (never("many-46"), regular("many-46"));
            format!("{}; Octane's {}", memory(side, base)?, memory_of(Kind::Synthetic, side, base)?)
        }
        "v8.fullest-first" => fullest_first()?,
        _ => return Ok(None),
    };
    Ok(Some(said))
}

/// Memory, and the work of scavenges.
fn both(side: Side, base: Side) -> Result<String> {
    Ok(format!("{}; scavenges: {}", memory(side, base)?, scavenges(side, base)?))
}

/// Bytes of 100 categories on 1,000 pages: by the document's record, in V8, and in heaplab.
fn overhead() -> String {
    let of = |bytes: usize| format!("{} KB", 100 * 1000 * bytes / 1000);
    let ours = size_of::<Category>();
    format!(
        "{} at 4 bytes a record; V8's records were 56 bytes ({}), later 32 ({}); heaplab's are {ours} ({})",
        of(4),
        of(56),
        of(32),
        of(ours)
    )
}

/// Bytes that full collections copied, those of young objects included.
fn copied(outcome: &Outcome) -> f64 {
    full_copies(outcome).sum::<u64>() as f64
}

/// The most that one copied.
fn most_copied(outcome: &Outcome) -> f64 {
    full_copies(outcome).max().unwrap_or(0) as f64
}

fn full_copies(outcome: &Outcome) -> impl Iterator<Item = u64> {
    let full = outcome.collections.iter().filter(|one| one.kind != "scavenge");
    full.filter_map(|one| Some(one.work?.moved_bytes))
}

fn single_page() -> Result<String> {
    let base = regular("legacy");
    let copied_ratio = ratio(Kind::Session, always("single-page"), base, copied)?;
    Ok(format!(
        "{}; every page emptied by every full collection: {}, bytes copied x{:.1}",
        both(regular("single-page"), base)?,
        memory(always("single-page"), base)?,
        copied_ratio.mean()
    ))
}

fn no_compaction() -> Result<String> {
    let (side, base) = (never("many-46"), regular("legacy"));
    let of = |measure: Measure| ratio(Kind::Session, side, base, measure);
    Ok(format!(
        "{}; Octane's programs: {}; bytes that full collections copy, all {}, most at once {}",
        memory(side, base)?,
        memory_of(Kind::Synthetic, side, base)?,
        of(copied)?.text(),
        of(most_copied)?.text()
    ))
}

/// Searches for 65,536 bytes and more on all programs, by the number of nodes that they looked at.
fn over_65k() -> Result<String> {
    let mut places = [0u64; 5];
    for kind in [Kind::Real, Kind::Synthetic, Kind::Session] {
        for (_, outcome) in runs::outcomes(kind, "many-46", Compact::Never)? {
            let counts = outcome.counts;
            let all = counts.program + counts.scavenges + counts.full;
            places.iter_mut().zip(all.largest_found).for_each(|(sum, new)| *sum += new);
        }
    }
    let [_, second, third, fourth, later] = places;
    Ok(format!(
        "of {} that found a node, {} looked past the first: {second} / {third} / {fourth} in the 2nd / 3rd / 4th, {later} later",
        places.iter().sum::<u64>(),
        places[1..].iter().sum::<u64>()
    ))
}

/// The document's four, each against Legacy.
pub fn large_categories(of: impl Fn(Side, Side) -> Result<String>) -> Result<String> {
    let sides = [
        ("HalfManyFast", "many-fast-path"),
        ("HalfSmallManyFast", "half-small-many-fast-path"),
        ("ManyFast", "many-46-fast-path"),
        ("ManyMore2kFast", "many-more-2k-fast-path"),
    ];
    let mut said = Vec::new();
    for (name, strategy) in sides {
        said.push(format!("{name} {}", of(regular(strategy), regular("legacy"))?));
    }
    Ok(said.join("; "))
}

/// The fullest pages first, and the emptiest, against the order of linking; nothing is compacted.
fn fullest_first() -> Result<String> {
    let mut said = Vec::new();
    for (what, name) in [("fullest", "many-fullest"), ("emptiest", "many-emptiest")] {
        let (side, base) = (never(name), never("many"));
        said.push(format!(
            "{what} first: {}; Octane's {}",
            memory(side, base)?,
            memory_of(Kind::Synthetic, side, base)?
        ));
    }
    Ok(said.join("; "))
}

/// One way of compacting against another, under Legacy and under V8's default.
fn compaction(kinds: &[Kind], way: Compact, base: Compact) -> Result<String> {
    let mut said = Vec::new();
    for name in ["legacy", "many-origin"] {
        let (side, base) = (Side { name, compact: way }, Side { name, compact: base });
        let (mut moved, mut parts) = ([0.0; 2], Vec::new());
        for &kind in kinds {
            parts.push(memory_of(kind, side, base)?);
            for (sum, side) in moved.iter_mut().zip([side, base]) {
                for (_, outcome) in runs::outcomes(kind, side.name, side.compact)? {
                    *sum += outcome.counts.full.evacuated_bytes as f64 / f64::from(1 << 20);
                }
            }
        }
        let memory = parts.join(", alone ");
        let [mine, base] = moved;
        said.push(format!("{name} {memory}, moved off pages {mine:.0} MB for {base:.0}"));
    }
    Ok(said.join("; "))
}
