//! One object and its references.

use crate::about_object::ObjectSection;
use crate::rows::{distance, edge_json, label, node_json, step};
use crate::summary::place_json;
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::{Edge, Node};
use heaplab_text::lines::{self, cut};
use heaplab_text::table::Table;
use heaplab_text::words::{bytes, count as number};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::fmt::{self, Write};

/// Characters shown of a string's content.
const CONTENT_CHARACTERS: usize = 2000;

/// The object's references, by the retained bytes of their targets.
pub struct References {
    /// References shown in the text; 0: all.
    pub top: usize,
}

fn references(analysis: &Analysis, node: Node) -> Vec<Edge> {
    let graph = &analysis.snapshot().graph;
    let mut edges: Vec<Edge> = graph.edges(node).collect();
    edges.sort_by_key(|edge| Reverse(analysis.retained_size(graph.target(*edge))));
    edges
}

impl ObjectSection for References {
    fn text(
        &self,
        analysis: &Analysis,
        node: Node,
        columns: usize,
        out: &mut dyn Write,
    ) -> fmt::Result {
        let snapshot = analysis.snapshot();
        if let Some(place) = place(analysis, node) {
            writeln!(out, "made at {}", analysis.scripts().place(place))?;
        }
        for frame in allocated_by(analysis, node) {
            writeln!(
                out,
                "allocated in {}",
                lines::cut_middle(&frame, columns - "allocated in ".len())
            )?;
        }
        if snapshot.node_type_name(snapshot.graph.node_type(node)).contains("string") {
            writeln!(out, "\n{}", cut(&analysis.name(node), CONTENT_CHARACTERS))?;
        }
        let edges = references(analysis, node);
        if edges.is_empty() {
            return writeln!(out, "\nIt refers to nothing.");
        }
        writeln!(out, "\nIt refers to:")?;
        let shown = if self.top == 0 { edges.len() } else { self.top.min(edges.len()) };
        let mut table = Table::new(["shallow", "retained", "distance", "reference"]);
        for edge in &edges[..shown] {
            let target = snapshot.graph.target(*edge);
            let what = format!("{} = {}", step(analysis, *edge), label(analysis, target));
            table.row([
                bytes(analysis.self_size(target)),
                bytes(analysis.retained_size(target)),
                distance(analysis.distance(target)),
                what,
            ]);
        }
        write!(out, "{}", table.text(columns))?;
        if shown < edges.len() {
            writeln!(
                out,
                "... and {} more (--top 0 shows all)",
                number((edges.len() - shown) as u64)
            )?;
        }
        Ok(())
    }

    fn json(&self, analysis: &Analysis, node: Node) -> Map<String, Value> {
        let graph = &analysis.snapshot().graph;
        let reference = |edge: Edge| json!({"edge": edge_json(analysis, edge), "to": node_json(analysis, graph.target(edge))});
        let place = place(analysis, node);
        let place = place.map(|place| place_json(place, analysis.scripts()));
        Map::from_iter([
            ("place".to_owned(), json!(place)),
            ("allocated_by".to_owned(), json!(allocated_by(analysis, node))),
            ("dominator".to_owned(), node_json(analysis, analysis.dominator(node))),
            (
                "references".to_owned(),
                references(analysis, node).into_iter().map(reference).collect(),
            ),
        ])
    }
}

/// The object's place in a script: the script's number, line and column, both from 0.
pub(crate) fn place(analysis: &Analysis, node: Node) -> Option<(u32, u32, u32)> {
    let place = analysis.snapshot().locations.iter().find(|location| location.node == node)?;
    Some((place.script_id, place.line, place.column))
}

/// The call stack that allocated the object, innermost function first; empty unless allocations
/// were tracked.
pub(crate) fn allocated_by(analysis: &Analysis, node: Node) -> Vec<String> {
    let snapshot = analysis.snapshot();
    let Some(id) = snapshot.graph.trace_node(node) else { return Vec::new() };
    let mut at = snapshot.traces.nodes.iter().position(|trace| trace.id == u64::from(id));
    let mut frames = Vec::new();
    while let Some(trace) = at.and_then(|at| snapshot.traces.nodes.get(at)) {
        if let Some(function) = snapshot.traces.functions.get(trace.function as usize) {
            let (name, script) =
                (snapshot.strings.text(function.name), snapshot.strings.text(function.script_name));
            let name = if name.is_empty() { "(anonymous)" } else { &name };
            frames.push(format!(
                "{name} {script}:{}:{}",
                function.line.wrapping_add(1),
                function.column.wrapping_add(1)
            ));
        }
        at = trace.parent.map(|parent| parent as usize);
    }
    frames
}
