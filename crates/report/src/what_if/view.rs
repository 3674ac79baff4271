//! The results in words, for text and page.

use super::{RuleDone, WhatIf};
use heaplab_experiment::comparison::blocks_needed;
use heaplab_experiment::results::{Comparison, Measure, Outcome, Results, Space};
use heaplab_experiment::verdict::has_ratio;
use heaplab_text::words::{bytes, count, duration, plural};
use serde::Serialize;

/// Allocators whose slop is shown, each in the version that the replay uses.
const SLOP_OF: [&str; 4] = ["measured", "glibc", "jemalloc", "mimalloc"];

/// The results in words.
#[derive(Debug, Serialize)]
pub(super) struct View {
    /// The verdict, a sentence a heap.
    pub verdict: Vec<String>,
    /// The changes.
    pub changed: Vec<String>,
    /// The figures: requests, space, time, as far as they were measured.
    pub tables: Vec<Figures>,
    /// The assumptions, each a sentence.
    pub assumptions: Vec<String>,
    /// Limits of the replays, a sentence each.
    pub cautions: Vec<String>,
}

/// A table: a name, then the figures as recorded and changed.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    /// The headings.
    pub headings: [&'static str; 4],
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
}

impl View {
    pub fn of(document: &WhatIf) -> View {
        let tables = [asked(document), space(document), time(document)];
        View {
            verdict: verdict(document),
            changed: document.rules.iter().map(done).collect(),
            tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
            assumptions: document.origin.assumptions.clone(),
            // Limits of one replay are limits of both.
            cautions: document.replay.before.cautions.clone(),
        }
    }
}

/// One sentence a heap: its predicted peak and time of a run.
fn verdict(document: &WhatIf) -> Vec<String> {
    let replay = &document.replay;
    let sentence = |heap: &str| {
        let space = match (space_of(&replay.before, heap), space_of(&replay.after, heap)) {
            (Some(before), Some(after)) => peak_words(before, after),
            _ => "space could not be measured".into(),
        };
        let time = replay.comparison(heap, Measure::Time).map(|of| time_words(of, document));
        let time = time.map_or(String::new(), |words| format!("; {words}"));
        format!("On {heap} {space}{time}.")
    };
    let failed = replay.before.heaps.iter().chain(&replay.after.heaps).flat_map(|heap| {
        heap.failures.first().map(|failure| {
            format!("{}: a {} cell failed: {}.", heap.heap, failure.kind, failure.reason)
        })
    });
    replay.after.heaps.iter().map(|heap| sentence(&heap.heap)).chain(failed).collect()
}

pub(super) fn space_of<'a>(results: &'a Results, heap: &str) -> Option<&'a Space> {
    results.heaps.iter().find(|of| of.heap == heap)?.space.as_ref()
}

/// "the peak would be 1.20 MiB less (10.1 MiB in the place of 11.3 MiB, -10.6 %)".
fn peak_words(before: &Space, after: &Space) -> String {
    let (was, would_be) = (before.peak_resident_bytes, after.peak_resident_bytes);
    let figures = format!("{} in the place of {}", bytes(would_be), bytes(was));
    let (before, after) = (before.peak_resident_range_bytes, after.peak_resident_range_bytes);
    if before.0 <= after.1 && after.0 <= before.1 {
        return if was == would_be {
            format!("the peak would stay the same ({})", bytes(was))
        } else {
            format!("no difference of the peak is shown ({figures}, within what runs differ by)")
        };
    }
    let more = if would_be > was { "more" } else { "less" };
    let percent = signed_percent(was, would_be);
    format!("the peak would be {} {more} ({figures}, {percent})", bytes(was.abs_diff(would_be)))
}

