//! Heaps that collect: number and causes of collections, the space around them, and the committed
//! bytes side by side.

use super::{parameter_lines, table};
use crate::results::HeapResult;
use heaplab_heap::Collection;
use heaplab_text::table::Ruled;
use heaplab_text::words::bytes;
use std::collections::BTreeMap;

/// Rows of the table side by side: the first, the last, and evenly between.
const ROWS_MAX: usize = 12;
/// Heaps that stand side by side in a terminal of 80 columns.
const HEAPS_MAX: usize = 4;

/// OCaml's collections of the whole heap, and their counter.
const MAJOR: &str = "major";
const MAJOR_COUNTER: &str = "major_collections";

/// The tables of the heaps that collect; empty if no heap does.
pub fn tables(heaps: &[HeapResult], columns: usize) -> Vec<Ruled> {
    let heaps: Vec<&HeapResult> =
        heaps.iter().filter(|heap| !heap.collections.is_empty()).collect();
    let overview = heaps.iter().filter_map(|heap| overview(heap)).collect();
    let headings = [
        "collections",
        "count",
        "committed\nmost, end",
        "used\nmost, end",
        "waste\nat the end",
        "pause\nmedian, most",
    ];
    [table(headings, overview, columns), side_by_side(&heaps, columns)]
        .into_iter()
        .flatten()
        .collect()
}

fn overview(heap: &HeapResult) -> Option<Vec<String>> {
    let last = heap.collections.last()?;
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    heap.collections.iter().for_each(|collection| *kinds.entry(&collection.kind).or_default() += 1);
    // A runtime outside of this process has fewer rows than collections, and counts these itself.
    if let Some(major) = heap.log.counters.get(MAJOR_COUNTER) {
        kinds.insert(MAJOR, *major);
    }
    let count =
        kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join("\n");
    let most = |of: fn(&Collection) -> u64| heap.collections.iter().map(of).max().unwrap_or(0);
    let committed =
        most(|collection| collection.before.committed_bytes.max(collection.after.committed_bytes));
    let used = most(|collection| collection.before.used_bytes);
    Some(vec![
        parameter_lines(&heap.heap),
        count,
        format!("{}\n{}", bytes(committed), bytes(last.after.committed_bytes)),
        format!("{}\n{}", bytes(used), bytes(last.after.used_bytes)),
        last.after.waste_bytes.map_or(String::new(), bytes),
        pauses(&heap.collections),
    ])
}

/// The median and the longest pause; empty where none was measured.
fn pauses(collections: &[Collection]) -> String {
    let mut pauses: Vec<u64> =
        collections.iter().filter_map(|collection| collection.pause_ns).collect();
    pauses.sort_unstable();
    let milliseconds = |ns: u64| format!("{:.2} ms", ns as f64 / 1e6);
    let (Some(median), Some(most)) = (pauses.get(pauses.len() / 2), pauses.last()) else {
        return String::new();
    };
    format!("{}\n{}", milliseconds(*median), milliseconds(*most))
}

/// Committed bytes after the collections that the workload forced, if all heaps have the same
/// number of them.
fn side_by_side(heaps: &[&HeapResult], columns: usize) -> Option<Ruled> {
    let forced: Vec<Vec<&Collection>> = heaps
        .iter()
        .map(|heap| {
            heap.collections.iter().filter(|collection| collection.cause == "forced").collect()
        })
        .collect();
    let rows = forced.first().map_or(0, Vec::len);
    if rows == 0 || heaps.len() > HEAPS_MAX || forced.iter().any(|of_heap| of_heap.len() != rows) {
        return None;
    }
    let committed = |row: usize| -> Vec<u64> {
        forced.iter().map(|of_heap| of_heap[row].after.committed_bytes).collect()
    };
    // A row for each run of collections that leave the same; some of all where these are many.
    let rows_of: Vec<usize> = (0..rows).collect();
    let runs: Vec<_> = rows_of.chunk_by(|a, b| committed(*a) == committed(*b)).collect();
    let nth = |line: usize| line * (rows - 1) / (ROWS_MAX - 1);
    let shown: Vec<(usize, usize)> = if runs.len() <= ROWS_MAX {
        runs.iter().map(|run| (run[0], run[run.len() - 1])).collect()
    } else {
        (0..ROWS_MAX).map(|line| (nth(line), nth(line))).collect()
    };
    let lines = shown.into_iter().map(|(first, last)| {
        let name = if first == last {
            format!("{} of {rows}", first + 1)
        } else {
            format!("{} to {} of {rows}", first + 1, last + 1)
        };
        std::iter::once(name).chain(committed(first).into_iter().map(bytes)).collect()
    });
    let headings: Vec<String> = std::iter::once("committed after\nforced collection".into())
        .chain(heaps.iter().map(|heap| parameter_lines(&heap.heap)))
        .collect();
    table(headings, lines.collect(), columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_heap::SpaceState;

    fn heap(name: &str, committed_bytes: u64) -> HeapResult {
        let collection = |nth: u64| {
            let before = SpaceState {
                used_bytes: nth << 20,
                committed_bytes: committed_bytes + (nth << 18),
                ..SpaceState::default()
            };
            let after = SpaceState { used_bytes: nth << 19, waste_bytes: Some(640), ..before };
            Collection {
                kind: "mark-sweep".into(),
                cause: "forced".into(),
                before,
                after,
                pause_ns: Some(nth * 150_000),
                ..Collection::default()
            }
        };
        HeapResult {
            heap: name.into(),
            collections: (1..=40).map(collection).collect(),
            ..HeapResult::default()
        }
    }

    #[test]
    fn collections_that_leave_the_same_share_a_row() {
        let mut heaps = [heap("v8:legacy", 9 << 20), heap("v8:many", 7 << 20)];
        for heap in &mut heaps {
            let after = heap.collections[0].after;
            heap.collections[1..].iter_mut().for_each(|one| one.after = after);
            heap.collections[39].after.committed_bytes += 1 << 18;
        }
        let text = tables(&heaps, 80).iter().map(Ruled::to_string).collect::<Vec<_>>().join("\n\n");
        let row = |name: &str| text.lines().filter(|line| line.contains(name)).count();
        assert_eq!((row("1 to 39 of 40"), row("40 of 40")), (1, 1), "{text}");
        assert_eq!(row(" of 40 "), 2, "{text}");
    }

    #[test]
    fn heaps_that_collect_stand_side_by_side() {
        let heaps = [
            heap("v8:legacy", 9 << 20),
            HeapResult { heap: "glibc".into(), ..HeapResult::default() },
            heap("v8:many,version=7.9", 7 << 20),
        ];
        let text = tables(&heaps, 80).iter().map(Ruled::to_string).collect::<Vec<_>>().join("\n\n");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }
}
