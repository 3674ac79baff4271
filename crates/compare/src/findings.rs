//! Findings of both sides: gone, new, moved to another function, more, less.
//!
//! Findings of both sides match if kind and function are equal. Of the rest, two of a kind are one
//! finding that moved, if their stacks are equal except for inlining, or except for the innermost
//! function, which was renamed: neither side has the other's.

use crate::change::Change;
use crate::run::{FoundHere, Run, middle};
use hashbrown::{HashMap, HashSet};
use heaplab_findings::CHURN;
use serde::Serialize;
use std::collections::BTreeMap;

/// What became of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// It was not there before.
    New,
    /// It needs more.
    More,
    /// Its function has another name, or was inlined.
    Moved,
    /// It needs less.
    Less,
    /// The finding is gone.
    Gone,
    /// The finding is unchanged.
    Same,
}

/// A finding of either side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FindingChange {
    /// The fate of the finding.
    pub became: Became,
    /// "clownshoes", "growth", "churn", "leak".
    pub kind: &'static str,
    /// Its function; where it moved, the one after.
    pub function: String,
    /// Where it moved, the function before.
    pub moved_from: Option<String>,
    /// Whether it is too small on both sides for a first screen: under a thousandth of the peak.
    pub minor: bool,
    /// Its line in the report of the side that has it, the one after where both have.
    pub title: String,
    /// In how many runs of each side it was found.
    pub runs: [usize; 2],
    /// Bytes that the program would not need at its peak, or never gives back.
    pub needed_bytes: Change,
    /// Bytes of the whole run that a change would spare.
    pub total_bytes: Change,
}

type Key<'a> = (&'static str, &'a str);
/// By side, the finding of each run that has it.
type Runs<'a> = [Vec<Option<&'a FoundHere>>; 2];

/// Least relative difference for a finding to count as more or less: estimates of equal programs
/// differ by some bytes.
const FELT: f64 = 0.01;

fn is_felt(change: &Change) -> bool {
    change.is_beyond_spread() && change.share().is_none_or(|share| share.abs() >= FELT)
}

pub(crate) fn compared(
    sides: [&[Run]; 2],
    inlined: &HashMap<Vec<u32>, Vec<u32>>,
) -> Vec<FindingChange> {
    let mut found: BTreeMap<Key<'_>, Runs<'_>> = BTreeMap::new();
    for (side, runs) in sides.iter().enumerate() {
        for (number, run) in runs.iter().enumerate() {
            for finding in &run.findings {
                let of = found
                    .entry((finding.kind, &finding.function))
                    .or_insert_with(|| sides.map(|runs| vec![None; runs.len()]));
                // Of two causes in one function the first, which a report puts first.
                of[side][number].get_or_insert(finding);
            }
        }
    }
    let moved = moves(&found, inlined, &sides.map(functions));
    let mut rows = Vec::new();
    for (key, runs) in &found {
        if moved.values().any(|before| before == key) {
            continue;
        }
        let before = moved.get(key);
        let of_before = before.and_then(|key| found.get(key)).map_or(&runs[0], |of| &of[0]);
        let from = before.map(|(_, function)| (*function).to_owned());
        let mut row = row([of_before, &runs[1]], from);
        if is_only_counted_now(&row, [of_before, &runs[1]], sides) {
            row.became = Became::Same;
        }
        rows.push(row);
    }
    let size = |row: &FindingChange| {
        (row.needed_bytes.difference.unsigned_abs(), row.total_bytes.difference.unsigned_abs())
    };
    rows.sort_by(|a, b| {
        (a.became.cmp(&b.became))
            .then(size(b).cmp(&size(a)))
            .then_with(|| (a.kind, &a.function).cmp(&(b.kind, &b.function)))
    });
    rows
}

/// From a finding of the later runs alone to the earlier one that it was.
fn moves<'a>(
    found: &BTreeMap<Key<'a>, Runs<'a>>,
    inlined: &HashMap<Vec<u32>, Vec<u32>>,
    functions: &[HashSet<u32>; 2],
) -> BTreeMap<Key<'a>, Key<'a>> {
    let only = |side: usize| {
        found.iter().filter_map(move |(key, runs)| {
            let here = runs[side].iter().flatten().next()?;
            let there = runs[1 - side].iter().flatten().next();
            there.is_none().then_some((*key, *here))
        })
    };
    let mut moved: BTreeMap<Key<'a>, Key<'a>> = BTreeMap::new();
    for (after, found_after) in only(1) {
        let is_free = |key: &Key<'_>| !moved.values().any(|taken| taken == key);
        let before = only(0).find(|(key, finding)| {
            key.0 == after.0
                && is_free(key)
                && is_same([&finding.path, &found_after.path], inlined, functions)
        });
        if let Some((before, _)) = before {
            moved.insert(after, before);
        }
    }
    moved
}

