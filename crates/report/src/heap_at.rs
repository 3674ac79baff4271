//! The pages of a heap that ran the workload, at its end or right after a collection.

use heaplab_heap::{Collection, FamilyError, Part, Role};
use heaplab_replay::{Selected, Standing};
use heaplab_text::lines::paragraph;
use heaplab_text::table::{Ruling, ruled};
use heaplab_text::words;
use heaplab_trace::TraceError;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::program;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Moments of a heap that are drawn besides the last one.
const MOMENTS_MAX: usize = 23;

/// A heap that has run the workload.
#[derive(Clone, Debug)]
pub struct HeapAt {
    /// The heap's name, with parameters.
    pub heap: String,
    /// Its collections, of a heap that collects.
    pub collections: Vec<Collection>,
    /// For the page: earlier moments to be drawn, in their order.
    pub earlier: Vec<HeapMoment>,
    /// The collection before which committed memory exceeded live memory most, with the heap's
    /// losses then.
    pub peak: Option<HeapMoment>,
    /// The requested moment.
    pub last: HeapMoment,
}

/// A heap's pages at one moment.
#[derive(Clone, Debug, Default)]
pub struct HeapMoment {
    /// When: "after collection 7 (mark-sweep, forced)".
    pub name: String,
    /// Objects born before; `None`: at the end.
    pub births: Option<u64>,
    /// Its walk.
    pub parts: Vec<Part>,
    /// The heap's own remarks on its losses, each a sentence.
    pub losses: Vec<String>,
}

