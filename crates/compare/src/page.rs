//! The comparison as one HTML page: the model that its script reads, bounded in size.
//!
//! The chart, the flame graph and the tables are those of a report's page; the script adds what
//! compares. The tree has four columns a quantity: what grew and what shrank, summed over stacks so
//! that each adds up, and both sides.

use crate::comparison::{Comparison, FunctionChange, MarkChange, SizeChange, StackChange};
use crate::findings::FindingChange;
use crate::run::{Drawn, Recorded};
use crate::text::{figure_name, is_bytes};
use crate::verdict::Verdict;
use crate::{Change, HeldChange};
use hashbrown::HashMap;
use heaplab_report::page::{SHARED_SCRIPTS, STYLE, composed, flame_of, limits, model, shorten};
use serde::Serialize;
use std::collections::BTreeMap;

const TEMPLATE: &str = include_str!("../assets/compare.html");
const STYLE_HERE: &str = include_str!("../assets/compare.css");
const SCRIPT: &str = include_str!("../assets/compare.js");
/// Rows of each table.
const ROWS_MAX: usize = 300;

#[derive(Serialize)]
struct Page<'a> {
    writer: &'static str,
    program: String,
    verdict: &'a Verdict,
    warnings: &'a [String],
    confidence: Option<f64>,
    sides: Vec<Side<'a>>,
    figures: Vec<Figure<'a>>,
    findings: &'a [FindingChange],
    functions: Vec<&'a FunctionChange>,
    stacks: Vec<&'a StackChange>,
    sizes: Vec<&'a SizeChange>,
    left_out: BTreeMap<&'static str, usize>,
    flame: Option<model::Flame>,
    frames: Vec<model::Frame>,
}

#[derive(Serialize)]
struct Side<'a> {
    name: &'static str,
    runs: &'a [Recorded],
    drawn: &'a Drawn,
}

#[derive(Serialize)]
struct Figure<'a> {
    name: String,
    unit: &'static str,
    #[serde(flatten)]
    change: &'a Change,
}

/// The whole page as one HTML file.
pub fn html(of: &Comparison) -> String {
    let mut left_out = BTreeMap::new();
    let program = of.after.first().map_or("", |run| run.program.as_str());
    let (flame, frames) = flame(of);
    let page = Page {
        writer: concat!("heaplab ", env!("CARGO_PKG_VERSION")),
        program: shorten(program, limits::NAME_CHARS),
        verdict: &of.verdict,
        warnings: &of.warnings,
        confidence: of.confidence,
        sides: sides(of),
        figures: figures(of),
        findings: &of.findings[..of.findings.len().min(ROWS_MAX)],
        functions: first(&of.functions, |row| row.held.differs(), "function", &mut left_out),
        stacks: first(&of.stacks, |row| row.held.differs(), "stack", &mut left_out),
        sizes: first(&of.sizes, |row| is_one(&row.requests), "size", &mut left_out),
        left_out,
        flame,
        frames,
    };
    let data = serde_json::to_string(&page).unwrap_or_default();
    let name = if program.is_empty() { "unnamed program" } else { program };
    let scripts = [&SHARED_SCRIPTS[..], &[SCRIPT]].concat();
    composed(TEMPLATE, &format!("{name}, before and after"), &[STYLE, STYLE_HERE], &scripts, &data)
}

fn sides(of: &Comparison) -> Vec<Side<'_>> {
    let runs = |side: &str| if side == "before" { &of.before[..] } else { &of.after[..] };
    of.drawn.iter().map(|(name, drawn)| Side { name, runs: runs(name), drawn }).collect()
}

fn figures(of: &Comparison) -> Vec<Figure<'_>> {
    let whole = of.figures.iter().map(|row| Figure {
        name: figure_name(row.figure, &of.moment),
        unit: if is_bytes(row.figure) { "byte" } else { "object" },
        change: &row.change,
    });
    let mark = |row: &'_ MarkChange| format!("live at {}", shorten(&row.mark, limits::NAME_CHARS));
    let marks = of.marks.iter().take(limits::MARKS);
    let marks = marks.map(|row| Figure { name: mark(row), unit: "byte", change: &row.change });
    whole.chain(marks).collect()
}

fn is_one(change: &Change) -> bool {
    change.difference != 0 && change.is_beyond_spread()
}

/// The first rows that differ; how many more there are is noted.
fn first<'a, T>(
    rows: &'a [T],
    differs: impl Fn(&T) -> bool,
    noun: &'static str,
    left_out: &mut BTreeMap<&'static str, usize>,
) -> Vec<&'a T> {
    let mut rows: Vec<&T> = rows.iter().filter(|row| differs(row)).collect();
    left_out.insert(noun, rows.len().saturating_sub(ROWS_MAX));
    rows.truncate(ROWS_MAX);
    rows
}

/// The stacks as one tree, with the names of its places.
fn flame(of: &Comparison) -> (Option<model::Flame>, Vec<model::Frame>) {
    let at = if of.moment == "peak" || of.moment == "end" {
        format!("the {}", of.moment)
    } else {
        of.moment.clone()
    };
    /// The name, the unit, and the change with that number.
    type Quantity = (String, &'static str, fn(&HeldChange) -> &Change);
    let quantities: [Quantity; 3] = [
        (format!("live at {at}, bytes"), "byte", |held| &held.live_bytes),
        ("asked for, bytes".into(), "byte", |held| &held.requested_bytes),
        ("requests".into(), "request", |held| &held.requests),
    ];
    let mut columns = Vec::new();
    for (name, unit, _) in &quantities {
        for side in ["Grew", "Shrank", "After", "Before"] {
            columns.push(model::Measure {
                title: format!("{side}: {name}"),
                unit: (*unit).into(),
                ..model::Measure::default()
            });
        }
    }
    let mut frames: Vec<model::Frame> = Vec::new();
    let mut index: HashMap<&str, u32> = HashMap::new();
    let mut paths: Vec<(Vec<u32>, Vec<u64>)> = Vec::new();
    for row in of.stacks.iter().filter(|row| !row.stack.is_empty()) {
        let path = row.stack.iter().rev().map(|name| {
            *index.entry(name).or_insert_with(|| {
                frames.push(model::Frame {
                    label: shorten(name, limits::NAME_CHARS),
                    ..model::Frame::default()
                });
                frames.len() as u32 - 1
            })
        });
        let path = path.collect();
        let values = quantities.iter().flat_map(|(_, _, value)| {
            let change = value(&row.held);
            let by = change.difference.unsigned_abs();
            let of = |is: bool| if is && change.is_beyond_spread() { by } else { 0 };
            [of(change.difference > 0), of(change.difference < 0), change.after, change.before]
        });
        paths.push((path, values.collect()));
    }
    ((!paths.is_empty()).then(|| flame_of(&columns, &paths)), frames)
}
