//! The verdict in words. A sentence claims no more than its interval does: less, more, equivalent
//! within the stated margin, or no difference shown.

mod cautions;
mod collected;
mod huge_pages;

pub use cautions::{DEBUG_BUILD, cautions};
pub(crate) use collected::never_whole;

use crate::comparison::{RESOLUTION_NS, blocks_needed};
use crate::results::{Comparison, Measure, Outcome, Results};
use cautions::compared;
use heaplab_text::words;
use huge_pages::at_peak;

/// The verdict's sentences, space before time.
pub fn sentences(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for comparison in &results.comparisons {
        let sentence = match comparison.measure {
            Measure::Space => space(comparison, results),
            Measure::Time => time(comparison, results),
        };
        let earlier = results.earlier == Some(comparison.measure);
        sentences.push(if earlier {
            sentence.replacen(": ", " (measured earlier): ", 1)
        } else {
            sentence
        });
    }
    for heap in results.heaps.iter().filter(|heap| !heap.failures.is_empty()) {
        let first = &heap.failures[0];
        let more = if heap.failures.len() > 1 {
            format!(" (and {} more)", heap.failures.len() - 1)
        } else {
            String::new()
        };
        sentences
            .push(format!("{}: a {} cell failed: {}{more}.", heap.heap, first.kind, first.reason));
    }
    sentences
}

fn interval(comparison: &Comparison, stated: f64) -> String {
    let (ratio, confidence) = (comparison.ratio, comparison.confidence.unwrap_or(stated));
    let name = match comparison.measure {
        // Space is measured and not sampled: these are the cells' own figures, and no interval for
        // others.
        Measure::Space if comparison.blocks == 1 => String::from("1 cell gave"),
        Measure::Space => format!("{} cells gave", comparison.blocks),
        // Too few blocks have no interval of this confidence: the figures are the blocks' own.
        Measure::Time
            if comparison.nodes.is_none() && comparison.blocks < blocks_needed(confidence) =>
        {
            format!("{} blocks gave", comparison.blocks)
        }
        Measure::Time => format!("{} % interval", percent(confidence)),
    };
    let (low, high) = (format!("{:.3}", ratio.low), format!("{:.3}", ratio.high));
    // Ends that read the same say nothing.
    if low == high {
        return format!("ratio {:.3}", ratio.value);
    }
    let over = comparison.nodes.map_or_else(String::new, |over| {
        format!(
            " over {} that differ by {}",
            words::plural(over.nodes.into(), "machine"),
            words::percent(over.between)
        )
    });
    format!("ratio {:.3}, {name} {low} to {high}{over}", ratio.value)
}

