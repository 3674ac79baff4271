//! The limits of the verdict, in words.

use super::{collected, huge_pages, percent};
use crate::comparison::{blocks_needed, blocks_needed_for};
use crate::results::{HeapResult, Measure, Outcome, Results, Space, Workload};
use heaplab_text::words;

/// The warning about times of a debug build.
pub const DEBUG_BUILD: &str = "heaplab was built without optimisation (a debug build): its times mean nothing. Build it with --release.";

/// The limits of the verdict.
pub fn cautions(results: &Results) -> Vec<String> {
    let mut cautions = Vec::new();
    let workload = &results.workload;
    if results.settings.debug_build && results.heaps.iter().any(|heap| heap.time.is_some()) {
        cautions.push(DEBUG_BUILD.into());
    }
    if workload.usable_size_reads > 0 {
        let under = if workload.allocator.is_empty() {
            "the allocator it was recorded under"
        } else {
            &workload.allocator
        };
        cautions.push(format!(
            "The program read the usable size of its blocks {} times and may have used it: its requests depend on {under}; on another heap it would have asked for others.",
            workload.usable_size_reads
        ));
    }
    if let Some(cut) = &workload.cut {
        cautions
            .push(format!("The recording is cut ({cut}): this is the verdict on its beginning."));
    }
    cautions.extend(squeezed(results));
    cautions.extend(huge_pages::setting(results));
    cautions.extend(huge_pages::resident(results));
    cautions.extend(beyond_committed(results));
    cautions.extend(collected::never_whole(&results.heaps));
    cautions.extend(collected::late_deaths(workload));
    cautions.extend(collected::outside(workload));
    cautions.extend(collected::unlike_the_real(workload, &results.heaps));
    cautions.extend(collected::headers_twice(workload, &results.heaps));
    cautions.extend(below_requested(results));
    cautions.extend(unknown_resident(results));
    cautions.extend(too_few(results));
    cautions.extend(corrected(results));
    if let Some(canary) =
        results.canary.as_ref().filter(|canary| !canary.unsteady_blocks.is_empty())
    {
        cautions.push(format!(
            "The machine was unsteady: fixed work took up to {:.0} % more or less than its median, in {} beyond 10 %.",
            canary.spread * 100.0,
            words::plural(canary.unsteady_blocks.len() as u64, "block")
        ));
    }
    let requested = workload.peak_requested_bytes;
    if requested < 1 << 20 && results.heaps.iter().any(|heap| heap.space.is_some()) {
        cautions.push(format!(
            "The workload never has more than {} live: the heaps' initial memory outweighs the workload's.",
            words::bytes(requested)
        ));
    }
    cautions
}

/// A replay takes a fraction of the program's time. For a recording of this length or more, the
/// text says so.
const LONG_RECORDING_NS: u64 = 500_000_000;

/// A warning for heaps that wait a time before they return memory: a replay is too short for them.
fn squeezed(results: &Results) -> Option<String> {
    let Workload { recorded_ns, events, .. } = results.workload;
    // A heap takes well under this for an event.
    let is_squeezed = recorded_ns >= LONG_RECORDING_NS && recorded_ns / 1000 > events;
    if !is_squeezed || results.settings.threads {
        return None;
    }
    let names = of_whom(results, |space| space.cells > 1 && !space.resident_unknown)?;
    Some(format!(
        "The program took {:.1} s, its replay a fraction of that. {names}: freed memory goes back after a delay only (jemalloc: ten seconds by default), so it counts as resident here, at the end and after every pause of the program.",
        recorded_ns as f64 / 1e9
    ))
}

