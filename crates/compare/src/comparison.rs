//! The comparison as data: the source of its text, its JSON and its page.

use crate::change::{Change, confidence};
use crate::findings::{self, FindingChange};
use crate::matching::{self, LeftOver};
use crate::names::Names;
use crate::run::{Drawn, Figure, Held, Recorded, Run};
use crate::verdict::{Verdict, verdict};
use crate::{Reducer, warnings};
use hashbrown::{HashMap, HashSet};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Recordings before and after a change (docs/compare-json.md).
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// What follows.
    pub verdict: Verdict,
    /// What to know before believing it, each a sentence.
    pub warnings: Vec<String>,
    /// The moment at which live bytes are compared: "peak", "end", a mark, a time.
    pub moment: String,
    /// The confidence of the intervals: 0.95 with enough runs; `None`: one run a side, and the
    /// spread of runs is unknown.
    pub confidence: Option<f64>,
    /// The runs before.
    pub before: Vec<Recorded>,
    /// The runs after.
    pub after: Vec<Recorded>,
    /// Numbers of the whole runs.
    pub figures: Vec<FigureChange>,
    /// Live bytes at the marks that all runs have.
    pub marks: Vec<MarkChange>,
    /// By function that asked, the largest difference of live bytes first.
    pub functions: Vec<FunctionChange>,
    /// By stack, in the same order.
    pub stacks: Vec<StackChange>,
    /// By size asked for, the largest difference of live bytes first.
    pub sizes: Vec<SizeChange>,
    /// What to change in the program: new, more, less, moved, gone, the same.
    pub findings: Vec<FindingChange>,
    #[serde(skip)]
    pub(crate) drawn: Vec<(&'static str, Drawn)>,
}

/// A number of the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FigureChange {
    /// Which.
    pub figure: Figure,
    /// Its values.
    #[serde(flatten)]
    pub change: Change,
}

/// Live bytes at a mark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MarkChange {
    /// Its name.
    pub mark: String,
    /// Its live bytes.
    #[serde(flatten)]
    pub change: Change,
}

/// Which side has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// Only the runs after.
    New,
    /// Only the runs before.
    Gone,
    /// Both.
    Both,
}

/// The live objects and the requests of a function, a stack or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct HeldChange {
    /// Bytes live at the moment.
    pub live_bytes: Change,
    /// Objects live then.
    pub live_objects: Change,
    /// Bytes live at the end.
    pub end_bytes: Change,
    /// Requests of the run.
    pub requests: Change,
    /// Bytes of these.
    pub requested_bytes: Change,
}

impl HeldChange {
    /// Whether anything differs: at the moment, at the end or over the run.
    pub(crate) fn differs(&self) -> bool {
        [self.live_bytes, self.end_bytes, self.requests, self.requested_bytes]
            .iter()
            .any(Change::is_beyond_spread)
    }
}

/// The requests that a function makes itself, without those of the functions that it calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionChange {
    /// Its name, without arguments; empty: no stack was recorded.
    pub function: String,
    /// Which side has it.
    pub presence: Presence,
    /// Its numbers.
    #[serde(flatten)]
    pub held: HeldChange,
}

/// Requests through the same functions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackChange {
    /// Its functions, the innermost first.
    pub stack: Vec<String>,
    /// Which side has it.
    pub presence: Presence,
    /// Whether one of its functions was inlined on one side.
    pub inlined: bool,
    /// Its numbers.
    #[serde(flatten)]
    pub held: HeldChange,
    /// The lines of the innermost function that ask.
    pub lines: Vec<LineChange>,
}

/// A call that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LineChange {
    /// The line before; `None`: the call is new. 0: unknown.
    pub before: Option<u32>,
    /// The line after; `None`: the call is gone.
    pub after: Option<u32>,
    /// Bytes live at the moment.
    pub live_bytes: Change,
    /// Requests of the run.
    pub requests: Change,
}

/// Requests of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeChange {
    /// Bytes asked for.
    pub size_bytes: u64,
    /// Requests of the run.
    pub requests: Change,
    /// Bytes live at the moment.
    pub live_bytes: Change,
}

/// A stack of either side: what each run holds by each line.
#[derive(Debug, Default)]
struct Both<'a> {
    inlined: bool,
    lines: [BTreeMap<u32, Vec<Held>>; 2],
    runs: [Vec<Held>; 2],
    path: &'a [u32],
}