/// A share in percent with as few digits as possible: 95, 97.5, 99.17.
fn percent(share: f64) -> String {
    let digits = format!("{:.2}", share * 100.0);
    digits.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Why an interval is wider than its blocks make it.
fn widened(comparison: &Comparison) -> String {
    comparison.widened.map_or(String::new(), |spread| {
        format!(
            "; widened, because the machine was unsteady: fixed work took up to {:.0} % more or less than its median",
            spread * 100.0
        )
    })
}

fn space(comparison: &Comparison, results: &Results) -> String {
    let of = |name: &str| {
        results.heaps.iter().find(|heap| heap.heap == name).and_then(|heap| heap.space.as_ref())
    };
    let bytes = |name: &str| of(name).map_or(String::from("?"), at_peak);
    let peak = |name: &str| of(name).map_or(0, |space| space.peak_resident_bytes);
    let Comparison { heap, baseline, .. } = comparison;
    let both = format!("{} against {} at the peak", bytes(heap), bytes(baseline));
    let figures = format!("{both}; {}", interval(comparison, results.settings.confidence));
    let difference = words::bytes(peak(heap).abs_diff(peak(baseline)));
    outcome(comparison, results, "Space", &figures, &difference, &both)
}

/// The sentence of an outcome, with its figures. Without a meaningful ratio it has the `difference`
/// and the figures of `both`.
fn outcome(
    comparison: &Comparison,
    results: &Results,
    measure: &str,
    figures: &str,
    difference: &str,
    both: &str,
) -> String {
    let Comparison { heap, baseline, .. } = comparison;
    match comparison.outcome {
        // The ratio only shows that the baseline needs next to nothing.
        Outcome::Less | Outcome::More if !has_ratio(comparison, results) => {
            let more = if comparison.outcome == Outcome::More { "more" } else { "less" };
            format!("{measure}: {heap} needs {difference} {more} than {baseline} ({both}).")
        }
        Outcome::Less | Outcome::More => {
            let beside = beside(comparison.ratio.value, baseline);
            format!("{measure}: {heap} needs {beside} ({figures}).")
        }
        Outcome::Equivalent => {
            let margin = results.settings.margin * 100.0;
            format!(
                "{measure}: {heap} needs as much as {baseline}, within the margin of {margin:.0} % ({figures})."
            )
        }
        Outcome::NotShown => {
            format!("{measure}: no difference shown between {heap} and {baseline} ({figures}).")
        }
    }
}

/// Ratios are in percent up to this factor, and above it in bytes or ns.
const FOLD_MAX: f64 = 20.0;

/// Whether the ratio is meaningful: the baseline needs more than next to nothing, and both times
/// exceed the noise of the driver's own time.
pub fn has_ratio(comparison: &Comparison, results: &Results) -> bool {
    let are_told = comparison.measure == Measure::Space
        || [&comparison.heap, &comparison.baseline].iter().all(|heap| is_told(results, heap));
    are_told && (1.0 / FOLD_MAX..=FOLD_MAX).contains(&comparison.ratio.value)
}

/// Whether a heap's time, if it has one, exceeds the noise of the driver's own time.
pub fn is_told(results: &Results, heap: &str) -> bool {
    let time = results.heaps.iter().find(|of| of.heap == heap).and_then(|of| of.time.as_ref());
    time.is_none_or(|time| time.ns_per_event.value >= RESOLUTION_NS)
}

/// Percents are used up to this factor: "12.9 times" reads faster than "1190.9 % more".
const PERCENT_MAX: f64 = 3.0;

/// "31.0 % less than glibc", "140.0 % more than glibc", "12.9 times what glibc needs".
fn beside(ratio: f64, baseline: &str) -> String {
    match ratio {
        PERCENT_MAX.. => format!("{ratio:.1} times what {baseline} needs"),
        1.0.. => format!("{:.1} % more than {baseline}", (ratio - 1.0) * 100.0),
        _ => format!("{:.1} % less than {baseline}", (1.0 - ratio) * 100.0),
    }
}

fn time(comparison: &Comparison, results: &Results) -> String {
    let of = |name: &str| {
        results.heaps.iter().find(|heap| heap.heap == name).and_then(|heap| heap.time.as_ref())
    };
    let ns = |name: &str| {
        of(name).map_or(String::from("?"), |time| format!("{:.1} ns", time.ns_per_event.value))
    };
    let Comparison { heap, baseline, .. } = comparison;
    let p = comparison
        .p_adjusted
        // The test does not know how unsteady the machine was.
        .filter(|_| comparison.widened.is_none())
        .map_or(String::new(), |p| format!(", {}", p_value(p, compared(results))));
    let p = format!("{p}{}", widened(comparison));
    let ratio = has_ratio(comparison, results)
        .then(|| format!("; {}", interval(comparison, results.settings.confidence)));
    let figures =
        format!("{} against {} an event{}{p}", ns(heap), ns(baseline), ratio.unwrap_or_default());
    let value = |name: &str| of(name).map_or(0.0, |time| time.ns_per_event.value);
    let difference = format!("{:.1} ns an event", (value(heap) - value(baseline)).abs());
    let both = format!("{} against {}{p}", ns(heap), ns(baseline));
    outcome(comparison, results, "Time", &figures, &difference, &both)
}

/// "p = 0.016, corrected": a note explains the correction once. A single comparison needs none.
fn p_value(p: f64, comparisons: usize) -> String {
    let p = if p < 0.001 { String::from("p < 0.001") } else { format!("p = {p:.3}") };
    if comparisons < 2 { p } else { format!("{p}, corrected") }
}

#[cfg(test)]
mod tests {
    use super::cautions::corrected;
    use super::*;
    use crate::results::{HeapResult, Space, Time};
    use heaplab_statistics::Estimate;

    pub(super) fn results(peaks: [u64; 2], ratio: f64, blocks: u32, comparisons: usize) -> Results {
        let heap = |heap: &str, peak| HeapResult {
            heap: heap.into(),
            space: Some(Space { peak_resident_bytes: peak, ..Space::default() }),
            time: Some(Time {
                ns_per_event: Estimate { value: peak as f64, low: 0.0, high: 0.0 },
                ..Time::default()
            }),
            ..HeapResult::default()
        };
        let comparison = |measure| Comparison {
            heap: "a".into(),
            baseline: "b".into(),
            measure,
            ratio: Estimate { value: ratio, low: ratio, high: ratio },
            confidence: None,
            widened: None,
            bootstrap: None,
            p_value: (measure == Measure::Time).then_some(0.01),
            p_adjusted: (measure == Measure::Time).then_some(0.02),
            nodes: None,
            blocks,
            outcome: if ratio > 1.0 { Outcome::More } else { Outcome::Less },
        };
        Results {
            format_version: crate::results::RESULTS_VERSION,
            workload: crate::results::Workload::default(),
            settings: crate::results::Settings {
                confidence: 0.95,
                ..crate::results::Settings::default()
            },
            machine: crate::results::Machine::default(),
            heaps: vec![heap("b", peaks[0]), heap("a", peaks[1])],
            comparisons: std::iter::once(Measure::Space)
                .chain((0..comparisons).map(|_| Measure::Time))
                .map(comparison)
                .collect(),
            canary: None,
            verdict: Vec::new(),
            cautions: Vec::new(),
            measured_unix_s: 0,
            earlier: None,
        }
    }

    #[test]
    fn against_next_to_nothing_the_difference_is_said_and_no_ratio() {
        let space = |peaks, ratio| sentences(&results(peaks, ratio, 10, 1)).swap_remove(0);
        assert_eq!(
            space([0, 4_202_495], 4_202_495.0),
            "Space: a needs 4.01 MiB more than b (4.01 MiB against 0 bytes at the peak)."
        );
        assert_eq!(
            space([4 << 20, 36_864], 0.0088),
            "Space: a needs 3.96 MiB less than b (36.0 KiB against 4.00 MiB at the peak)."
        );
        assert!(space([1 << 20, 2 << 20], 2.0).contains("needs 100.0 % more than b"));
        assert!(space([1 << 20, 5 << 20], 5.0).contains("needs 5.0 times what b needs ("));
        let time = sentences(&results([1, 400], 400.0, 10, 1)).swap_remove(1);
        assert_eq!(
            time,
            "Time: a needs 399.0 ns an event more than b (400.0 ns against 1.0 ns, p = 0.020)."
        );
    }

    #[test]
    fn a_time_that_is_the_drivers_own_has_no_ratio() {
        // Figures from one block of a debug build: the ratio is to the least distinguishable time.
        let mut found = results([1, 2], 557.45, 10, 1);
        let time = |found: &Results| sentences(found).swap_remove(1);
        found.heaps[0].time.as_mut().unwrap().ns_per_event.value = -3.7;
        found.comparisons[1].outcome = Outcome::NotShown;
        assert_eq!(
            time(&found),
            "Time: no difference shown between a and b (2.0 ns against -3.7 ns an event, p = 0.020)."
        );
        // A ratio near 1 is still a ratio to the least time.
        found.comparisons[1].ratio.value = 18.0;
        assert!(
            !has_ratio(&found.comparisons[1], &found)
                && has_ratio(&found.comparisons[1], &results([1, 2], 18.0, 10, 1))
        );
        found.comparisons[1].outcome = Outcome::More;
        assert_eq!(
            time(&found),
            "Time: a needs 5.7 ns an event more than b (2.0 ns against -3.7 ns, p = 0.020)."
        );
    }

    #[test]
    fn few_blocks_have_a_range_and_no_interval_of_95_percent() {
        let mut found = results([1, 2], 2.0, 2, 2);
        found.comparisons.iter_mut().for_each(|comparison| comparison.ratio.high = 2.5);
        let time = |found: &Results| sentences(found).swap_remove(1);
        assert!(
            time(&found).contains("ratio 2.000, 2 blocks gave 2.000 to 2.500, p"),
            "{}",
            time(&found)
        );
        assert_eq!(
            corrected(&found).unwrap(),
            "The p values are corrected for 2 comparisons (Benjamini-Hochberg)."
        );
        found.comparisons.iter_mut().for_each(|comparison| comparison.blocks = 6);
        assert!(
            time(&found).contains("ratio 2.000, 95 % interval 2.000 to 2.500, p"),
            "{}",
            time(&found)
        );
        found.comparisons.iter_mut().for_each(|comparison| comparison.confidence = Some(0.975));
        assert!(time(&found).contains("6 blocks gave"), "7 are needed: {}", time(&found));
    }

    #[test]
    fn huge_pages_and_more_resident_than_committed_are_said() {
        let mut found = results([4 << 20, 8 << 20], 2.0, 10, 1);
        let said = |found: &Results| cautions(found).join("\n");
        assert!(
            !said(&found).contains("huge pages")
                && !said(&found).contains("resident than committed")
        );
        if let Some(space) = &mut found.heaps[1].space {
            (space.peak_huge_page_bytes, space.peak_committed_bytes) = (2 << 20, Some(7 << 20));
        }
        let both = said(&found);
        assert!(
            both.contains("At the peak 2.00 MiB of the 8.00 MiB of a lie in huge pages"),
            "{both}"
        );
        let verdict = sentences(&found).swap_remove(0);
        assert!(
            verdict.contains(
                "(8.00 MiB, of which 2.00 MiB in huge pages, against 4.00 MiB at the peak;"
            ),
            "{verdict}"
        );
        assert!(
            both.contains("figure is another (a has no switch for it, only the system has"),
            "{both}"
        );
        found.heaps[1].without_huge_pages = Some("a:thp=never".into());
        assert!(said(&found).contains("figure is another (a:thp=never)."), "{}", said(&found));
        assert!(
            both.contains("a: more bytes are resident than committed. ")
                && both.contains("Huge pages of a reach beyond committed memory."),
            "{both}"
        );
        found.machine.huge_pages = "never".into();
        assert!(!said(&found).contains("huge pages"));
    }

    #[test]
    fn a_p_value_says_for_what_it_is_corrected() {
        let time = |comparisons| sentences(&results([1, 2], 2.0, 10, comparisons)).swap_remove(1);
        assert!(time(1).contains("p = 0.020)"), "{}", time(1));
        assert!(time(3).contains("p = 0.020, corrected)"), "{}", time(3));
    }

    #[test]
    fn intervals_say_what_they_are_of_and_only_where_they_have_ends() {
        let comparison = |low, high, blocks| Comparison {
            heap: "a".into(),
            baseline: "b".into(),
            measure: Measure::Space,
            ratio: Estimate { value: 1.1, low, high },
            confidence: None,
            widened: None,
            bootstrap: None,
            p_value: None,
            p_adjusted: None,
            nodes: None,
            blocks,
            outcome: Outcome::More,
        };
        assert_eq!(
            interval(&comparison(1.05, 1.15, 3), 0.95),
            "ratio 1.100, 3 cells gave 1.050 to 1.150"
        );
        assert_eq!(
            interval(&comparison(1.05, 1.15, 1), 0.95),
            "ratio 1.100, 1 cell gave 1.050 to 1.150"
        );
        assert_eq!(interval(&comparison(1.1001, 1.1002, 3), 0.95), "ratio 1.100");
    }

    #[test]
    fn an_unsteady_machine_is_in_the_verdicts_line_and_the_intervals_confidence_too() {
        let mut results = results([100, 120], 1.2, 10, 2);
        for comparison in &mut results.comparisons {
            comparison.ratio = Estimate { value: 1.2, low: 0.857, high: 1.68 };
            (comparison.confidence, comparison.widened) = (Some(0.975), Some(0.38));
            comparison.outcome = Outcome::NotShown;
        }
        let time = results.comparisons.iter().find(|one| one.measure == Measure::Time).unwrap();
        assert_eq!(
            super::time(time, &results),
            "Time: no difference shown between a and b (120.0 ns against 100.0 ns an event; ratio 1.200, 97.5 % interval 0.857 to 1.680; widened, because the machine was unsteady: fixed work took up to 38 % more or less than its median)."
        );
        assert!(corrected(&results).unwrap().ends_with("confidence that it asks for (97.5 %)."));
    }
}