/// Explains why more bytes can be resident than committed.
fn beyond_committed(results: &Results) -> Option<String> {
    let beyond = |heap: &&HeapResult| {
        heap.space.as_ref().is_some_and(|space| {
            space
                .peak_committed_bytes
                .is_some_and(|committed| committed < space.peak_resident_bytes)
        })
    };
    let names: Vec<&str> =
        results.heaps.iter().filter(beyond).map(|heap| heap.heap.as_str()).collect();
    let in_huge = results
        .heaps
        .iter()
        .filter(beyond)
        .filter(|heap| heap.space.as_ref().is_some_and(|space| space.peak_huge_page_bytes > 0));
    let in_huge: Vec<&str> = in_huge.map(|heap| heap.heap.as_str()).collect();
    let huge = if in_huge.is_empty() || results.machine.huge_pages == "never" {
        String::new()
    } else {
        format!(" Huge pages of {} reach beyond committed memory.", in_huge.join(", "))
    };
    (!names.is_empty()).then(|| {
        format!(
            "{}: more bytes are resident than committed. Committed counts memory for blocks; a heap's own tables are resident, too.{huge}",
            names.join(", ")
        )
    })
}

/// Explains why fewer bytes can be resident than requested.
fn below_requested(results: &Results) -> Option<String> {
    let requested = results.workload.peak_requested_bytes;
    let is_below = |space: &Space| !space.resident_unknown && space.peak_resident_bytes < requested;
    let names = of_whom(results, is_below)?;
    Some(format!(
        "{names}: fewer bytes are resident than requested. Memory that is never written is not resident. And glibc, also under bump, first fills up to 120 KiB that were resident before the measurement began."
    ))
}

/// The heaps with unknown resident bytes.
fn unknown_resident(results: &Results) -> Option<String> {
    let names = of_whom(results, |space| space.resident_unknown)?;
    Some(format!(
        "{names}: resident memory was not measured, because the workload ran in a runtime of its own. Compare committed bytes."
    ))
}