fn time_words(comparison: &Comparison, document: &WhatIf) -> String {
    let runs = document.replay.runs.iter().find(|runs| runs.heap == comparison.heap);
    let figures = runs.map_or(String::new(), |runs| {
        format!("{} a run in the place of {}", run(runs.after_ns), run(runs.before_ns))
    });
    let ratio = comparison.ratio;
    let interval = format!("ratio {:.3}, {:.3} to {:.3}", ratio.value, ratio.low, ratio.high);
    match comparison.outcome {
        Outcome::Less if has_ratio(comparison, &document.replay.after) => {
            format!("its time {:.1} % less ({figures}; {interval})", (1.0 - ratio.value) * 100.0)
        }
        Outcome::More if has_ratio(comparison, &document.replay.after) => {
            format!("its time {:.1} % more ({figures}; {interval})", (ratio.value - 1.0) * 100.0)
        }
        Outcome::Less => format!("its time less ({figures})"),
        Outcome::More => format!("its time more ({figures})"),
        Outcome::Equivalent => {
            let margin = document.replay.after.settings.margin * 100.0;
            format!("its time the same within {margin:.0} % ({interval})")
        }
        Outcome::NotShown => {
            let confidence =
                comparison.confidence.unwrap_or(document.replay.after.settings.confidence);
            let needed = blocks_needed(confidence);
            if comparison.nodes.is_none() && comparison.blocks < needed {
                let were = match comparison.blocks {
                    1 => "1 block is".to_owned(),
                    blocks => format!("{blocks} blocks are"),
                };
                let ratio = ratio_words(ratio.value);
                return format!(
                    "{were} too few to say what its time would be ({needed} are needed: --reps; here the ratio is {ratio})"
                );
            }
            format!("no difference of time is shown ({interval})")
        }
    }
}

/// A ratio in as many digits as it has.
fn ratio_words(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.3}") } else { format!("{ratio:.0}") }
}

/// A time that cannot be told from the driver's own is 0.
fn run(ns: f64) -> String {
    duration(ns.max(0.0) as u64)
}

fn signed_percent(before: u64, after: u64) -> String {
    if before == after {
        return "0 %".into();
    }
    let percent = (after as f64 / before.max(1) as f64 - 1.0) * 100.0;
    match percent {
        _ if before == 0 => "from nothing".into(),
        -0.05..0.05 => String::from(if percent < 0.0 { "under -0.1 %" } else { "under +0.1 %" }),
        _ => format!("{percent:+.1} %"),
    }
}

fn done(rule: &RuleDone) -> String {
    let mut parts = vec![plural(rule.requests, "request")];
    let mut part = |number: u64, what: &str| {
        if number > 0 {
            parts.push(format!("{} {what}", count(number)));
        }
    };
    part(rule.spared, "spared");
    part(rule.early, "freed early");
    part(rule.added, "blocks added");
    format!("{} ({})", rule.words, parts.join(", "))
}

fn asked(document: &WhatIf) -> Figures {
    let (before, after) = (&document.before, &document.after);
    let row = |what: &str, was: u64, would_be: u64, shown: fn(u64) -> String| {
        vec![what.into(), shown(was), shown(would_be), signed_percent(was, would_be)]
    };
    let mut rows = vec![
        row("requests", before.requests, after.requests, count),
        row("over the run", before.requested_bytes, after.requested_bytes, bytes),
        row("at the peak", before.peak_requested_bytes, after.peak_requested_bytes, bytes),
        row("at the end", before.end_requested_bytes, after.end_requested_bytes, bytes),
    ];
    for was in &before.slop {
        let Some(would_be) = after.slop.iter().find(|of| of.basis == was.basis) else { continue };
        let slop = |of: &heaplab_findings::SlopRow| {
            of.at_peak_usable_bytes.saturating_sub(of.at_peak_requested_bytes)
        };
        let name = format!("slop at the peak, {}", was.basis.name());
        if SLOP_OF.contains(&was.basis.name()) {
            rows.push(row(&name, slop(was), slop(would_be), bytes));
        }
    }
    Figures { headings: ["asked for", "as recorded", "changed", "change"], rows }
}

fn space(document: &WhatIf) -> Figures {
    let replay = &document.replay;
    let rows = replay.after.heaps.iter().filter_map(|heap| {
        let (before, after) = (space_of(&replay.before, &heap.heap)?, heap.space.as_ref()?);
        let (was, would_be) = (before.peak_resident_bytes, after.peak_resident_bytes);
        let change = signed_percent(was, would_be);
        Some(vec![heap.heap.clone(), bytes(was), bytes(would_be), change])
    });
    let headings = ["peak resident", "as recorded", "changed", "change"];
    Figures { headings, rows: rows.collect() }
}

fn time(document: &WhatIf) -> Figures {
    let rows = document.replay.runs.iter().filter_map(|runs| {
        let of = document.replay.comparison(&runs.heap, Measure::Time)?;
        let ratio = of.ratio;
        let ratio = format!("{:.3}\n{:.3} to {:.3}", ratio.value, ratio.low, ratio.high);
        Some(vec![runs.heap.clone(), run(runs.before_ns), run(runs.after_ns), ratio])
    });
    let headings = ["time of a run", "as recorded", "changed", "ratio"];
    Figures { headings, rows: rows.collect() }
}
