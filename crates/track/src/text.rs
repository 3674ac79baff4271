//! A history as text for a terminal, and the messages of a measurement and a bisection.

use crate::bisect::{Decision, Found, Side, SoughtStep};
use crate::history::{Figure, History, Series, Stepped};
use crate::run::{Commit, Outcome};
use crate::steps::SERIES_MIN;
use crate::store::Store;
use heaplab_statistics::Estimate;
use heaplab_text::paint::{Look, Paint};
use heaplab_text::shell::quoted;
use heaplab_text::words::{bytes, count, percent, plural};
use std::path::PathBuf;

/// The heights of a line's letters.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Where a commit was not measured.
const GAP: char = '·';
/// Letters of a line at most; longer histories are drawn more coarsely.
const LINE_MAX: usize = 60;

/// The history of one figure: a line a phase, the steps with their commits, the gaps.
pub fn history(history: &History, figure: Figure, least: f64, look: &Look) -> String {
    let mut out = Paint::new(look.width, look.colour);
    head(&mut out, history);
    out.heading(&capital(figure.title()));
    let lines: Vec<&Series> = history.of_figure(figure).collect();
    if lines.is_empty() {
        out.wrapped("  ", "Not measured.");
    }
    let longest = lines.iter().map(|series| name(series).chars().count()).max().unwrap_or(0);
    for series in &lines {
        let line = drawn(history, series);
        let name = name(series);
        out.line(&format!("  {name:longest$}  {line}  {}", range(series)));
    }
    steps(&mut out, history, &lines, least, look.top);
    gaps(&mut out, history, &lines);
    for caution in &history.cautions {
        out.warning(caution);
    }
    out.finish()
}

fn head(out: &mut Paint, history: &History) {
    let repository = &history.subject.repository;
    let project = repository.rsplit('/').find(|part| !part.is_empty()).unwrap_or(repository);
    let measured = history.commits.iter().filter(|place| place.runs > 0).count();
    let runs: u32 = history.commits.iter().map(|place| place.runs).sum();
    out.title(&format!("{project}: {}", heaplab_text::shell::line(&history.subject.command)));
    let ends = [history.commits.first(), history.commits.last()];
    let [Some(first), Some(last)] = ends else { return };
    out.wrapped(
        "",
        &format!(
            "{}, {} to {}; {} measured in {}.",
            plural(history.commits.len() as u64, "commit"),
            first.commit.short(),
            last.commit.short(),
            count(measured as u64),
            plural(runs.into(), "run")
        ),
    );
}

fn steps(out: &mut Paint, history: &History, lines: &[&Series], least: f64, top: usize) {
    let all: Vec<(&Series, &Stepped)> = lines
        .iter()
        .flat_map(|series| series.steps.iter().map(move |step| (*series, step)))
        .collect();
    let mut shown: Vec<&(&Series, &Stepped)> =
        all.iter().filter(|(_, step)| step.share().abs() >= least).collect();
    let small = all.len() - shown.len();
    shown.sort_by(|a, b| b.1.share().abs().total_cmp(&a.1.share().abs()));
    let more = shown.len().saturating_sub(top);
    shown.truncate(top);
    shown.sort_by_key(|(_, step)| step.commit);
    out.heading("Steps");
    if lines.iter().all(|series| series.points.is_empty()) {
        out.wrapped("  ", "None can be told: no commit was measured.");
    } else if all.is_empty() {
        let differs = |series: &&Series| {
            series.points.windows(2).any(|points| points[0].value != points[1].value)
        };
        let is_short = lines.iter().all(|series| series.points.len() < SERIES_MIN);
        out.wrapped(
            "  ",
            if is_short && lines.iter().any(differs) {
                "None is certain: so few commits and runs may differ by chance. More of either decide \
                 (track run --runs, --commits)."
            } else {
                "None: what differs is within the noise of an unchanged program."
            },
        );
    }
    let mut last = None;
    for (series, step) in shown {
        if last.replace(step.commit) != Some(step.commit) {
            out.wrapped("  ", &made_by(history, step));
        }
        out.wrapped("      ", &changed(series, step));
    }
    if more > 0 {
        out.wrapped_dim(
            "  ",
            &format!("{} of less: --top shows them.", plural(more as u64, "step")),
        );
    }
    if small > 0 {
        let text = format!(
            "{} under {} of the level before: --least 0 shows them.",
            plural(small as u64, "step"),
            percent(least)
        );
        out.wrapped_dim("  ", &text);
    }
}

