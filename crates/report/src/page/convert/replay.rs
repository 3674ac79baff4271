//! The replay's results as the page shows them.

use super::words;
use crate::page::{limits, model};
use heaplab_experiment::comparison::blocks_needed;
use heaplab_experiment::results::{
    Comparison, HeapResult, Measure, Outcome, Results, Settings, Space, Touch,
};
use heaplab_experiment::verdict::has_ratio;
use heaplab_heap::Collection;
use std::collections::BTreeMap;

pub(crate) fn replay(results: &Results) -> model::Replay {
    let baseline = results.heaps.first().map(|heap| heap.heap.clone()).unwrap_or_default();
    model::Replay {
        measured_unix_s: results.measured_unix_s,
        measured: measured(results, |_, _| true),
        measured_again: String::new(),
        baseline,
        settings: settings(&results.settings, &results.heaps),
        machine: machine(results),
        confidence: results.settings.confidence,
        heaps: results.heaps.iter().map(|heap| heap_row(results, heap)).collect(),
        verdicts: results.verdict.clone(),
        cautions: results.cautions.clone(),
    }
}

/// All but the newest, each with the heaps that newer ones measured again.
pub(crate) fn earlier(replays: &[Results]) -> Vec<model::Replay> {
    let each = replays.iter().enumerate().skip(1);
    each.map(|(index, results)| {
        let newer = &replays[..index];
        let again = |heap: &str, measure| {
            newer
                .iter()
                .any(|newer| newer.heaps.iter().any(|one| one.heap == heap && one.has(measure)))
        };
        model::Replay { measured_again: measured(results, again), ..replay(results) }
    })
    .collect()
}

/// The heaps with the measures that are `wanted`: "space of glibc and jemalloc; time of glibc".
fn measured(results: &Results, wanted: impl Fn(&str, Measure) -> bool) -> String {
    let of = |(measure, words): (Measure, &str)| {
        let heaps =
            results.heaps.iter().filter(|heap| heap.has(measure) && wanted(&heap.heap, measure));
        let names: Vec<&str> = heaps.map(|heap| heap.heap.as_str()).collect();
        let (last, others) = names.split_last()?;
        Some(if others.is_empty() {
            format!("{words} of {last}")
        } else {
            format!("{words} of {} and {last}", others.join(", "))
        })
    };
    [(Measure::Space, "space"), (Measure::Time, "time")]
        .into_iter()
        .filter_map(of)
        .collect::<Vec<_>>()
        .join("; ")
}

fn heap_row(results: &Results, heap: &HeapResult) -> model::ReplayHeap {
    let ratio = |measure| {
        let of_heap = |comparison: &&Comparison| {
            comparison.heap == heap.heap && comparison.measure == measure
        };
        // One to next to nothing would fill the plot and say nothing; the verdict has the
        // difference.
        results
            .comparisons
            .iter()
            .find(of_heap)
            .filter(|comparison| has_ratio(comparison, results))
            .map(ratio_row)
    };
    model::ReplayHeap {
        name: heap.heap.clone(),
        version: heap.version.clone(),
        space: heap.space.as_ref().filter(|space| !space.resident_unknown).map(space_row),
        collections: (!heap.collections.is_empty()).then(|| collections(&heap.collections)),
        event_ns: heap.time.as_ref().map(|time| time.ns_per_event.value),
        space_ratio: ratio(Measure::Space),
        time_ratio: ratio(Measure::Time),
        failures: heap
            .failures
            .iter()
            .map(|failure| {
                format!("{} cell of block {}: {}", failure.kind, failure.block, failure.reason)
            })
            .collect(),
    }
}

