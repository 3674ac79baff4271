//! Shortest paths from a root to objects; equal paths are shown once.

use crate::rows::{edge_json, heading, label, label_within, node_json, step};
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::shortest_paths::{Group, ShortestPaths, is_numbered};
use heaplab_snapshot::{Edge, Node};
use heaplab_text::lines::{cut, one_line};
use heaplab_text::words::{bytes, count as number, plural};
use serde_json::{Value, json};
use std::fmt::Write;

/// The paths to `nodes`: the first `shown` groups.
pub fn text(
    ways: &ShortestPaths,
    nodes: &[Node],
    groups: &[Group],
    shown: usize,
    columns: usize,
) -> String {
    let analysis = ways.analysis;
    let mut text = String::new();
    if let [node] = nodes {
        text.push_str(&heading(analysis, *node, columns));
        text.push('\n');
    } else {
        let different = if groups.len() == 1 {
            "one way".into()
        } else {
            format!("{} different ways", number(groups.len() as u64))
        };
        let _ =
            writeln!(text, "{} objects are reached by {different}\n", number(nodes.len() as u64));
    }
    for group in &groups[..shown] {
        if nodes.len() > 1 {
            let objects = plural(group.count, "object");
            let all =
                format!("{objects}, {} retained in sum; such as ", bytes(group.retained_bytes));
            let example = label_within(analysis, group.example, columns - all.chars().count());
            let _ = writeln!(text, "{all}{example}");
        }
        write_way(ways, group, columns, &mut text);
        text.push('\n');
    }
    if shown < groups.len() {
        let _ = writeln!(
            text,
            "... and {} ways more (--top 0 shows all)",
            number((groups.len() - shown) as u64)
        );
    }
    text
}

/// Columns for a class behind an object whose line is too long.
const CLASS_COLUMNS: usize = 24;

fn write_way(ways: &ShortestPaths, group: &Group, columns: usize, text: &mut String) {
    let analysis = ways.analysis;
    let graph = &analysis.snapshot().graph;
    let way = ways.way(group.example);
    let Some(first) = way.head.first().or(way.tail.first()) else {
        let what = if group.example == graph.root() {
            "the root itself"
        } else {
            "no strong reference leads there from a root"
        };
        let _ = writeln!(text, "  {what}");
        return;
    };
    let from = graph.source(*first);
    let from = if from == graph.root() {
        "the root".to_owned()
    } else {
        label_within(analysis, from, columns - 2)
    };
    let _ = writeln!(text, "  {from}");
    for edge in &way.head {
        write_step(analysis, *edge, group.count > 1, ("    ", columns), text);
    }
    if way.left_out > 0 {
        let _ =
            writeln!(text, "    ... {} steps more (--steps 0 shows all) ...", number(way.left_out));
    }
    for edge in &way.tail {
        write_step(analysis, *edge, group.count > 1, ("    ", columns), text);
    }
}

/// A step on one line of any length; `several`: the reference stands for others like it.
pub fn step_line(analysis: &Analysis, edge: Edge, several: bool) -> String {
    let target = analysis.snapshot().graph.target(edge);
    format!(
        "{} = {}{}{}",
        step(analysis, edge),
        label(analysis, target),
        class_beside(analysis, target),
        alike(analysis, edge, several)
    )
}

fn alike(analysis: &Analysis, edge: Edge, several: bool) -> &'static str {
    if several && is_numbered(analysis, edge) { "  (and others alike)" } else { "" }
}

/// An object's class, if its label lacks the class. A plain object's label has its properties, and
/// the class says more.
fn class_beside(analysis: &Analysis, node: Node) -> String {
    let class = analysis.classes()[analysis.class_of(node) as usize].text();
    if label(analysis, node).starts_with(&class) || class.starts_with('(') {
        String::new()
    } else {
        format!("  {}", one_line(&class))
    }
}

/// A step behind the text `before` it, `columns` wide.
pub fn write_step(
    analysis: &Analysis,
    edge: Edge,
    several: bool,
    (before, columns): (&str, usize),
    text: &mut String,
) {
    let line = format!("{before}{}", step_line(analysis, edge, several));
    if line.chars().count() <= columns {
        let _ = writeln!(text, "{line}");
        return;
    }
    let target = analysis.snapshot().graph.target(edge);
    let (step, class, any) =
        (step(analysis, edge), class_beside(analysis, target), alike(analysis, edge, several));
    let what = cut(&class, CLASS_COLUMNS) + any;
    let label = label_within(analysis, target, columns - 8 - what.chars().count());
    let _ = writeln!(text, "{before}{} =\n        {label}{what}", cut(&step, columns - 6));
}

fn group_json(ways: &ShortestPaths, group: &Group) -> Value {
    let analysis = ways.analysis;
    let graph = &analysis.snapshot().graph;
    let way = ways.way(group.example);
    let step = |edge: &Edge| json!({"from": node_json(analysis, graph.source(*edge)), "edge": edge_json(analysis, *edge)});
    let steps: Vec<Value> = way.head.iter().chain(&way.tail).map(step).collect();
    json!({
        "objects": group.count,
        "retained_bytes_sum": group.retained_bytes,
        "example": node_json(analysis, group.example),
        "length": way.head.len() as u64 + way.left_out + way.tail.len() as u64,
        "left_out": {"after": way.head.len(), "steps": way.left_out},
        "steps": steps,
    })
}

/// The same as JSON.
pub fn json(ways: &ShortestPaths, nodes: &[Node], groups: &[Group], shown: usize) -> Value {
    let paths: Vec<Value> = groups[..shown].iter().map(|group| group_json(ways, group)).collect();
    json!({
        "format": "heaplab-snapshot-path",
        "version": 1,
        "objects": nodes.len(),
        "different_paths": groups.len(),
        "paths": paths,
    })
}
