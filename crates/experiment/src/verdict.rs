//! The verdict in words. A sentence claims no more than its interval does: less, more, equivalent within the stated
//! margin, or no difference shown.

use crate::results::{Comparison, Measure, Outcome, Results};
use crate::summary::{blocks_needed, blocks_needed_for};

/// The verdict's sentences, space before time.
pub fn sentences(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for comparison in &results.comparisons {
        sentences.push(match comparison.measure {
            Measure::Space => space(comparison, results),
            Measure::Time => time(comparison, results),
        });
    }
    for heap in results.heaps.iter().filter(|heap| !heap.failures.is_empty()) {
        let first = &heap.failures[0];
        let more = if heap.failures.len() > 1 { format!(" (and {} more)", heap.failures.len() - 1) } else { String::new() };
        sentences.push(format!("{}: a {} cell failed: {}{more}.", heap.heap, first.kind, first.reason));
    }
    sentences
}

fn interval(comparison: &Comparison, confidence: f64) -> String {
    let ratio = comparison.ratio;
    let name = match comparison.measure {
        Measure::Space => format!("range of {}", plural(comparison.blocks, "cell")),
        Measure::Time => format!("{:.0} % interval", confidence * 100.0),
    };
    let (low, high) = (format!("{:.3}", ratio.low), format!("{:.3}", ratio.high));
    // Ends that read the same say nothing.
    if low == high {
        return format!("ratio {:.3}", ratio.value);
    }
    format!("ratio {:.3}, {name} {low} to {high}", ratio.value)
}

/// `1 block`, `3 blocks`.
pub fn plural(number: u32, thing: &str) -> String {
    if number == 1 {
        format!("1 {thing}")
    } else if thing.ends_with('s') {
        format!("{number} {thing}es")
    } else {
        format!("{number} {thing}s")
    }
}

fn space(comparison: &Comparison, results: &Results) -> String {
    let of = |name: &str| results.heaps.iter().find(|heap| heap.heap == name).and_then(|heap| heap.space.as_ref());
    let bytes = |name: &str| of(name).map_or(String::from("?"), |space| sized(space.peak_resident_bytes));
    let Comparison { heap, baseline, .. } = comparison;
    let figures = format!("{} against {} at the peak; {}", bytes(heap), bytes(baseline), interval(comparison, results.settings.confidence));
    match comparison.outcome {
        Outcome::Less | Outcome::More if is_beyond_percent(comparison.ratio.value) => {
            let peak = |name: &str| of(name).map_or(0, |space| space.peak_resident_bytes);
            let difference = sized(peak(heap).abs_diff(peak(baseline)));
            let more = if comparison.outcome == Outcome::More { "more" } else { "less" };
            // The ratio to next to nothing says only that it is next to nothing.
            format!("Space: {heap} needs {difference} {more} than {baseline} ({} against {} at the peak).", bytes(heap), bytes(baseline))
        }
        Outcome::Less | Outcome::More => format!("Space: {heap} needs {} than {baseline} ({figures}).", than(comparison.ratio.value)),
        Outcome::Equivalent => {
            let margin = results.settings.margin * 100.0;
            format!("Space: {heap} needs what {baseline} needs, within the margin of {margin:.0} % ({figures}).")
        }
        Outcome::NotShown => format!("Space: no difference shown between {heap} and {baseline} ({figures})."),
    }
}

/// Ratios are said in percent up to this many fold, and beyond it in bytes or ns.
const FOLD_MAX: f64 = 20.0;

/// Whether the ratio is one to next to nothing.
pub fn is_beyond_percent(ratio: f64) -> bool {
    !(1.0 / FOLD_MAX..=FOLD_MAX).contains(&ratio)
}

/// "31.0 % less", "140.0 % more".
fn than(ratio: f64) -> String {
    if ratio >= 1.0 { format!("{:.1} % more", (ratio - 1.0) * 100.0) } else { format!("{:.1} % less", (1.0 - ratio) * 100.0) }
}