pub(super) fn collections(all: &[Collection]) -> model::ReplayCollections {
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    all.iter().for_each(|one| *kinds.entry(&one.kind).or_default() += 1);
    let shown = all.len().min(limits::COLLECTION_POINTS);
    let place = |row: usize| if shown < 2 { 0 } else { row * (all.len() - 1) / (shown - 1) };
    let nth = |row: usize| &all[place(row)];
    let column = |of: fn(&Collection) -> u64| (0..shown).map(|row| of(nth(row))).collect();
    model::ReplayCollections {
        count: all.len() as u64,
        kinds: kinds
            .iter()
            .map(|(kind, count)| format!("{} {kind}", words::count(*count)))
            .collect::<Vec<_>>()
            .join(", "),
        number: (0..shown).map(|row| place(row) as u64 + 1).collect(),
        births: column(|one| one.births),
        committed_bytes: column(|one| one.after.committed_bytes),
        used_bytes: column(|one| one.after.used_bytes),
        before_committed_bytes: column(|one| one.before.committed_bytes),
        before_used_bytes: column(|one| one.before.used_bytes),
        kind: (0..shown).map(|row| nth(row).kind.to_string()).collect(),
        cause: (0..shown).map(|row| nth(row).cause.to_string()).collect(),
        live_bytes: (0..shown)
            .map(|row| Some(nth(row).work?.marked_bytes).filter(|bytes| *bytes > 0))
            .collect(),
        point_pause_ns: (0..shown).map(|row| nth(row).pause_ns).collect(),
        categories: categories(all),
        waste_bytes: (0..shown).map(|row| nth(row).after.waste_bytes).collect(),
        pause_ns: all.iter().filter_map(|one| one.pause_ns).collect(),
    }
}

/// Free bytes of each category at full collections, from heaps that report them.
fn categories(all: &[Collection]) -> Option<model::FreeCategories> {
    let told: Vec<_> =
        all.iter().filter_map(|one| Some((one.births, one.free_lists.as_ref()?))).collect();
    let count = told.iter().map(|(_, lists)| lists.swept.len()).max()?;
    let smallest = told.first().map(|(_, lists)| &lists.smallest_bytes)?;
    let name = |at: usize| match (smallest.get(at), smallest.get(at + 1)) {
        (Some(from), Some(next)) => format!("{from} to {} bytes", next - 1),
        (Some(from), None) => format!("{from} bytes and more"),
        _ => format!("category {}", at + 1),
    };
    let step = told.len().div_ceil(limits::COLLECTION_POINTS).max(1);
    let shown = || told.iter().step_by(step);
    Some(model::FreeCategories {
        names: (0..count).map(name).collect(),
        births: shown().map(|(births, _)| *births).collect(),
        bytes: shown()
            .map(|(_, lists)| {
                (0..count).map(|at| lists.swept.get(at).map_or(0, |blocks| blocks.bytes)).collect()
            })
            .collect(),
    })
}

pub(crate) fn ratio_row(comparison: &Comparison) -> model::Ratio {
    let outcome = match comparison.outcome {
        Outcome::Less => "less",
        Outcome::More => "more",
        Outcome::Equivalent => "equivalent",
        Outcome::NotShown => "not_shown",
    };
    let ratio = comparison.ratio;
    model::Ratio {
        value: ratio.value,
        low: ratio.low,
        high: ratio.high,
        range: range(comparison),
        outcome: outcome.into(),
    }
}

/// The range in words. Only a result that cannot vary is exact: the space of a heap for which one
/// cell is enough, because it does not depend on time.
fn range(comparison: &Comparison) -> String {
    let [low, high] = [comparison.ratio.low, comparison.ratio.high].map(|end| format!("{end:.2}"));
    match (comparison.measure, comparison.blocks) {
        _ if low != high => format!("{low} to {high}"),
        (Measure::Space, 1) => "exact".into(),
        (Measure::Space, cells) => format!("the same in {cells} cells"),
        (Measure::Time, 1) => "1 block".into(),
        (Measure::Time, blocks) => format!("the same in {blocks} blocks"),
    }
}

