//! The first sentence.

use crate::change::Change;
use crate::comparison::{Comparison, FunctionChange, HeldChange};
use crate::run::Figure;
use heaplab_text::words::{bytes, count, percent, plural};
use serde::Serialize;

/// Where the spread of the runs is not known well, a difference below this share is not called one:
/// hardly two runs are the same to the byte.
const SMALL: f64 = 0.001;
/// The spread of the runs is known well with this confidence: from three runs a side on. Two equal
/// programs differ in all of two runs a side by chance one time in three.
const WELL_KNOWN: f64 = 0.89;
/// Functions that are named as the reason.
const REASONS_MAX: usize = 3;
/// The named functions must explain this share of the difference.
const EXPLAINED: f64 = 0.7;
/// A figure of the run is worth a sentence from this share on.
const WORTH_A_SENTENCE: f64 = 0.01;

/// Whether the program needs more or less at the moment that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Less.
    Less,
    /// More.
    More,
    /// No difference, or none beyond what runs differ by themselves.
    #[default]
    Same,
}

/// What follows from a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Verdict {
    /// Whether it needs more or less.
    pub outcome: Outcome,
    /// For a person: one sentence, and what else there is to say of the run.
    pub sentences: Vec<String>,
}

pub(crate) fn verdict(of: &Comparison) -> Verdict {
    let figure = |wanted: Figure| {
        of.figures.iter().find(|row| row.figure == wanted).map(|row| row.change).unwrap_or_default()
    };
    let live = figure(Figure::LiveBytes);
    let is_known = of.confidence.is_some_and(|confidence| confidence > WELL_KNOWN);
    let outcome = outcome(&live, is_known);
    let mut sentences = vec![first(of, &live, outcome)];
    if let Some(kept) = kept(of, &live, &figure(Figure::EndBytes)) {
        if outcome == Outcome::Same {
            // A leak is no "no difference".
            let held = because(of, &kept, |held| &held.end_bytes);
            let first = sentences[0].trim_end_matches('.');
            let (needs, word) = (bytes(kept.difference.unsigned_abs()), more_or_less(&kept));
            sentences[0] = format!("{first}, but {needs} {word} is live at the end{held}.");
        } else {
            sentences.push(format!("At the end {} is live.", amount(&kept)));
        }
    }
    sentences.extend(over_the_run(&figure(Figure::Allocations), &figure(Figure::RequestedBytes)));
    sentences.push(worth(of));
    Verdict { outcome, sentences }
}

/// The kind of a change of live bytes, with or without a well known spread of runs.
fn outcome(live: &Change, spread_is_known: bool) -> Outcome {
    let is_small = !spread_is_known && live.share().is_some_and(|share| share.abs() < SMALL);
    match live.difference {
        _ if is_small || !live.is_beyond_spread() => Outcome::Same,
        ..0 => Outcome::Less,
        _ => Outcome::More,
    }
}

/// The bytes live at the end, if they differ, are not the compared moment, and are large enough
/// beside it.
fn kept(of: &Comparison, live: &Change, end: &Change) -> Option<Change> {
    let least = live.before.max(live.after) as f64 * SMALL;
    let is_kept = of.moment != "end"
        && is_worth_a_sentence(end)
        && end.difference.unsigned_abs() as f64 >= least;
    is_kept.then_some(*end)
}

fn is_worth_a_sentence(change: &Change) -> bool {
    change.is_beyond_spread() && change.share().is_none_or(|share| share.abs() >= WORTH_A_SENTENCE)
}

fn more_or_less(change: &Change) -> &'static str {
    if change.difference < 0 { "less" } else { "more" }
}

/// `1.2 MiB more (+23 %)`.
fn amount(change: &Change) -> String {
    let number = bytes(change.difference.unsigned_abs());
    format!("{number} {}{}", more_or_less(change), share(change))
}

fn share(change: &Change) -> String {
    change.share().map_or(String::new(), |share| format!(" ({})", signed_percent(share)))
}

fn first(of: &Comparison, live: &Change, outcome: Outcome) -> String {
    let at = match of.moment.as_str() {
        "peak" => "at the peak".to_owned(),
        "end" => "at the end".to_owned(),
        moment => format!("at {moment}"),
    };
    let word = match outcome {
        Outcome::Same if live.difference == 0 && live.low == live.high => {
            return format!("No difference: before and after need {} {at}.", bytes(live.before));
        }
        Outcome::Same if of.confidence.is_some() && !live.is_beyond_spread() => {
            return format!(
                "No difference {at} beyond what runs differ by themselves: {} before, {} after, a difference of {} to {}.",
                bytes(live.before),
                bytes(live.after),
                signed(live.low),
                signed(live.high)
            );
        }
        Outcome::Same => {
            return format!(
                "No difference to speak of {at}: {} before, {} after ({}).",
                bytes(live.before),
                bytes(live.after),
                signed(live.difference)
            );
        }
        Outcome::Less => "less",
        Outcome::More => "more",
    };
    let share = share(live);
    let interval = if of.confidence.is_some() && live.low != live.high {
        let (low, high) = (live.low.unsigned_abs(), live.high.unsigned_abs());
        format!(", {} to {}", bytes(low.min(high)), bytes(low.max(high)))
    } else {
        String::new()
    };
    let needs = bytes(live.difference.unsigned_abs());
    format!(
        "After needs {needs} {word} {at}{share}{interval}{}.",
        because(of, live, |held| &held.live_bytes)
    )
}

