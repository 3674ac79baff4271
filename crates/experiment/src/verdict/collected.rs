//! Notes that a reader of collected heaps' figures needs.

use crate::results::HeapResult;

/// Kinds of collections that look at young objects alone.
const YOUNG: [&str; 2] = ["scavenge", "minor"];

/// The heaps that never collected their old objects, so nothing of the old space was ever free.
pub(crate) fn never_whole(heaps: &[HeapResult]) -> Option<String> {
    let is_young = |heap: &&HeapResult| {
        let collections = &heap.collections;
        !collections.is_empty()
            && collections.iter().all(|collection| YOUNG.contains(&&*collection.kind))
    };
    let names: Vec<&str> = heaps.iter().filter(is_young).map(|heap| heap.heap.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "No collection of {} looked at old objects: what died among them stays, and no free list had anything to give. A parameter that makes whole collections (every, overhead; heaplab heaps) changes that.",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_heap::Collection;

    fn said(kinds: &[&'static str]) -> Option<String> {
        let collection =
            |kind: &&'static str| Collection { kind: (*kind).into(), ..Collection::default() };
        let heap = HeapResult {
            heap: "v8:many".into(),
            collections: kinds.iter().map(collection).collect(),
            ..HeapResult::default()
        };
        never_whole(&[heap])
    }

    #[test]
    fn only_heaps_whose_collections_were_all_of_the_young_are_named() {
        assert!(said(&["scavenge", "scavenge"]).is_some_and(|said| said.contains("v8:many")));
        assert_eq!(said(&["scavenge", "mark-compact"]), None);
        assert_eq!(said(&[]), None);
    }
}
