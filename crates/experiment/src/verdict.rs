//! The verdict in words. A sentence claims no more than its interval does: less, more, equivalent within the stated
//! margin, or no difference shown.

use crate::results::{Comparison, Measure, Outcome, Results};
use crate::summary::blocks_needed;

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
    let bytes = |name: &str| of(name).map_or(String::from("?"), |space| mebibytes(space.peak_resident_bytes));
    let Comparison { heap, baseline, .. } = comparison;
    let figures = format!("{} against {} at the peak; {}", bytes(heap), bytes(baseline), interval(comparison, results.settings.confidence));
    match comparison.outcome {
        Outcome::Less | Outcome::More => format!("Space: {heap} needs {} than {baseline} ({figures}).", than(comparison.ratio.value)),
        Outcome::Equivalent => {
            let margin = results.settings.margin * 100.0;
            format!("Space: {heap} needs what {baseline} needs, within the margin of {margin:.0} % ({figures}).")
        }
        Outcome::NotShown => format!("Space: no difference shown between {heap} and {baseline} ({figures})."),
    }
}

/// "31.0 % less", "140.0 % more".
fn than(ratio: f64) -> String {
    if ratio >= 1.0 { format!("{:.1} % more", (ratio - 1.0) * 100.0) } else { format!("{:.1} % less", (1.0 - ratio) * 100.0) }
}

fn time(comparison: &Comparison, results: &Results) -> String {
    let of = |name: &str| results.heaps.iter().find(|heap| heap.heap == name).and_then(|heap| heap.time.as_ref());
    let ns = |name: &str| of(name).map_or(String::from("?"), |time| format!("{:.1} ns", time.ns_per_event.value));
    let Comparison { heap, baseline, .. } = comparison;
    let p = comparison.p_adjusted.map_or(String::new(), |p| if p < 0.001 { String::from(", p < 0.001") } else { format!(", p = {p:.3}") });
    let figures = format!("{} against {} an event; {}{p}", ns(heap), ns(baseline), interval(comparison, results.settings.confidence));
    match comparison.outcome {
        Outcome::Less | Outcome::More => format!("Time: {heap} needs {} than {baseline} ({figures}).", than(comparison.ratio.value)),
        Outcome::Equivalent => {
            let margin = results.settings.margin * 100.0;
            format!("Time: {heap} needs what {baseline} needs, within the margin of {margin:.0} % ({figures}).")
        }
        Outcome::NotShown => format!("Time: no difference shown between {heap} and {baseline} ({figures})."),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64)
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
    let needed = blocks_needed(results.settings.confidence);
    let timed = results.comparisons.iter().filter(|comparison| comparison.measure == Measure::Time);
    if let Some(fewest) = timed.map(|comparison| comparison.blocks).min().filter(|blocks| *blocks < needed) {
        let confidence = results.settings.confidence * 100.0;
        cautions.push(format!(
            "{} too few to claim a difference in time at {confidence:.0} %: {needed} are needed (--reps).",
            if fewest == 1 { String::from("1 block is") } else { format!("{fewest} blocks are") }
        ));
    }
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
            "The workload never has more than {:.0} KiB live: what heaps keep for themselves from the start outweighs how they use it.",
            requested as f64 / 1024.0
        ));
    }
    cautions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Estimate;

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
