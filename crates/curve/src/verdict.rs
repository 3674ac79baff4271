//! The sentences of an experiment: ratios at equal time and at equal space, dominated points,
//! places of defaults, the choice for a budget; and the limits of all of it.
//!
//! A difference is claimed if its interval excludes 1. The sentences never name the parameters of a
//! curve.

use crate::budget::answer;
use crate::compare::DOMINATION_BLOCKS_MIN;
use crate::plan::{SpaceMeasure, TimeMeasure};
use crate::results::{
    BLOCKS_MIN, Comparison, LeastSpace, PointResult, Ratio, Results, VariantResult,
};
use crate::run::{Block, Measured};
use crate::sample::Samples;
use crate::summary::Asked;
use heaplab_experiment::verdict::DEBUG_BUILD;
use heaplab_statistics::{Estimate, median};
use heaplab_text::words::{bytes, plural};

/// A canary whose elapsed time exceeds its CPU time by this factor shared its processor.
const SHARED_FROM: f64 = 1.10;
/// Largest harmless movement of the canary between blocks.
const CANARY_SPREAD: f64 = 1.10;
/// A run with fewer samples has only roughly known anonymous memory.
const LOOKS_MIN: f64 = 10.0;
/// Most reasons of failures in the text.
const REASONS_MAX: usize = 3;

/// Seconds, with three digits or so.
pub fn seconds(value: f64) -> String {
    let (number, unit) = seconds_and_unit(value);
    format!("{number} {unit}")
}

/// [`seconds`], the number and its unit.
pub(crate) fn seconds_and_unit(value: f64) -> (String, &'static str) {
    match value {
        ..0.0995 => (format!("{:.1}", value * 1e3), "ms"),
        ..0.9995 => (format!("{:.0}", value * 1e3), "ms"),
        ..99.95 => (format!("{value:.2}"), "s"),
        _ => (format!("{value:.0}"), "s"),
    }
}

pub(crate) fn space(value: f64) -> String {
    bytes(value.max(0.0) as u64)
}

fn interval(estimate: Estimate) -> String {
    if estimate.low.is_nan() {
        String::new()
    } else {
        format!(" ({:.2} to {:.2})", estimate.low, estimate.high)
    }
}

/// Fills in the sentences of `results`.
pub fn speak(results: &mut Results, measured: &Measured, asked: &Asked, samples: &Samples) {
    let mut verdict = Vec::new();
    for variant in &results.variants {
        verdict.extend(no_effect(variant, results));
        verdict.extend(failures(variant));
    }
    for comparison in &results.comparisons {
        verdict.extend(compared(comparison));
    }
    for variant in results.variants.iter().filter(|variant| variant.effect) {
        verdict.extend(dominated_within(variant));
        verdict.extend(default_place(variant));
    }
    if let Some(budget) = &asked.budget {
        let (answer, sentence) = answer(results, budget, samples);
        results.budget = Some(answer);
        verdict.push(sentence);
    }
    results.verdict = verdict;
    results.cautions = cautions(results, measured);
}

/// A variant's name as a part of a sentence: ` of a=0`.
fn of(variant: &VariantResult) -> String {
    if variant.name.is_empty() { String::new() } else { format!(" of {}", variant.name) }
}

fn no_effect(variant: &VariantResult, results: &Results) -> Option<String> {
    if variant.effect {
        return None;
    }
    let range = results.vary.split('=').next().unwrap_or(&results.vary);
    let told = if results.runtime.as_ref().is_some_and(|told| !told.answered) {
        ", and its runtime, asked the same way, said nothing"
    } else {
        ""
    };
    let beginning =
        if variant.name.is_empty() { String::from("No") } else { format!("{}: no", variant.name) };
    let collects = variant.points.iter().any(|point| point.medians.cycles != Some(0.0));
    let meaning = if !collects {
        format!("The heap makes no collection that {range} paces: the workload is too short for it")
    } else if results.workload.is_some() {
        "On this workload the heap does the same with each".into()
    } else if let Some(told) = results.runtime.as_ref().filter(|told| told.answered) {
        format!(
            "{} runs and collects as often with each: it does not know the value, or the value does not matter to a heap this small or a run this short",
            told.name
        )
    } else {
        String::from("The command seems not to read it")
    };
    Some(format!(
        "{beginning} effect of {range} was shown: neither time nor space differs between {}{told}. {meaning}; no curve is drawn.",
        plural(variant.points.iter().filter(|point| !point.is_default()).count() as u64, "setting")
    ))
}