/// The commit of a step, or those that may have made it.
pub fn made_by(history: &History, step: &Stepped) -> String {
    let place = |at: usize| &history.commits[at].commit;
    let commit = place(step.commit);
    let named = format!("{} {}", commit.short(), commit.subject);
    if step.candidates <= 1 {
        return named;
    }
    let between =
        format!("behind {}, up to {}", place(step.earliest).short(), place(step.latest).short());
    if step.shift.is_certain {
        let others = match step.candidates - 1 {
            1 => "the one before it that was not measured".into(),
            others => format!("one of the {others} before it that were not measured"),
        };
        return format!("{named} or {others} ({between}): heaplab track bisect finds it");
    }
    format!("{named}, or another one {between} (95 %): heaplab track bisect finds it")
}

/// The change at a step.
pub fn changed(series: &Series, step: &Stepped) -> String {
    let value = |value: f64| amount(series.figure, value);
    let change = &step.shift.change;
    let interval = if change.low == change.high {
        "exact".into()
    } else {
        let text = format!(
            "{} to {}",
            signed(series.figure, change.low),
            signed(series.figure, change.high)
        );
        if step.shift.confidence >= 1.0 {
            format!("{text} between single runs")
        } else {
            format!("{text} with {:.0} %", step.shift.confidence * 100.0)
        }
    };
    let share = step.share();
    let share =
        if share.is_finite() { format!(", {:+.1} %", share * 100.0) } else { String::new() };
    format!(
        "{}: {} to {} ({}{share}; {interval})",
        name(series),
        value(step.shift.before),
        value(step.shift.after),
        signed(series.figure, change.value)
    )
}

fn gaps(out: &mut Paint, history: &History, lines: &[&Series]) {
    let gaps = history.gaps();
    let partly: Vec<String> = history
        .commits
        .iter()
        .filter(|place| place.runs > 0)
        .filter_map(|place| Some((place, place.failure.as_ref()?)))
        .map(|(place, failure)| {
            format!("{}: a run failed: {}", place.commit.short(), failure.reason)
        })
        .collect();
    let unmeasured: u64 = history.commits.iter().map(|place| place.unmeasured_before).sum();
    if !gaps.is_empty() || unmeasured > 0 || !partly.is_empty() {
        out.heading("Gaps");
    }
    for gap in &gaps {
        let names: Vec<&str> =
            gap.commits.iter().map(|at| history.commits[*at].commit.short()).collect();
        let names = match names[..] {
            [one] => one.to_owned(),
            [first, .., last] => format!("{first} to {last} ({} commits)", names.len()),
            [] => continue,
        };
        out.wrapped("  ", &format!("{names}: {}", gap.reason));
        for line in gap.output.lines() {
            out.wrapped_dim("      ", &heaplab_text::lines::one_line(line));
        }
    }
    partly.iter().for_each(|text| out.wrapped("  ", text));
    if unmeasured > 0 {
        out.wrapped("  ", &format!("{} in the range not measured", plural(unmeasured, "commit")));
    }
    for series in lines.iter().filter(|series| !series.missing.is_empty()) {
        let missing = plural(series.missing.len() as u64, "measured commit");
        out.wrapped_dim("  ", &format!("{} is missing in {missing}", name(series)));
    }
    let undecided = lines.iter().map(|series| series.undecided).max().unwrap_or(0);
    if undecided > 0 {
        out.wrapped_dim("  ", &format!(
            "Runs of one commit differ, each was made once, or commits are few: of the newest {} only a large step can be told (more --runs tell more).",
            plural(undecided as u64, "commit")
        ));
    }
}

/// The name of a series.
pub fn name(series: &Series) -> &str {
    if series.phase.is_empty() { "the run" } else { &series.phase }
}

fn range(series: &Series) -> String {
    let values = series.points.iter().map(|point| point.value);
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    if least == most {
        return amount(series.figure, least);
    }
    format!("{} to {}", amount(series.figure, least), amount(series.figure, most))
}