fn time(comparison: &Comparison, results: &Results) -> String {
    let of = |name: &str| results.heaps.iter().find(|heap| heap.heap == name).and_then(|heap| heap.time.as_ref());
    let ns = |name: &str| of(name).map_or(String::from("?"), |time| format!("{:.1} ns", time.ns_per_event.value));
    let Comparison { heap, baseline, .. } = comparison;
    let p = comparison.p_adjusted.map_or(String::new(), |p| format!(", {}", p_value(p, compared(results))));
    let figures = format!("{} against {} an event; {}{p}", ns(heap), ns(baseline), interval(comparison, results.settings.confidence));
    match comparison.outcome {
        Outcome::Less | Outcome::More if is_beyond_percent(comparison.ratio.value) => {
            let value = |name: &str| of(name).map_or(0.0, |time| time.ns_per_event.value);
            let difference = value(heap) - value(baseline);
            let more = if comparison.outcome == Outcome::More { "more" } else { "less" };
            format!(
                "Time: {heap} needs {:.1} ns an event {more} than {baseline} ({} against {}{p}).",
                difference.abs(),
                ns(heap),
                ns(baseline)
            )
        }
        Outcome::Less | Outcome::More => format!("Time: {heap} needs {} than {baseline} ({figures}).", than(comparison.ratio.value)),
        Outcome::Equivalent => {
            let margin = results.settings.margin * 100.0;
            format!("Time: {heap} needs what {baseline} needs, within the margin of {margin:.0} % ({figures}).")
        }
        Outcome::NotShown => format!("Time: no difference shown between {heap} and {baseline} ({figures})."),
    }
}

/// How many comparisons have a p value, and so how many it is corrected for.
fn compared(results: &Results) -> usize {
    results.comparisons.iter().filter(|comparison| comparison.p_value.is_some()).count()
}

/// "p = 0.016 corrected for 2 comparisons (Benjamini-Hochberg)"; of one comparison there is nothing to correct.
fn p_value(p: f64, comparisons: usize) -> String {
    let p = if p < 0.001 { String::from("p < 0.001") } else { format!("p = {p:.3}") };
    if comparisons < 2 { p } else { format!("{p} corrected for {comparisons} comparisons (Benjamini-Hochberg)") }
}

/// "18.01 MiB", "36 KiB", "0 bytes".
fn sized(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.0} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64),
    }
}

/// What limits the verdict.
pub fn cautions(results: &Results) -> Vec<String> {
    let mut cautions = Vec::new();
    let workload = &results.workload;
    if workload.usable_size_reads > 0 {
        let under = if workload.allocator.is_empty() { "the allocator it was recorded under" } else { &workload.allocator };
        cautions.push(format!(
            "The program read the usable size of its blocks {} times and may have used it: its requests depend on {under}; on another heap it would have asked for others.",
            workload.usable_size_reads
        ));
    }
    if let Some(cut) = &workload.cut {
        cautions.push(format!("The recording is cut ({cut}): this is the verdict on its beginning."));
    }
    cautions.extend(too_few(results));
    if let Some(canary) = results.canary.as_ref().filter(|canary| !canary.unsteady_blocks.is_empty()) {
        cautions.push(format!(
            "The machine was unsteady: fixed work took up to {:.0} % more or less than its median, in {} beyond 10 %.",
            canary.spread * 100.0,
            plural(canary.unsteady_blocks.len() as u32, "block")
        ));
    }
    let requested = workload.peak_requested_bytes;
    if requested < 1 << 20 && results.heaps.iter().any(|heap| heap.space.is_some()) {
        cautions.push(format!(
            "The workload never has more than {} live: what heaps keep for themselves from the start outweighs how they use it.",
            sized(requested)
        ));
    }
    cautions
}