/// Whether the paths before and after are one finding's. A function that the other side has, too,
/// was not renamed.
fn is_same(
    paths: [&Vec<u32>; 2],
    inlined: &HashMap<Vec<u32>, Vec<u32>>,
    functions: &[HashSet<u32>; 2],
) -> bool {
    let [before, after] = paths.map(|path| inlined.get(path).unwrap_or(path));
    let is_renamed = || {
        before.len() > 2
            && before.len() == after.len()
            && before[1..] == after[1..]
            && !functions[1].contains(&before[0])
            && !functions[0].contains(&after[0])
    };
    before == after || is_renamed()
}

/// The functions of all stacks of a side.
fn functions(runs: &[Run]) -> HashSet<u32> {
    runs.iter().flat_map(|run| run.stacks.keys().flatten()).copied().collect()
}

/// Churn is a finding from a share of the run's requests on, so a change elsewhere makes it one or
/// none. It is neither new nor gone if the other side's stack makes at least half as many.
fn is_only_counted_now(
    row: &FindingChange,
    found: [&Vec<Option<&FoundHere>>; 2],
    sides: [&[Run]; 2],
) -> bool {
    let has = match row.became {
        Became::New => 1,
        Became::Gone => 0,
        _ => return false,
    };
    let Some(finding) = found[has].iter().flatten().next().filter(|_| row.kind == CHURN.name)
    else {
        return false;
    };
    let [there, here] = [1 - has, has].map(|side| {
        let of = |run: &Run| {
            let lines = run.stacks.get(&finding.path);
            lines.map_or(0, |lines| lines.values().map(|held| held.requests).sum())
        };
        middle(&sides[side].iter().map(of).collect::<Vec<u64>>())
    });
    there > 0 && there >= here / 2
}

fn row(runs: [&Vec<Option<&FoundHere>>; 2], moved_from: Option<String>) -> FindingChange {
    let first = |side: usize| runs[side].iter().flatten().next();
    let shown = first(1).or(first(0));
    let count = |side: usize| runs[side].iter().flatten().count();
    // A finding that few runs show is one that comes and goes by itself.
    let has = |side: usize| count(side) * 2 > runs[side].len();
    let change = |value: fn(&FoundHere) -> u64| {
        let values = |side: usize| -> Vec<u64> {
            runs[side].iter().map(|finding| finding.map_or(0, value)).collect()
        };
        Change::of(&values(0), &values(1))
    };
    let needed_bytes = change(|finding| finding.needed_bytes);
    let total_bytes = change(|finding| finding.total_bytes);
    let decides = if is_felt(&needed_bytes) { needed_bytes } else { total_bytes };
    let became = match (has(0), has(1)) {
        (false, true) => Became::New,
        (true, false) => Became::Gone,
        _ if moved_from.is_some() => Became::Moved,
        _ if is_felt(&decides) && decides.low > 0 => Became::More,
        _ if is_felt(&decides) => Became::Less,
        _ => Became::Same,
    };
    FindingChange {
        became,
        kind: shown.map_or("", |finding| finding.kind),
        function: shown.map_or_else(String::new, |finding| finding.function.clone()),
        moved_from,
        minor: runs.iter().flat_map(|runs| runs.iter().flatten()).all(|finding| finding.minor),
        title: shown.map_or_else(String::new, |finding| finding.title.clone()),
        runs: [count(0), count(1)],
        needed_bytes,
        total_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_both_sides_have_was_not_renamed() {
        let is_same = |before: &[u32], after: &[u32]| {
            let functions = [before, after].map(|side| side.iter().copied().collect());
            is_same([&vec![1, 7, 8], &vec![2, 7, 8]], &HashMap::new(), &functions)
        };
        assert!(is_same(&[1, 7, 8], &[2, 7, 8]));
        assert!(!is_same(&[1, 2, 7, 8], &[2, 7, 8]), "the new one was there before");
        assert!(!is_same(&[1, 7, 8], &[1, 2, 7, 8]), "the old one is still there");
    }
}