/// The heaps whose space fulfils `is_so`, in words.
fn of_whom(results: &Results, is_so: impl Fn(&Space) -> bool) -> Option<String> {
    let are_so = results.heaps.iter().filter(|heap| heap.space.as_ref().is_some_and(&is_so));
    let names: Vec<&str> = are_so.map(|heap| heap.heap.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Limits of the number of blocks.
fn too_few(results: &Results) -> Option<String> {
    let confidence = results.settings.confidence;
    let timed =
        || results.comparisons.iter().filter(|comparison| comparison.measure == Measure::Time);
    let (fewest, comparisons) =
        (timed().map(|comparison| comparison.blocks).min()?, timed().count() as u32);
    let (needed, enough) = (blocks_needed(confidence), blocks_needed_for(confidence, comparisons));
    let percent = confidence * 100.0;
    let are = if fewest == 1 { String::from("1 block is") } else { format!("{fewest} blocks are") };
    if fewest < needed {
        let several = if enough > needed {
            format!(", {enough} for {comparisons} comparisons")
        } else {
            String::new()
        };
        return Some(format!(
            "{are} too few to show any difference in time at {percent:.0} %: {needed} are needed{several} (--reps)."
        ));
    }
    // A shown difference stays valid, because the other comparisons were clear as well. The missing
    // difference of the rest may have this cause.
    let missed = timed().any(|comparison| comparison.outcome == Outcome::NotShown);
    (fewest < enough && missed).then(|| {
        format!(
            "With {} a difference in time can be shown at {percent:.0} % only where those of the other heaps are clear too: p values are corrected together, and {enough} blocks are needed for one of {comparisons} comparisons by itself (--reps).",
            words::plural(fewest.into(), "block")
        )
    })
}

/// Number of comparisons with a p value, for which p is corrected.
pub(super) fn compared(results: &Results) -> usize {
    results.comparisons.iter().filter(|comparison| comparison.p_value.is_some()).count()
}

/// The scope of the correction for several comparisons.
pub(super) fn corrected(results: &Results) -> Option<String> {
    let compared = compared(results);
    let confidence = results.comparisons.iter().find_map(|comparison| comparison.confidence);
    let intervals = confidence.map_or(String::new(), |confidence| {
        format!(
            ", and the intervals are those of the confidence that it asks for ({} %)",
            percent(confidence)
        )
    });
    (compared > 1).then(|| {
        format!(
            "The p values are corrected for {compared} comparisons (Benjamini-Hochberg){intervals}."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::*;

    #[test]
    fn times_of_a_debug_build_are_said_to_mean_nothing() {
        let mut found = results([1 << 20, 2 << 20], 2.0, 10, 1);
        let said = |found: &Results| {
            cautions(found).iter().any(|caution| caution.contains("a debug build"))
        };
        found.settings.debug_build = true;
        found.heaps.iter_mut().for_each(|heap| heap.time = None);
        assert!(!said(&found), "space is what it is");
        found.heaps[0].time = Some(crate::results::Time::default());
        assert!(said(&found));
        found.settings.debug_build = false;
        assert!(!said(&found));
    }

    #[test]
    fn a_heap_that_waits_before_it_gives_back_has_no_time_for_it_in_a_replay() {
        let mut found = results([1 << 20, 2 << 20], 2.0, 10, 1);
        let said = |found: &Results| {
            cautions(found).into_iter().find(|caution| caution.starts_with("The program took "))
        };
        (found.workload.events, found.workload.recorded_ns) = (1_000_000, 26_000_000_000);
        assert_eq!(said(&found), None, "neither waits");
        found.heaps[1].space.as_mut().unwrap().cells = 3;
        assert!(said(&found).unwrap().starts_with(
            "The program took 26.0 s, its replay a fraction of that. a: freed memory"
        ));
        found.workload.events = 1_000_000_000;
        assert_eq!(said(&found), None, "it was busy all the time");
    }

    #[test]
    fn less_resident_than_requested_is_said_of_whom_it_is() {
        let mut found = results([10 << 10, 36 << 10], 3.6, 10, 0);
        let said = |found: &Results| {
            cautions(found)
                .into_iter()
                .find(|caution| caution.contains(": fewer bytes are resident than requested"))
        };
        assert_eq!(said(&found), None);
        found.workload.peak_requested_bytes = 30 << 10;
        assert!(said(&found).unwrap().starts_with("b: fewer "), "{:?}", said(&found));
        found.workload.peak_requested_bytes = 40 << 10;
        assert!(said(&found).unwrap().starts_with("b, a: fewer "), "{:?}", said(&found));
    }

    #[test]
    fn a_heap_of_unknown_resident_bytes_is_named_and_needs_not_less() {
        let mut found = results([10 << 10, 0], 1.0, 10, 0);
        found.workload.peak_requested_bytes = 10 << 10;
        let heap = &mut found.heaps[1];
        let name = heap.heap.clone();
        heap.space.as_mut().unwrap().resident_unknown = true;
        let said = cautions(&found);
        let unknown = format!("{name}: resident memory was not measured");
        assert!(said.iter().any(|caution| caution.starts_with(&unknown)), "{said:?}");
        assert!(
            !said.iter().any(|caution| caution.contains("fewer bytes are resident")),
            "{said:?}"
        );
    }

    #[test]
    fn too_few_blocks_are_said_with_how_many_are_needed() {
        let cautions = |blocks, comparisons| {
            too_few(&results([1, 2], 2.0, blocks, comparisons)).unwrap_or_default()
        };
        assert!(
            cautions(1, 1).starts_with("1 block is too few to show any")
                && cautions(1, 1).contains(": 6 are needed (--reps)")
        );
        assert!(
            cautions(5, 2).contains("6 are needed, 7 for 2 comparisons (--reps)"),
            "{}",
            cautions(5, 2)
        );
        assert_eq!(cautions(6, 2), "", "both were shown");
        let mut missed = results([1, 2], 2.0, 6, 2);
        missed.comparisons[2].outcome = Outcome::NotShown;
        let said = too_few(&missed).unwrap_or_default();
        assert!(
            said.contains("With 6 blocks")
                && said.contains("7 blocks are needed for one of 2 comparisons by itself"),
            "{said}"
        );
        assert!(
            corrected(&missed).is_some_and(|said| said.contains("(Benjamini-Hochberg)."))
                && corrected(&results([1, 2], 2.0, 6, 1)).is_none()
        );
        assert_eq!((cautions(6, 1), cautions(7, 2), cautions(8, 3)), Default::default());
    }
}