impl Reducer {
    /// Compares the runs of both sides. No side is empty.
    pub fn compare(&self, before: Vec<Run>, after: Vec<Run>, moment: &str) -> Comparison {
        let names = &self.names;
        let sides = [&before[..], &after[..]];
        let warnings = warnings::warnings(sides);
        let inlined = inlined(sides);
        let both = joined(sides, &inlined);
        let (functions, stacks) = (functions(names, &both), stacks(names, both));
        let mut comparison = Comparison {
            verdict: Verdict::default(),
            warnings,
            moment: moment.into(),
            confidence: confidence(before.len(), after.len()),
            figures: figures(sides),
            marks: marks(sides),
            functions,
            stacks,
            sizes: sizes(sides),
            findings: findings::compared(sides, &inlined),
            before: before.iter().map(|run| run.recorded.clone()).collect(),
            after: after.iter().map(|run| run.recorded.clone()).collect(),
            drawn: [("before", &before), ("after", &after)]
                .into_iter()
                .filter_map(|(side, runs)| Some((side, runs.first()?.drawn.clone())))
                .collect(),
        };
        comparison.verdict = verdict(&comparison);
        comparison
    }
}

/// A change over the runs of both sides.
fn change(sides: [&[Run]; 2], value: impl Fn(&Run) -> u64) -> Change {
    let [before, after] = sides.map(|runs| runs.iter().map(&value).collect::<Vec<u64>>());
    Change::of(&before, &after)
}

fn figures(sides: [&[Run]; 2]) -> Vec<FigureChange> {
    let all: BTreeSet<Figure> = sides
        .iter()
        .flat_map(|runs| runs.iter())
        .flat_map(|run| run.figures.keys().copied())
        .collect();
    let known = |figure: &Figure| {
        sides.iter().all(|runs| runs.iter().all(|run| run.figures.contains_key(figure)))
    };
    let row = |figure: Figure| FigureChange {
        figure,
        change: change(sides, |run| run.figures.get(&figure).copied().unwrap_or(0)),
    };
    all.into_iter().filter(known).map(row).collect()
}

fn marks(sides: [&[Run]; 2]) -> Vec<MarkChange> {
    let of = |run: &Run, mark: &str| {
        run.marks.iter().find(|(name, _)| name == mark).map(|(_, bytes)| *bytes)
    };
    let Some(first) = sides[0].first() else { return Vec::new() };
    let everywhere = |mark: &&(String, u64)| {
        sides.iter().all(|runs| runs.iter().all(|run| of(run, &mark.0).is_some()))
    };
    let row = |(mark, _): &(String, u64)| MarkChange {
        mark: mark.clone(),
        change: change(sides, |run| of(run, mark).unwrap_or(0)),
    };
    first.marks.iter().filter(everywhere).map(row).collect()
}

/// The paths that only one side has and the other has under another path: the shorter to the
/// longer.
fn inlined(sides: [&[Run]; 2]) -> HashMap<Vec<u32>, Vec<u32>> {
    let totals = sides.map(|runs| {
        let mut totals: HashMap<&[u32], Held> = HashMap::new();
        for run in runs {
            for (path, lines) in &run.stacks {
                let total = totals.entry(path.as_slice()).or_default();
                lines.values().for_each(|held| total.add(held));
            }
        }
        totals
    });
    let [before, after] = [0, 1].map(|side| {
        let runs = sides[side].len().max(1) as u64;
        let alone = totals[side].iter().filter(|(path, _)| !totals[1 - side].contains_key(**path));
        alone
            .map(|(path, held)| LeftOver {
                path,
                requests: held.requests / runs,
                bytes: held.requested_bytes / runs,
            })
            .collect::<Vec<_>>()
    });
    matching::inlined(&before, &after)
}

/// All stacks of both sides under the path by which both have them.
fn joined<'a>(sides: [&'a [Run]; 2], inlined: &'a HashMap<Vec<u32>, Vec<u32>>) -> Vec<Both<'a>> {
    let mut both: HashMap<&[u32], Both<'_>> = HashMap::new();
    for (side, runs) in sides.iter().enumerate() {
        for (number, run) in runs.iter().enumerate() {
            for (path, lines) in &run.stacks {
                let longer = inlined.get(path);
                let path = longer.unwrap_or(path).as_slice();
                let stack = both.entry(path).or_default();
                stack.path = path;
                stack.inlined |= longer.is_some();
                stack.runs[side].resize(runs.len(), Held::default());
                for (line, held) in lines {
                    let of_line = stack.lines[side].entry(*line).or_default();
                    of_line.resize(runs.len(), Held::default());
                    of_line[number].add(held);
                    stack.runs[side][number].add(held);
                }
            }
        }
    }
    let mut both: Vec<Both<'_>> = both.into_values().collect();
    for stack in &mut both {
        for (side, runs) in sides.iter().enumerate() {
            stack.runs[side].resize(runs.len(), Held::default());
        }
    }
    both
}