pub(crate) fn space_row(space: &Space) -> model::ReplaySpace {
    let group = space.curve.len().div_ceil(limits::CURVE_POINTS).max(1);
    // Of each group the moment with most resident bytes, so that the peak is never thinned away.
    let curve: Vec<_> = space
        .curve
        .chunks(group)
        .filter_map(|moments| moments.iter().max_by_key(|moment| moment.resident_bytes))
        .collect();
    model::ReplaySpace {
        peak_bytes: space.peak_resident_bytes,
        end_bytes: space.end_resident_bytes,
        trimmed_bytes: space.trimmed_resident_bytes,
        committed_bytes: space.peak_committed_bytes,
        resident_per_requested: space.resident_per_requested,
        curve_event: curve.iter().map(|moment| moment.event).collect(),
        curve_bytes: curve.iter().map(|moment| moment.resident_bytes).collect(),
        curve_requested_bytes: curve.iter().map(|moment| moment.requested_bytes).collect(),
    }
}

fn settings(settings: &Settings, heaps: &[HeapResult]) -> String {
    let touched = match settings.touch {
        Touch::All => "one store in every page of every block",
        Touch::Known => "one store in every page of every block that was not asked for zeroed",
        Touch::None => "blocks not written",
    };
    let order = if settings.threads { "per thread" } else { "in recorded order on one thread" };
    let space = format!("Replayed {order}; {touched}.");
    if heaps.iter().all(|heap| heap.time.is_none()) {
        return space;
    }
    let blocks = match settings.reps {
        1 => "1 block".to_owned(),
        reps => format!("{} blocks", words::count(u64::from(reps))),
    };
    if settings.reps < blocks_needed(settings.confidence) {
        return format!(
            "{space} Time over {blocks}, too few for intervals: ranges are of the blocks."
        );
    }
    let corrected = match heaps.len() {
        0..=2 => String::new(),
        heaps => format!(", corrected for {} comparisons", heaps - 1),
    };
    format!(
        "{space} Time over {blocks}, intervals at {:.0} %{corrected}.",
        settings.confidence * 100.0
    )
}

fn machine(results: &Results) -> String {
    let machine = &results.machine;
    let mut parts = Vec::new();
    if !machine.processor.is_empty() {
        parts.push(machine.processor.clone());
    }
    if !machine.kernel.is_empty() {
        parts.push(format!("Linux {}", machine.kernel));
    }
    if parts.is_empty() { String::new() } else { format!("Measured on {}.", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_statistics::Estimate;

    #[test]
    fn ranges_of_few_blocks_are_not_called_intervals() {
        let of = |reps| {
            let heaps =
                vec![HeapResult { time: Some(Default::default()), ..HeapResult::default() }];
            settings(&Settings { reps, confidence: 0.95, ..Settings::default() }, &heaps)
        };
        assert!(
            of(2).ends_with("Time over 2 blocks, too few for intervals: ranges are of the blocks."),
            "{}",
            of(2)
        );
        assert!(of(6).ends_with("Time over 6 blocks, intervals at 95 %."), "{}", of(6));
    }

    #[test]
    fn only_what_cannot_come_out_otherwise_is_exact() {
        let of = |measure, blocks, low, high| {
            let ratio = Estimate { value: low, low, high };
            let (heap, baseline) = ("jemalloc".into(), "glibc".into());
            range(&Comparison {
                heap,
                baseline,
                measure,
                ratio,
                blocks,
                confidence: None,
                widened: None,
                bootstrap: None,
                p_value: None,
                p_adjusted: None,
                nodes: None,
                outcome: Outcome::More,
            })
        };
        assert_eq!(of(Measure::Space, 1, 1.5, 1.5), "exact");
        assert_eq!(of(Measure::Space, 3, 1.5, 1.5), "the same in 3 cells");
        assert_eq!(
            of(Measure::Space, 3, 1.501, 1.502),
            "the same in 3 cells",
            "it is shown with two digits"
        );
        assert_eq!(of(Measure::Space, 3, 1.5, 1.6), "1.50 to 1.60");
        assert_eq!(of(Measure::Time, 1, 0.8, 0.8), "1 block");
    }
}
