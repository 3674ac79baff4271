//! `report --on HEAP`: the pages of a heap when it has run the workload, at the end or right after
//! a collection.

use crate::heaps::{FAMILIES, misasked};
use anyhow::Result;
use heaplab_heap::Collection;
use heaplab_replay::entry::Standing;
use heaplab_report::Moment;
use heaplab_text::words;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::program;

/// A heap that has run the workload.
pub struct HeapAt {
    heap: String,
    moment: String,
    standing: Standing,
    /// When most was committed and not live.
    peak: Option<Moment>,
    /// For the page: the moments that it shows, this one last.
    moments: Vec<Moment>,
}

/// Moments of a heap that are drawn besides the last one.
const MOMENTS_MAX: usize = 23;

impl HeapAt {
    /// Runs the workload on the heap called `name` up to the moment `at`: `end`, or `collection:N`.
    /// For a page without a moment, earlier collections are drawn too.
    pub fn run(
        bundle: &Bundle,
        selection: Selection,
        name: &str,
        at: Option<&str>,
        for_page: bool,
    ) -> Result<HeapAt> {
        let heap = FAMILIES.parse(name).map_err(misasked)?;
        FAMILIES.walked(heap.as_ref()).map_err(misasked)?;
        let number = match at {
            None | Some("end") => None,
            Some(at) => match at.strip_prefix("collection:").map(str::parse) {
                Some(Ok(number)) => Some(number),
                _ => misasked!(
                    "--at {at}: with --on, a moment is end or collection:N, such as collection:7"
                ),
            },
        };
        let program = program::cached(bundle, selection)?;
        let standing = heap.stand_after(&program, number).map_err(misasked)?;
        let moment = match (number, standing.collections.last()) {
            (Some(number), Some(last)) => after(number, last),
            _ => String::from("at the end"),
        };
        // Without a moment it is the worst one that a user looks for, not only the end.
        let worst = at.is_none().then(|| most_unused(&standing.collections)).flatten();
        let mut peak = None;
        let mut moments = Vec::new();
        if for_page && at.is_none() {
            let mut show = |earlier: Standing| {
                let number = earlier.collections.len();
                let Some(last) = earlier.collections.last() else { return };
                let name = if worst == Some(number) {
                    worst_name(number, last)
                } else {
                    after(number, last)
                };
                moments.push(Moment { name, parts: earlier.parts, losses: earlier.losses });
            };
            let numbers = drawn(&standing.collections, worst);
            heap.stand_after_each(&program, &numbers, &mut show).map_err(misasked)?;
        } else if let Some(number) = worst {
            let earlier = heap.stand_after(&program, worst).map_err(misasked)?;
            let name = earlier.collections.last().map(|last| worst_name(number, last));
            peak = name
                .map(|name| Moment { name, parts: Vec::new(), losses: earlier.losses })
                .filter(|peak| !peak.losses.is_empty());
        }
        if for_page {
            let (parts, losses) = (standing.parts.clone(), standing.losses.clone());
            moments.push(Moment { name: moment.clone(), parts, losses });
        }
        Ok(HeapAt { heap: heap.to_string(), moment, standing, peak, moments })
    }

    /// For the page.
    pub fn as_source(&self) -> heaplab_report::HeapAt<'_> {
        heaplab_report::HeapAt {
            heap: &self.heap,
            moment: &self.moment,
            parts: &self.standing.parts,
            losses: &self.standing.losses,
            collections: &self.standing.collections,
            peak: self.peak.as_ref(),
            moments: &self.moments,
        }
    }
}

fn after(number: usize, collection: &Collection) -> String {
    format!("after collection {number} ({}, {})", collection.kind, collection.cause)
}

fn worst_name(number: usize, collection: &Collection) -> String {
    format!(
        "{}, before which most was committed and not live ({})",
        after(number, collection),
        words::bytes(unused_bytes(collection))
    )
}

/// What was committed when a full collection began, less what lived.
fn unused_bytes(collection: &Collection) -> u64 {
    collection.before.committed_bytes.saturating_sub(collection.after.used_bytes)
}

/// The full collection before which most was committed and not live.
fn most_unused(collections: &[Collection]) -> Option<usize> {
    let full = (1..).zip(collections).filter(|(_, one)| one.work.marked_bytes > 0);
    full.max_by_key(|(number, one)| (unused_bytes(one), std::cmp::Reverse(*number)))
        .map(|(number, _)| number)
}

/// Numbers of the collections that a page draws: all, or full ones evenly chosen, each with the one
/// before it, because what a heap loses is seen before it is swept; and the `worst` one.
fn drawn(collections: &[Collection], worst: Option<usize>) -> Vec<usize> {
    if collections.len() <= MOMENTS_MAX {
        return (1..=collections.len()).collect();
    }
    let full = |number: &usize| collections[number - 1].work.marked_bytes > 0;
    let mut from: Vec<usize> = (1..=collections.len()).filter(full).collect();
    if from.is_empty() {
        from = (1..=collections.len()).collect();
    }
    let most = from.len().min(MOMENTS_MAX / 2);
    let chosen = (0..most).map(|at| from[at * (from.len() - 1) / (most - 1).max(1)]);
    let mut numbers: Vec<usize> =
        chosen.flat_map(|number| [number - 1, number]).filter(|number| *number > 0).collect();
    numbers.extend(worst);
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_heap::{SpaceState, Work};

    #[test]
    fn full_collections_are_drawn_with_those_before_them() {
        let collections = |count: usize, every: usize| -> Vec<Collection> {
            let one = |number: usize| Collection {
                work: Work {
                    marked_bytes: u64::from(number.is_multiple_of(every)),
                    ..Work::default()
                },
                ..Collection::default()
            };
            (1..=count).map(one).collect()
        };
        assert_eq!(drawn(&collections(3, 2), None), [1, 2, 3]);
        assert_eq!(drawn(&collections(60, 30), Some(30)), [29, 30, 59, 60]);
        let many = drawn(&collections(500, 1), None);
        assert!(many.len() <= MOMENTS_MAX && many.last() == Some(&500), "{many:?}");
        assert_eq!(drawn(&collections(40, 50), None).last(), Some(&40));
        assert!(drawn(&[], None).is_empty());
        let with_the_worst = drawn(&collections(500, 1), Some(7));
        assert!(with_the_worst.contains(&7) && with_the_worst.is_sorted(), "{with_the_worst:?}");
    }

    #[test]
    fn the_worst_is_the_full_collection_with_most_committed_and_dead() {
        let one = |committed_bytes: u64, used_bytes: u64, marked_bytes: u64| Collection {
            before: SpaceState { committed_bytes, ..SpaceState::default() },
            after: SpaceState { used_bytes, ..SpaceState::default() },
            work: Work { marked_bytes, ..Work::default() },
            ..Collection::default()
        };
        let all = [one(90, 10, 0), one(50, 40, 1), one(60, 20, 1), one(70, 30, 1)];
        assert_eq!(most_unused(&all), Some(3), "the first of equal ones, and no scavenge");
        assert_eq!(most_unused(&all[..1]), None);
    }
}
