//! Notes that a reader of collected heaps' figures needs.

use crate::results::{HeapResult, Workload};
use heaplab_text::words::{bytes, plural};

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
            "No collection of {} looked at old objects: what died among them stays, and no free list had anything to give. A parameter that makes whole collections, or makes them earlier (every, overhead; heaplab heaps), changes that.",
            names.join(", ")
        )
    })
}

/// Smallest granularity of the recorders.
const GRANULARITY_MIN: u64 = 1 << 20;
/// Beginnings of the allocator's name in recordings of heaplab's own recorders of collected heaps.
const RECORDED: [&str; 2] = [V8_RECORDING, "OCaml "];
/// Share of the peak that deaths may be late by without a note.
const LATE_MAX: f64 = 0.05;

/// Deaths that are late because few or no collections were forced while the program was recorded.
pub(crate) fn late_deaths(workload: &Workload) -> Option<String> {
    let is_ours = RECORDED.iter().any(|name| workload.allocator.starts_with(name));
    let advice = if is_ours && workload.granularity_bytes != GRANULARITY_MIN {
        " Forced collections (record --granularity, a twentieth of the live heap) tell deaths in time."
    } else {
        ""
    };
    let late = workload.granularity_bytes as f64 / workload.peak_requested_bytes.max(1) as f64;
    if late > LATE_MAX {
        return Some(format!(
            "Deaths of this recording are up to {} of births late, {:.0} % of the most live: heaps that collect may need as much more than the program would.{advice}",
            bytes(workload.granularity_bytes),
            late * 100.0
        ));
    }
    workload.late_deaths.then(|| {
        format!(
            "Deaths of this recording are as late as the recorded program's own collections noticed them: every heap here needs more than the program would, and all in the same rhythm.{advice}"
        )
    })
}

/// Births that the driver of the real V8 makes in another way than the heap of its rules. OCaml's
/// two heaps both make ordinary objects.
pub(crate) fn unlike_the_real(workload: &Workload, heaps: &[HeapResult]) -> Option<String> {
    let is_real = |heap: &HeapResult| heap.heap.split(':').next() == Some("node");
    let real: Vec<&str> =
        heaps.iter().filter(|heap| is_real(heap)).map(|heap| heap.heap.as_str()).collect();
    let Workload { old_births, aligned_births, .. } = *workload;
    if real.is_empty() || old_births + aligned_births == 0 {
        return None;
    }
    let counted =
        |count: u64, what: &str| (count > 0).then(|| format!("{} {what}", plural(count, "birth")));
    let births = [
        counted(old_births, "in the old generation"),
        counted(aligned_births, "aligned to more than 8 bytes"),
    ];
    let births = births.into_iter().flatten().collect::<Vec<_>>().join(" and ");
    Some(format!(
        "The recording has {births}: {} cannot do that and makes ordinary objects, so that heaps of the same rules differ here.",
        real.join(", ")
    ))
}

/// Memory that is not of the recorded heap.
pub(crate) fn outside(workload: &Workload) -> Option<String> {
    (workload.outside_objects > 0).then(|| {
        format!(
            "{} objects of the recording are memory outside of the recorded heap: left out here.",
            workload.outside_objects
        )
    })
}

/// The beginning of the allocator's name in a recording of V8's heap.
const V8_RECORDING: &str = "V8 ";

/// Heaps of V8's rules, and the real V8, that put an array's headers around objects whose recorded
/// bytes have their headers already.
pub(crate) fn headers_twice(workload: &Workload, heaps: &[HeapResult]) -> Option<String> {
    let is_given = |heap: &&HeapResult| {
        heap.heap.starts_with("node")
            || heap.heap.starts_with("v8") && !heap.heap.contains("shape=")
    };
    let names: Vec<&str> = heaps.iter().filter(is_given).map(|heap| heap.heap.as_str()).collect();
    (workload.allocator.starts_with(V8_RECORDING) && !names.is_empty()).then(|| {
        format!(
            "{} {} an array of each recorded object, with 48 bytes of headers beside the recorded ones. In v8: an object of shape=recorded has just its recorded bytes; node: has no such choice.",
            names.join(", "),
            if names.len() == 1 { "makes" } else { "make" }
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_heap::Collection;

    #[test]
    fn sizes_and_deaths_of_a_recorded_collector_are_explained() {
        let heap = |name: &str| HeapResult { heap: name.into(), ..HeapResult::default() };
        let workload = |allocator: &str, late_deaths| Workload {
            allocator: allocator.into(),
            late_deaths,
            ..Workload::default()
        };
        let node = workload("V8 11.3 of Node 20.1.0", false);
        let twice = |workload, name| headers_twice(workload, &[heap(name)]).is_some();
        assert!(twice(&node, "node:compact=never"));
        assert!(twice(&node, "v8:many") && !twice(&node, "v8:many,shape=recorded"));
        assert!(
            !twice(&node, "ocaml:best-fit") && !twice(&workload("glibc 2.36", false), "v8:many")
        );
        let heaps = [heap("v8:many"), heap("ocamlrt:best-fit"), heap("node:strategy=2")];
        let aligned = Workload { aligned_births: 3, ..Workload::default() };
        let said = unlike_the_real(&aligned, &heaps).unwrap();
        assert!(said.contains("3 births aligned") && said.contains("node:strategy=2"), "{said}");
        assert_eq!(unlike_the_real(&aligned, &heaps[..2]), None);
        assert_eq!(unlike_the_real(&Workload::default(), &heaps), None);
        let every = |granularity_bytes| {
            late_deaths(&Workload {
                granularity_bytes,
                peak_requested_bytes: 100 << 20,
                ..Workload::default()
            })
        };
        assert_eq!(every(1 << 20), None);
        assert!(every(8 << 20).unwrap().contains("8.00 MiB of births late, 8 % of"));
        assert_eq!(
            (late_deaths(&node), late_deaths(&workload("OCaml 4.13.1", true)).is_some()),
            (None, true)
        );
    }

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