/// What the number of blocks cannot show.
fn too_few(results: &Results) -> Option<String> {
    let confidence = results.settings.confidence;
    let timed = || results.comparisons.iter().filter(|comparison| comparison.measure == Measure::Time);
    let (fewest, comparisons) = (timed().map(|comparison| comparison.blocks).min()?, timed().count() as u32);
    let (needed, enough) = (blocks_needed(confidence), blocks_needed_for(confidence, comparisons));
    let percent = confidence * 100.0;
    let are = if fewest == 1 { String::from("1 block is") } else { format!("{fewest} blocks are") };
    if fewest < needed {
        let several = if enough > needed { format!(", {enough} for {comparisons} comparisons") } else { String::new() };
        return Some(format!("{are} too few to show any difference in time at {percent:.0} %: {needed} are needed{several} (--reps)."));
    }
    // All of them together may be shown with fewer; one alone may not.
    (fewest < enough).then(|| {
        format!(
            "{are} too few to show one difference in time among {comparisons} comparisons at {percent:.0} %: {enough} are needed (--reps)."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Estimate, HeapResult, Space, Time};

    fn results(peaks: [u64; 2], ratio: f64, blocks: u32, comparisons: usize) -> Results {
        let heap = |heap: &str, peak| HeapResult {
            heap: heap.into(),
            space: Some(Space { peak_resident_bytes: peak, ..Space::default() }),
            time: Some(Time { ns_per_event: Estimate { value: peak as f64, low: 0.0, high: 0.0 }, ..Time::default() }),
            ..HeapResult::default()
        };
        let comparison = |measure| Comparison {
            heap: "a".into(),
            baseline: "b".into(),
            measure,
            ratio: Estimate { value: ratio, low: ratio, high: ratio },
            bootstrap: None,
            p_value: (measure == Measure::Time).then_some(0.01),
            p_adjusted: (measure == Measure::Time).then_some(0.02),
            blocks,
            outcome: if ratio > 1.0 { Outcome::More } else { Outcome::Less },
        };
        Results {
            format_version: crate::results::RESULTS_VERSION,
            workload: crate::results::Workload::default(),
            settings: crate::results::Settings { confidence: 0.95, ..crate::results::Settings::default() },
            machine: crate::results::Machine::default(),
            heaps: vec![heap("b", peaks[0]), heap("a", peaks[1])],
            comparisons: std::iter::once(Measure::Space).chain((0..comparisons).map(|_| Measure::Time)).map(comparison).collect(),
            canary: None,
            verdict: Vec::new(),
            cautions: Vec::new(),
        }
    }

    #[test]
    fn against_next_to_nothing_the_difference_is_said_and_no_ratio() {
        let space = |peaks, ratio| sentences(&results(peaks, ratio, 10, 1)).swap_remove(0);
        assert_eq!(space([0, 4_202_495], 4_202_495.0), "Space: a needs 4.01 MiB more than b (4.01 MiB against 0 bytes at the peak).");
        assert_eq!(space([4 << 20, 36_864], 0.0088), "Space: a needs 3.96 MiB less than b (36 KiB against 4.00 MiB at the peak).");
        assert!(space([1 << 20, 2 << 20], 2.0).contains("needs 100.0 % more than b"));
        let time = sentences(&results([1, 400], 400.0, 10, 1)).swap_remove(1);
        assert_eq!(time, "Time: a needs 399.0 ns an event more than b (400.0 ns against 1.0 ns, p = 0.020).");
    }

    #[test]
    fn a_p_value_says_for_what_it_is_corrected() {
        let time = |comparisons| sentences(&results([1, 2], 2.0, 10, comparisons)).swap_remove(1);
        assert!(time(1).contains("p = 0.020)"), "{}", time(1));
        assert!(time(3).contains("p = 0.020 corrected for 3 comparisons (Benjamini-Hochberg)"), "{}", time(3));
    }

    #[test]
    fn too_few_blocks_are_said_with_how_many_are_needed() {
        let cautions = |blocks, comparisons| too_few(&results([1, 2], 2.0, blocks, comparisons)).unwrap_or_default();
        assert!(cautions(1, 1).starts_with("1 block is too few to show any") && cautions(1, 1).contains(": 6 are needed (--reps)"));
        assert!(cautions(5, 2).contains("6 are needed, 7 for 2 comparisons (--reps)"), "{}", cautions(5, 2));
        assert!(cautions(6, 2).contains("too few to show one") && cautions(6, 2).contains("7 are needed"), "{}", cautions(6, 2));
        assert_eq!((cautions(6, 1), cautions(7, 2), cautions(8, 3)), Default::default());
    }

    #[test]
    fn intervals_say_what_they_are_of_and_only_where_they_have_ends() {
        let comparison = |low, high, blocks| Comparison {
            heap: "a".into(),
            baseline: "b".into(),
            measure: Measure::Space,
            ratio: Estimate { value: 1.1, low, high },
            bootstrap: None,
            p_value: None,
            p_adjusted: None,
            blocks,
            outcome: Outcome::More,
        };
        assert_eq!(interval(&comparison(1.05, 1.15, 3), 0.95), "ratio 1.100, range of 3 cells 1.050 to 1.150");
        assert_eq!(interval(&comparison(1.05, 1.15, 1), 0.95), "ratio 1.100, range of 1 cell 1.050 to 1.150");
        assert_eq!(interval(&comparison(1.1001, 1.1002, 3), 0.95), "ratio 1.100");
        assert_eq!([plural(1, "pass"), plural(38, "pass"), plural(1, "block")], ["1 pass", "38 passes", "1 block"]);
    }
}