/// Settings that gave no answer.
fn failures(variant: &VariantResult) -> Option<String> {
    let failed: Vec<&PointResult> =
        variant.points.iter().filter(|point| point.runs == 0 && point.failures > 0).collect();
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for point in failed {
        let why = point.failure.as_deref().unwrap_or_default();
        match reasons.last_mut() {
            Some((last, settings)) if *last == why => settings.push(&point.setting),
            _ => reasons.push((why, vec![&point.setting])),
        }
    }
    let left = reasons.iter().skip(REASONS_MAX);
    let settings_left = left.map(|(_, settings)| settings.len() as u64).sum();
    let mut sentences: Vec<String> = reasons
        .iter()
        .take(REASONS_MAX)
        .map(|(why, settings)| {
            let settings = match settings.as_slice() {
                [first, .., last] if settings.len() > 3 => {
                    let count = plural(settings.len() as u64, "setting");
                    format!("{first} to {last} ({count})")
                }
                all => all.join(", "),
            };
            format!("No answer at {settings}{}: {why}.", of(variant))
        })
        .collect();
    if settings_left > 0 {
        sentences
            .push(format!("{} more fail, for other reasons.", plural(settings_left, "setting")));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn compared(comparison: &Comparison) -> Vec<String> {
    let mut sentences = Vec::new();
    let (other, first) = (&comparison.variant, &comparison.baseline);
    if let Some(ratio) = &comparison.space_at_equal_time {
        sentences.push(ratio_sentence(
            ratio,
            other,
            first,
            "space",
            "at equal time",
            &[seconds(ratio.range.0), seconds(ratio.range.1)],
        ));
    }
    if let Some(ratio) = &comparison.time_at_equal_space {
        sentences.push(ratio_sentence(
            ratio,
            other,
            first,
            "time",
            "at equal space",
            &[space(ratio.range.0), space(ratio.range.1)],
        ));
    }
    if sentences.is_empty() {
        let reason = comparison.reason.as_deref().unwrap_or("nothing can be compared");
        sentences.push(format!("{other} against {first}: no ratio is given, because {reason}."));
    }
    sentences.extend(comparison.least_space.as_ref().map(|least| least_space(least, other, first)));
    for ((count, all), loser, winner) in
        [(comparison.baseline_dominated, first, other), (comparison.dominated, other, first)]
    {
        if count > 0 {
            let each = if count == all {
                format!("Each of the {all} points")
            } else {
                format!("{count} of {all} points")
            };
            let verb = if count == all || count == 1 { "has" } else { "have" };
            sentences.push(format!("{each} of {loser} {verb} a point of {winner} below and left: less space and less time."));
        }
    }
    sentences
}

/// Settings of both variants with the least space: what can be said of space where time does not
/// tell settings apart.
fn least_space(least: &LeastSpace, other: &str, first: &str) -> String {
    let LeastSpace { setting, baseline_setting, space, time } = least;
    let told = match interval(*time) {
        of if time.low <= 1.0 && 1.0 <= time.high => of.replace(')', "; no difference shown)"),
        of => of,
    };
    format!(
        "Least space: {other} {setting} needs {:.2} of what {first} {baseline_setting} needs{}, and takes {:.2} of the time{told}.",
        space.value,
        interval(*space),
        time.value,
    )
}

fn ratio_sentence(
    ratio: &Ratio,
    other: &str,
    first: &str,
    what: &str,
    at: &str,
    range: &[String; 2],
) -> String {
    let mean = ratio.mean;
    let verb = if what == "space" { "needs" } else { "takes" };
    let over = format!("over {} to {}", range[0], range[1]);
    let by = if ratio.method == "points" { ", along lines between the points" } else { "" };
    let ends = match (ratio.at.first(), ratio.at.last()) {
        (Some((_, begin)), Some((_, end))) if ratio.method != "hyperbola" => {
            format!("; {:.2} at one end, {:.2} at the other", begin.value, end.value)
        }
        _ => String::new(),
    };
    // The ends of a hyperbola are of no use (see `cautions`).
    let of_use = match ratio.at.len() {
        count if ratio.method == "hyperbola" && count > 2 => &ratio.at[1..count - 1],
        _ => &ratio.at[..],
    };
    let crossing = of_use.iter().any(|(_, estimate)| estimate.high < 1.0)
        && of_use.iter().any(|(_, estimate)| estimate.low > 1.0);
    if crossing {
        return format!(
            "The curves of {other} and {first} cross: {at} {other} {verb} {:.2} of the {what} of {first}{} in the mean {over}{by}{ends}.",
            mean.value,
            interval(mean)
        );
    }
    let is_shown = mean.low > 1.0 || mean.high < 1.0;
    let shown = if is_shown { String::new() } else { String::from("; no difference shown") };
    format!(
        "{} {other} {verb} {:.2} of the {what} of {first}{}, {over}{by}{ends}{shown}.",
        capital(at),
        mean.value,
        interval(mean)
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Settings made pointless by another setting of the same variant.
fn dominated_within(variant: &VariantResult) -> Option<String> {
    let is_own =
        |name: &str| variant.name.is_empty() || name.starts_with(&format!("{} ", variant.name));
    let dominated: Vec<&PointResult> = variant
        .points
        .iter()
        .filter(|point| point.dominated_by.as_deref().is_some_and(is_own) && !point.is_default())
        .collect();
    let first = dominated.first()?;
    let names: Vec<&str> = dominated.iter().map(|point| point.setting.as_str()).collect();
    let by = first.dominated_by.as_deref().unwrap_or_default();
    Some(format!(
        "Pointless{}: {}; {} needs less space and less time{}.",
        of(variant),
        names.join(", "),
        by,
        if names.len() > 1 { " than the first of them" } else { "" }
    ))
}

fn default_place(variant: &VariantResult) -> Option<String> {
    let default = variant.points.iter().find(|point| point.is_default())?;
    let Some((time, bytes)) = default.time_s.zip(default.space_bytes) else {
        let why = default.failure.as_deref().unwrap_or("it was not run");
        return Some(format!("The default{} gives no answer: {why}.", of(variant)));
    };
    let like = match (&default.like, &default.beyond) {
        (Some(like), _) => format!(", like {like}"),
        (None, Some(end)) => format!(", beyond {end}, where the range ends"),
        (None, None) => String::new(),
    };
    let dominated = default
        .dominated_by
        .as_ref()
        .map_or(String::new(), |by| format!("; {by} needs less of both"));
    Some(format!(
        "The default{} takes {} and {}{like}{dominated}.",
        of(variant),
        seconds(time.value),
        space(bytes.value)
    ))
}

fn cautions(results: &Results, measured: &Measured) -> Vec<String> {
    let mut cautions = Vec::new();
    if let Some(ended) = &results.ended {
        cautions.push(format!("It ended early ({ended}): this is what was measured until then."));
    }
    match results.blocks {
        0 => {}
        1 => cautions.push("One block has no intervals: nothing here says how much of a difference is chance.".into()),
        blocks if (blocks as usize) < DOMINATION_BLOCKS_MIN => cautions.push(format!(
            "Intervals from {blocks} blocks are rough, and no point is called worse than another: take {BLOCKS_MIN} or more."
        )),
        blocks if blocks < BLOCKS_MIN => cautions.push(format!("Intervals from {blocks} blocks are rough: take {BLOCKS_MIN} or more.")),
        _ => {}
    }
    if results.workload.is_some() && cfg!(debug_assertions) {
        // Commands are not a part of this build: their times are valid.
        cautions.push(DEBUG_BUILD.into());
    }
    cautions.extend(canary_cautions(results, &measured.blocks));
    for variant in results.variants.iter().filter(|variant| variant.effect) {
        let name =
            if variant.name.is_empty() { String::new() } else { format!(" of {}", variant.name) };
        if let Some(reason) = &variant.curve.reason {
            cautions.push(format!("No curve is drawn through the points{name}: {reason}."));
        } else if variant.curve.method == Some("hyperbola") {
            cautions.push(format!(
                "The garbage of a collection is not known: the curve{name} is fitted to its points directly, which is ill-conditioned. \
                 Its place between the points is of use, its ends are not."
            ));
        }
    }
    cautions.extend(silent_caution(results));
    let sometimes: Vec<String> = results
        .variants
        .iter()
        .flat_map(|variant| variant.points.iter().map(move |point| (variant, point)))
        .filter(|(_, point)| point.failures > 0 && point.runs > 0)
        .map(|(variant, point)| {
            format!(
                "{} {} ({} of {})",
                variant.name,
                point.setting,
                point.failures,
                point.failures + point.runs
            )
            .trim()
            .into()
        })
        .collect();
    if !sometimes.is_empty() {
        cautions.push(format!(
            "Some runs failed, and figures are those of the others: {}.",
            sometimes.join(", ")
        ));
    }
    cautions.extend(run_cautions(results, &measured.blocks));
    cautions
}

/// Settings whose collections the runtime did not tell.
fn silent_caution(results: &Results) -> Option<String> {
    let told = results.runtime.as_ref()?;
    if !told.answered {
        return Some(format!(
            "{} was asked for its collections ({}) and told none (a run without a collection may say nothing): they are not used.",
            told.name, told.question
        ));
    }
    let silent = |variant: &VariantResult| -> Vec<String> {
        let is_silent =
            |point: &&PointResult| point.runs > 0 && point.medians.garbage_bytes.is_none();
        let name =
            |point: &PointResult| format!("{} {}", variant.name, point.setting).trim().into();
        variant.points.iter().filter(is_silent).map(name).collect()
    };
    let all: Vec<String> = results.variants.iter().flat_map(silent).collect();
    (!all.is_empty()).then(|| {
        format!(
            "{} told no garbage of three collections or more in most runs of {}: a curve by collections leaves {} out.",
            told.name,
            all.join(", "),
            if all.len() == 1 { "it" } else { "them" }
        )
    })
}

/// Warnings from the runs themselves: children, and too few samples.
fn run_cautions(results: &Results, blocks: &[Block]) -> Vec<String> {
    let mut cautions = Vec::new();
    let measures: Vec<_> = blocks
        .iter()
        .flat_map(|block| &block.cells)
        .filter_map(|cell| cell.report.measure())
        .collect();
    let left: Vec<_> = measures.iter().filter(|measure| !measure.left_behind.is_empty()).collect();
    if let Some(first) = left.first() {
        cautions.push(format!(
            "The command left processes behind in {}, which were ended: {}.",
            plural(left.len() as u64, "run"),
            first.left_behind.join(", ")
        ));
    }
    let bounds = measures.iter().filter(|measure| measure.peak_is_bound).count();
    if bounds > 0 && results.settings.space == SpaceMeasure::Peak {
        cautions.push(format!(
            "{} of {} ended before their memory was looked at twice, and needed less than the process that measures them: of these a bound is shown, not a peak.",
            bounds,
            plural(measures.len() as u64, "run")
        ));
    }
    let looks =
        median(&measures.iter().map(|measure| f64::from(measure.looks)).collect::<Vec<_>>())
            .unwrap_or(LOOKS_MIN);
    if looks < LOOKS_MIN && results.settings.space != SpaceMeasure::Peak {
        cautions.push(format!(
            "Runs are short: {looks:.0} looks at the memory of each, {} ms apart (--interval), may have missed its peak.",
            results.settings.interval_ms
        ));
    }
    cautions
}

fn canary_cautions(results: &Results, blocks: &[Block]) -> Vec<String> {
    let canaries: Vec<_> =
        blocks.iter().filter_map(|block| block.canary).filter(|canary| canary.cpu_ns > 0).collect();
    let mut cautions = Vec::new();
    let shared = median(
        &canaries
            .iter()
            .map(|canary| canary.wall_ns as f64 / canary.cpu_ns as f64)
            .collect::<Vec<_>>(),
    );
    if let Some(shared) =
        shared.filter(|shared| *shared > SHARED_FROM && results.settings.time == TimeMeasure::Wall)
    {
        cautions.push(format!(
            "The processor was shared: the canary, which needs no memory, took {shared:.1} times its processor time on the wall. --time cpu is not touched by that."
        ));
    }
    let cpu: Vec<f64> = canaries.iter().map(|canary| canary.cpu_ns as f64).collect();
    let (least, most) = (
        cpu.iter().copied().fold(f64::INFINITY, f64::min),
        cpu.iter().copied().fold(0.0, f64::max),
    );
    if !cpu.is_empty() && most / least > CANARY_SPREAD {
        cautions.push(format!(
            "The canary moved by {:.0} % between blocks: the machine was not quiet.",
            (most / least - 1.0) * 100.0
        ));
    }
    cautions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_fail_keep_their_own_reasons() {
        let variant = |statuses: &[u8]| {
            let point = |(number, status): (usize, &u8)| PointResult {
                setting: format!("X={}", number + 1),
                failures: 1,
                failure: Some(format!("it ended with status {status}")),
                ..PointResult::default()
            };
            let points = statuses.iter().enumerate().map(point).collect();
            failures(&VariantResult { points, ..VariantResult::default() }).unwrap()
        };
        assert_eq!(
            variant(&[1, 2, 2]),
            "No answer at X=1: it ended with status 1. No answer at X=2, X=3: it ended with status 2."
        );
        assert_eq!(
            variant(&[3, 3, 3, 3]),
            "No answer at X=1 to X=4 (4 settings): it ended with status 3."
        );
        assert!(variant(&[1, 2, 3, 4, 5]).ends_with(" 2 settings more fail, for other reasons."));
    }

    #[test]
    fn times_have_three_digits_or_so() {
        assert_eq!(
            [0.0123, 0.5, 0.9996, 12.345, 1234.5].map(seconds),
            ["12.3 ms", "500 ms", "1.00 s", "12.35 s", "1234 s"]
        );
    }
}