fn functions(names: &Names, both: &[Both<'_>]) -> Vec<FunctionChange> {
    /// What each run of both sides holds, and which sides have it.
    type OfFunction = ([Vec<Held>; 2], HashSet<usize>);
    let mut functions: HashMap<Option<u32>, OfFunction> = HashMap::new();
    for stack in both {
        let (runs, sides) = functions.entry(stack.path.first().copied()).or_default();
        for (side, held) in stack.runs.iter().enumerate() {
            runs[side].resize(held.len(), Held::default());
            runs[side].iter_mut().zip(held).for_each(|(sum, held)| sum.add(held));
            if !stack.lines[side].is_empty() {
                sides.insert(side);
            }
        }
    }
    let mut rows: Vec<FunctionChange> = functions
        .into_iter()
        .map(|(name, (runs, sides))| FunctionChange {
            function: name.map_or_else(String::new, |name| names.text(name).to_owned()),
            presence: presence(sides.contains(&0), sides.contains(&1)),
            held: held_change(&runs),
        })
        .collect();
    rows.sort_by(|a, b| by_size(&a.held, &b.held).then_with(|| a.function.cmp(&b.function)));
    rows
}

fn stacks(names: &Names, both: Vec<Both<'_>>) -> Vec<StackChange> {
    let row = |stack: Both<'_>| StackChange {
        stack: stack.path.iter().map(|name| names.text(*name).to_owned()).collect(),
        presence: presence(!stack.lines[0].is_empty(), !stack.lines[1].is_empty()),
        inlined: stack.inlined,
        held: held_change(&stack.runs),
        lines: lines(&stack),
    };
    let mut rows: Vec<StackChange> = both.into_iter().map(row).collect();
    rows.sort_by(|a, b| by_size(&a.held, &b.held).then_with(|| a.stack.cmp(&b.stack)));
    rows
}

fn lines(stack: &Both<'_>) -> Vec<LineChange> {
    let [before, after] =
        [0, 1].map(|side| stack.lines[side].keys().copied().collect::<Vec<u32>>());
    let pairs = matching::lines(&before, &after);
    let values = |side: usize, line: Option<u32>, value: fn(&Held) -> u64| -> Vec<u64> {
        let held = line.and_then(|line| stack.lines[side].get(&line));
        (0..stack.runs[side].len()).map(|run| held.map_or(0, |held| value(&held[run]))).collect()
    };
    let row = |(one, other): (Option<u32>, Option<u32>)| {
        let change =
            |value: fn(&Held) -> u64| Change::of(&values(0, one, value), &values(1, other, value));
        LineChange {
            before: one,
            after: other,
            live_bytes: change(|held| held.live_bytes),
            requests: change(|held| held.requests),
        }
    };
    pairs.into_iter().map(row).collect()
}

fn presence(before: bool, after: bool) -> Presence {
    match (before, after) {
        (false, _) => Presence::New,
        (true, false) => Presence::Gone,
        (true, true) => Presence::Both,
    }
}

fn held_change([before, after]: &[Vec<Held>; 2]) -> HeldChange {
    let change = |value: fn(&Held) -> u64| {
        let values = |runs: &[Held]| runs.iter().map(value).collect::<Vec<u64>>();
        Change::of(&values(before), &values(after))
    };
    HeldChange {
        live_bytes: change(|held| held.live_bytes),
        live_objects: change(|held| held.live_objects),
        end_bytes: change(|held| held.end_bytes),
        requests: change(|held| held.requests),
        requested_bytes: change(|held| held.requested_bytes),
    }
}

/// The largest difference of live bytes first; of requested bytes where that is the same.
fn by_size(a: &HeldChange, b: &HeldChange) -> std::cmp::Ordering {
    let size = |held: &HeldChange| {
        (held.live_bytes.difference.unsigned_abs(), held.requested_bytes.difference.unsigned_abs())
    };
    size(b).cmp(&size(a))
}

fn sizes(sides: [&[Run]; 2]) -> Vec<SizeChange> {
    let all: BTreeSet<u64> = sides
        .iter()
        .flat_map(|runs| runs.iter())
        .flat_map(|run| run.sizes.keys().copied())
        .collect();
    let row = |size: u64| {
        let of = |run: &Run| run.sizes.get(&size).copied().unwrap_or_default();
        SizeChange {
            size_bytes: size,
            requests: change(sides, |run| of(run).0),
            live_bytes: change(sides, |run| of(run).1),
        }
    };
    let mut rows: Vec<SizeChange> = all.into_iter().map(row).collect();
    let key = |row: &SizeChange| {
        (row.live_bytes.difference.unsigned_abs(), row.requests.difference.unsigned_abs())
    };
    rows.sort_by(|a, b| key(b).cmp(&key(a)).then(a.size_bytes.cmp(&b.size_bytes)));
    rows
}