/// The series as a line: a letter for each commit, or for as many commits as make it short enough.
fn drawn(history: &History, series: &Series) -> String {
    let values = || series.points.iter().map(|point| point.value);
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(f64::NEG_INFINITY, f64::max);
    let each = history.commits.len().div_ceil(LINE_MAX).max(1);
    let mut cells: Vec<Option<f64>> = vec![None; history.commits.len().div_ceil(each)];
    for point in &series.points {
        let cell = &mut cells[point.commit / each];
        *cell = Some(cell.unwrap_or(point.value).max(point.value));
    }
    let letter = |cell: Option<f64>| match cell {
        None => GAP,
        Some(_) if most <= least => HEIGHTS[0],
        Some(value) => {
            let height = (value - least) / (most - least) * (HEIGHTS.len() - 1) as f64;
            HEIGHTS[(height.round() as usize).min(HEIGHTS.len() - 1)]
        }
    };
    cells.into_iter().map(letter).collect()
}

/// A value of a figure.
pub fn amount(figure: Figure, value: f64) -> String {
    let value = value.max(0.0).round() as u64;
    if figure.is_bytes() { bytes(value) } else { count(value) }
}

/// A difference, with its sign.
pub fn signed(figure: Figure, value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    format!("{sign}{}", amount(figure, value.abs()))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// An error and its causes.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A line about a measured commit, for logs; `None`: the store has no run of it.
pub fn measured(store: &Store, commit: &Commit) -> Option<String> {
    let mut runs = store.runs().iter().filter(|run| run.commit.id == commit.id);
    let what = match &runs.next_back()?.outcome {
        Outcome::Failed(failure) => {
            format!("{} failed: {}", failure.stage.text(), failure.reason)
        }
        Outcome::Measured(figures) => {
            format!("peak {}", bytes(Figure::Live.of(figures, "peak").unwrap_or(0)))
        }
    };
    let subject = heaplab_text::lines::cut(&commit.subject, 50);
    Some(format!("{} {subject}: {what}", commit.short()))
}

/// The first line of a search among `number` commits. Both ends are measured.
pub fn looking(sought: &SoughtStep, number: usize) -> String {
    let behind_first = number.saturating_sub(1);
    let to_measure = match behind_first.next_power_of_two().ilog2() {
        0 => String::new(),
        middles => format!(", about {} to measure", commits(middles as usize)),
    };
    format!(
        "looking for the step of {} among {}{to_measure}",
        sought.title(),
        commits(behind_first)
    )
}

/// `3 commits`, for sentences about a search.
fn commits(number: usize) -> String {
    plural(number as u64, "commit")
}

/// A line about a step of a bisection.
pub fn decision(decision: &Decision, commit: &Commit, figure: Figure) -> String {
    let range = |of: &Estimate| {
        let value = signed(figure, of.value);
        if of.low == of.high {
            return value;
        }
        format!("{value} ({} to {})", signed(figure, of.low), signed(figure, of.high))
    };
    let side = match decision.side {
        Side::Before => "has the old level",
        Side::After => "has the new level",
        Side::Between(true) => "has a level of its own; the larger part of the step is behind it",
        Side::Between(false) => "has a level of its own; the larger part of the step is before it",
    };
    format!(
        "{} {side}: {} from the one before, {} to the one after; {} left",
        commit.short(),
        range(&decision.from_before),
        range(&decision.to_after),
        commits(decision.left)
    )
}

/// The result of a bisection of `all`, in a sentence.
pub fn found(found: Found, all: &[Commit], sought: &SoughtStep) -> String {
    let title = sought.title();
    match found {
        Found::NoStep => format!(
            "{} and {} do not differ in {title} beyond their runs.",
            all[0].short(),
            all[all.len() - 1].short()
        ),
        Found::Commit(at) => {
            format!("{} {} makes the step of {title}.", all[at].short(), all[at].subject)
        }
        Found::OneOf(low, high) => format!(
            "One of the {} behind {}, up to {}, makes the step of {title}; those between cannot be measured.",
            commits(high - low),
            all[low].short(),
            all[high].short()
        ),
    }
}

/// How a user learns why the step that was found is there: from the recordings on its two sides.
pub fn why(found: Found, recordings: Option<&[PathBuf; 2]>) -> Option<String> {
    if found == Found::NoStep {
        return None;
    }
    Some(match recordings {
        Some([before, after]) => {
            format!("heaplab compare {} {} says why.", quoted(before), quoted(after))
        }
        None => {
            "With --keep, recordings stay in the store, and heaplab compare says why.".to_owned()
        }
    })
}