/// The functions with most of the difference, in its direction; if many share it, their number and
/// the first of them.
fn because(of: &Comparison, live: &Change, at: fn(&HeldChange) -> &Change) -> String {
    let word = more_or_less(live);
    let mut all = reasons(of, live, at);
    all.sort_by_key(|(_, holds)| std::cmp::Reverse(*holds));
    let goal = live.difference.unsigned_abs() as f64 * EXPLAINED;
    let mut named = 0;
    let mut explained = 0u64;
    while (explained as f64) < goal && named < all.len().min(REASONS_MAX) {
        explained = explained.saturating_add(all[named].1);
        named += 1;
    }
    let part = |(function, holds): &(String, u64)| format!("{function} holds {}", bytes(*holds));
    match all[..named].iter().map(part).collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        [first, ..] if (explained as f64) < goal => format!(
            ", spread over {}: {first} {word}, and that is the most of one",
            plural(all.len() as u64, "function")
        ),
        [one] => format!(", because {one} {word}"),
        [all @ .., last] => format!(", because {} and {last} {word}", all.join(", ")),
    }
}

/// The functions that differ in the direction of `live`, and by how many bytes. A function that has
/// another name is one.
fn reasons(of: &Comparison, live: &Change, at: fn(&HeldChange) -> &Change) -> Vec<(String, u64)> {
    let renamed: Vec<(&str, &str)> = (of.findings.iter())
        .filter_map(|row| Some((row.function.as_str(), row.moved_from.as_deref()?)))
        .collect();
    let differs = |row: &FunctionChange| {
        let change = at(&row.held);
        if change.is_beyond_spread() { change.difference } else { 0 }
    };
    let reason = |row: &FunctionChange| {
        let function = row.function.as_str();
        if function.is_empty() || renamed.iter().any(|(_, before)| *before == function) {
            return None;
        }
        let before = renamed.iter().find(|(after, _)| *after == function).map(|(_, from)| *from);
        let earlier = before.and_then(|from| of.functions.iter().find(|row| row.function == from));
        let difference = differs(row).saturating_add(earlier.map_or(0, differs));
        let name = match before {
            Some(before) => format!("{function} (before: {before})"),
            None => function.to_owned(),
        };
        let is_reason = difference != 0 && difference.signum() == live.difference.signum();
        is_reason.then_some((name, difference.unsigned_abs()))
    };
    of.functions.iter().filter_map(reason).collect()
}

/// What changed of the requests of the whole run.
fn over_the_run(allocations: &Change, requested: &Change) -> Option<String> {
    let allocates = is_worth_a_sentence(allocations).then(|| {
        let word = if allocations.difference < 0 { "fewer" } else { "more" };
        let number = count(allocations.difference.unsigned_abs());
        format!("makes {number} {word} allocations{}", share(allocations))
    });
    let asks = is_worth_a_sentence(requested).then(|| format!("asks for {}", amount(requested)));
    let parts: Vec<String> = allocates.into_iter().chain(asks).collect();
    (!parts.is_empty()).then(|| format!("Over the run it {}.", parts.join(" and ")))
}

/// The reliability of the numbers.
fn worth(of: &Comparison) -> String {
    match of.confidence {
        None => "One recording a side: by how much runs differ by themselves is not known. Give several: heaplab compare a1 a2 a3 a4 -- b1 b2 b3 b4.".into(),
        Some(confidence) if confidence < 0.949 => format!(
            "{} before and {} after: an interval holds with {}. Four a side give 95 %.",
            plural(of.before.len() as u64, "recording"),
            of.after.len(),
            percent(confidence)
        ),
        Some(confidence) => format!(
            "{} before and {} after: an interval holds with {}.",
            plural(of.before.len() as u64, "recording"),
            of.after.len(),
            percent(confidence)
        ),
    }
}

/// With its sign: `+1.2 MiB`.
pub(crate) fn signed(difference: i64) -> String {
    let sign = match difference {
        0 => "",
        ..0 => "-",
        _ => "+",
    };
    format!("{sign}{}", bytes(difference.unsigned_abs()))
}

/// With its sign: `-23 %`; from tenfold on, a multiple of the value before: `x 80`.
pub(crate) fn signed_percent(share: f64) -> String {
    if share >= 9.0 {
        return format!("x {:.0}", share + 1.0);
    }
    match percent(share.abs()) {
        text if text.starts_with('<') => text,
        text if share == 0.0 => text,
        text => format!("{}{text}", if share < 0.0 { "-" } else { "+" }),
    }
}