/// Why a heap's pages are not shown.
#[derive(Debug, thiserror::Error)]
pub enum HeapAtError {
    /// The moment is unknown.
    #[error("--at {0}: with --on, a moment is end or collection:N, such as collection:7")]
    Moment(String),
    /// The workload cannot be compiled.
    #[error(transparent)]
    Unread(#[from] TraceError),
    /// The heap cannot run it.
    #[error("{0}")]
    Heap(#[from] FamilyError),
}

impl HeapAt {
    /// Runs the workload on the heap up to the moment `at`: `end`, or `collection:N`. For a page
    /// without a moment, earlier collections are drawn too.
    ///
    /// # Errors
    /// No moment is so called, the workload cannot be compiled, or the heap cannot run it.
    pub fn run(
        bundle: &Bundle,
        selection: Selection,
        heap: &dyn Selected,
        at: Option<&str>,
        for_page: bool,
    ) -> Result<HeapAt, HeapAtError> {
        let number = match at {
            None | Some("end") => None,
            Some(at) => match at.strip_prefix("collection:").map(str::parse) {
                Some(Ok(number)) if number > 0 => Some(number),
                _ => return Err(HeapAtError::Moment(at.into())),
            },
        };
        let program = program::cached(bundle, selection)?;
        let last = heap.stand_after(&program, number)?;
        let collections = last.collections.clone();
        // Without a moment, a user looks for the worst one, not only for the end.
        let worst = at.is_none().then(|| most_unused(&collections)).flatten();
        let (mut moments, mut peak) = (Vec::new(), None);
        if for_page && at.is_none() {
            let mut show = |earlier: Standing| {
                let Some(last) = earlier.collections.last() else { return };
                let number = earlier.collections.len();
                let births = Some(last.births);
                let is_worst = worst == Some(number);
                let name = if is_worst { worst_name(number, last) } else { after(number, last) };
                let Standing { parts, losses, .. } = earlier;
                moments.push(HeapMoment { name, births, parts, losses });
            };
            heap.stand_after_each(&program, &drawn(&collections, worst), &mut show)?;
        } else if let Some(number) = worst {
            let earlier = heap.stand_after(&program, worst)?;
            let Standing { collections, losses, .. } = earlier;
            peak = collections.last().filter(|_| !losses.is_empty()).map(|last| HeapMoment {
                name: worst_name(number, last),
                births: Some(last.births),
                parts: Vec::new(),
                losses,
            });
        }
        let (name, births) = match (number, collections.last()) {
            (Some(number), Some(last)) => (after(number, last), Some(last.births)),
            _ => (String::from("at the end"), None),
        };
        let last = HeapMoment { name, births, parts: last.parts, losses: last.losses };
        Ok(HeapAt { heap: heap.to_string(), collections, earlier: moments, peak, last })
    }

    /// All moments, that of the report last.
    pub fn moments(&self) -> impl DoubleEndedIterator<Item = &HeapMoment> + ExactSizeIterator {
        (0..self.earlier.len() + 1).map(|nth| self.earlier.get(nth).unwrap_or(&self.last))
    }

    /// Its bytes at the requested moment.
    fn sums(&self) -> Sums {
        let of = |role: Role| self.last.parts.iter().filter(move |part| part.role == role);
        let bytes = |role| of(role).map(Part::own_bytes).sum();
        let pages = of(Role::Chunk).count() as u64;
        Sums { pages, live_bytes: bytes(Role::Blocks), vacant_bytes: bytes(Role::Vacant) }
    }

    /// As text: the bytes in blocks, and the vacant bytes by kind.
    fn text(&self, columns: usize) -> String {
        let mut kinds: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
        for part in self.last.parts.iter().filter(|part| part.role == Role::Vacant) {
            let (pieces, bytes, largest) = kinds.entry(&part.name).or_default();
            (*pieces, *bytes, *largest) =
                (*pieces + 1, *bytes + part.own_bytes(), part.own_bytes().max(*largest));
        }
        let Sums { pages, live_bytes, vacant_bytes } = self.sums();
        let mut rows: Vec<_> = kinds.into_iter().collect();
        rows.sort_by_key(|(_, (_, bytes, _))| std::cmp::Reverse(*bytes));
        let rows = rows.into_iter().map(|(name, (pieces, bytes, largest))| {
            let mean = bytes / pieces.max(1);
            let sizes = [bytes, mean, largest].map(words::bytes);
            [vec![name.to_owned(), words::count(pieces)], sizes.to_vec()].concat()
        });
        let headings = ["vacant", "pieces", "bytes", "mean", "largest"];
        let table = ruled(Ruling::EveryRow, headings, rows, 1, columns);
        let heading = format!(
            "{} {}: {}, {} in blocks, {} vacant.",
            self.heap,
            self.last.name,
            words::plural(pages, "page"),
            words::bytes(live_bytes),
            words::bytes(vacant_bytes),
        );
        let told = |heading: &str, losses: &[String]| -> String {
            let losses = losses.iter().map(|loss| paragraph(loss, "  ", 2, columns));
            std::iter::once(paragraph(heading, "", 0, columns)).chain(losses).collect()
        };
        let peak = self.peak.as_ref().map(|peak| told(&format!("{}:", peak.name), &peak.losses));
        format!("{}{}\n{table}\n\n", told(&heading, &self.last.losses), peak.unwrap_or_default())
    }
}

/// Bytes of a heap's pages.
struct Sums {
    pages: u64,
    live_bytes: u64,
    vacant_bytes: u64,
}

/// Heaps as text, one after the other; of several a table, the smallest heap first.
pub fn text(heaps: &[HeapAt], columns: usize) -> String {
    let mut out: String = heaps.iter().map(|heap| heap.text(columns)).collect();
    if heaps.len() > 1 {
        let mut rows: Vec<_> = heaps.iter().map(|heap| (heap, heap.sums())).collect();
        rows.sort_by_key(|(_, sums)| sums.live_bytes + sums.vacant_bytes);
        let rows = rows.into_iter().map(|(heap, sums)| {
            let bytes = [sums.live_bytes + sums.vacant_bytes, sums.live_bytes, sums.vacant_bytes];
            let names = vec![heap.heap.clone(), words::count(sums.pages)];
            [names, bytes.map(words::bytes).to_vec()].concat()
        });
        let headings = ["heap", "pages", "committed", "in blocks", "vacant"];
        out += &format!("{}\n\n", ruled(Ruling::EveryRow, headings, rows, 1, columns));
    }
    out + "The pages as a picture: --html FILE\n"
}

/// Raised when a field of [`json`] changes its meaning or goes.
const VERSION: u32 = 1;

/// Heaps for a machine (docs/report-json.md): every part of each walk, with its place.
pub fn json(heaps: &[HeapAt]) -> Value {
    let heaps = heaps.iter().map(|at| {
        let Sums { pages, live_bytes, vacant_bytes } = at.sums();
        let parts = &at.last.parts;
        let placed = || parts.iter().filter(|part| !part.addresses.is_empty());
        let base = placed().map(|part| part.addresses.start).min().unwrap_or(0);
        let parts = parts.iter().map(|part| {
            let has_place = !part.addresses.is_empty();
            json!({
                "depth": part.depth,
                "role": part.role.name(),
                "name": part.name,
                "offset_bytes": has_place.then(|| part.addresses.start - base),
                "bytes": part.addresses.len(),
            })
        });
        json!({
            "heap": at.heap,
            "moment": at.last.name,
            "births": at.last.births,
            "pages": pages,
            "live_bytes": live_bytes,
            "vacant_bytes": vacant_bytes,
            "losses": at.last.losses,
            "collections": at.collections,
            "parts": parts.collect::<Vec<_>>(),
        })
    });
    json!({
        "format": "heaplab-heap-pages",
        "version": VERSION,
        "heaps": heaps.collect::<Vec<_>>(),
    })
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

/// Committed bytes at the beginning of a full collection, less the surviving ones.
fn unused_bytes(collection: &Collection) -> u64 {
    collection.before.committed_bytes.saturating_sub(collection.after.used_bytes)
}

/// Whether it found all live objects.
fn is_full(collection: &Collection) -> bool {
    collection.work.is_some_and(|work| work.marked_bytes > 0)
}

/// The full collection before which most was committed and not live.
fn most_unused(collections: &[Collection]) -> Option<usize> {
    let full = (1..).zip(collections).filter(|(_, one)| is_full(one));
    full.max_by_key(|(number, one)| (unused_bytes(one), std::cmp::Reverse(*number)))
        .map(|(number, _)| number)
}

/// Numbers of the collections that a page draws: all, or evenly chosen full ones, each with the one
/// before it, because a heap's losses show before the sweep; and the `worst` one.
fn drawn(collections: &[Collection], worst: Option<usize>) -> Vec<usize> {
    if collections.len() <= MOMENTS_MAX {
        return (1..=collections.len()).collect();
    }
    let full = |number: &usize| is_full(&collections[number - 1]);
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
                work: Some(Work {
                    marked_bytes: u64::from(number.is_multiple_of(every)),
                    ..Work::default()
                }),
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
            work: Some(Work { marked_bytes, ..Work::default() }),
            ..Collection::default()
        };
        let all = [one(90, 10, 0), one(50, 40, 1), one(60, 20, 1), one(70, 30, 1)];
        assert_eq!(most_unused(&all), Some(3), "the first of equal ones, and no scavenge");
        assert_eq!(most_unused(&all[..1]), None);
    }
}
