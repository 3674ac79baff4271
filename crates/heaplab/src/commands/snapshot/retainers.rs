//! `heaplab snapshot retainers`: what refers to an object, the nearest to a root first, as DevTools' Retainers.

use super::one::{OfObject, Says};
use super::rows::{edge_json, label_within, node_json, step};
use super::table::{cut, distance, number};
use crate::terminal;
use anyhow::Result;
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::{Edge, Node, Retainers};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::process::ExitCode;

/// Arguments of `heaplab snapshot retainers`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab snapshot retainers a.heapsnapshot @4711
  # and what refers to those
  heaplab snapshot retainers a.heapsnapshot Session --depth 4
  heaplab snapshot retainers a.heapsnapshot @4711 --json | \\
      jq '.retainers[].from.id'

A line reads: the object, and by what reference it holds the one above. The
order is DevTools': by distance from the roots, so that the first is on a
shortest path.")]
pub struct Args {
    #[command(flatten)]
    object: OfObject,
    /// How far to follow, at most 100
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    depth: u8,
    /// Referrers to show of each object; 0: all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let top = if args.top == 0 { usize::MAX } else { args.top };
    args.object.answer("heaplab-snapshot-retainers", &Holders { depth: args.depth.into(), top })
}

/// What refers to the object.
struct Holders {
    depth: usize,
    top: usize,
}

impl Holders {
    fn walk<'w, 's, 'a>(&self, analysis: &'w Analysis<'s, 'a>) -> Walk<'w, 's, 'a> {
        Walk { analysis, retainers: Retainers::of(&analysis.snapshot().graph), top: self.top }
    }
}

impl Says for Holders {
    fn text(&self, analysis: &Analysis, node: Node) -> String {
        let mut text = "\nHeld by:\n".to_owned();
        self.walk(analysis).text(node, self.depth, &mut vec![node], &mut text);
        text
    }

    fn json(&self, analysis: &Analysis, node: Node) -> Map<String, Value> {
        let walk = self.walk(analysis);
        Map::from_iter([
            ("total".to_owned(), json!(walk.retainers.of_node(node).len())),
            ("retainers".to_owned(), walk.json(node, self.depth, &mut vec![node]).into()),
        ])
    }
}

/// Follows references backwards.
struct Walk<'w, 's, 'a> {
    analysis: &'w Analysis<'s, 'a>,
    retainers: Retainers,
    top: usize,
}

impl Walk<'_, '_, '_> {
    fn sorted(&self, node: Node) -> Vec<(Edge, Node)> {
        let mut sorted = self.analysis.retainers(&self.retainers, node);
        self.analysis.sort_by_node_name(&mut sorted);
        sorted.into_iter().map(|retaining| (retaining.edge, retaining.from)).collect()
    }

    fn text(&self, node: Node, depth: usize, above: &mut Vec<Node>, out: &mut String) {
        let sorted = self.sorted(node);
        let columns = terminal::columns();
        let indent = "  ".repeat(above.len().min(columns / 4));
        for (edge, source) in sorted.iter().take(self.top) {
            let again = if above.contains(source) { "  (again)" } else { "" };
            let before = format!("{:>4} {indent}", distance(self.analysis.distance(*source)));
            let room = columns - before.len();
            let (from, by) = (label_within(self.analysis, *source, room), step(self.analysis, *edge) + again);
            if from.chars().count() + 1 + by.chars().count() <= room {
                let _ = writeln!(out, "{before}{from} {by}");
            } else {
                let _ = writeln!(out, "{before}{from}\n     {indent}    {}", cut(&by, room - 4));
            }
            if depth > 1 && again.is_empty() {
                above.push(*source);
                self.text(*source, depth - 1, above, out);
                above.pop();
            }
        }
        if sorted.is_empty() {
            let _ = writeln!(out, "     {indent}nothing");
        }
        if let Some(more) = sorted.len().checked_sub(self.top).filter(|more| *more > 0) {
            let _ = writeln!(out, "     {indent}... and {} more", number(more as u64));
        }
    }

    fn json(&self, node: Node, depth: usize, above: &mut Vec<Node>) -> Vec<Value> {
        let mut rows = Vec::new();
        for (edge, source) in self.sorted(node).into_iter().take(self.top) {
            let mut row = json!({"edge": edge_json(self.analysis, edge), "from": node_json(self.analysis, source)});
            if depth > 1 && !above.contains(&source) {
                above.push(source);
                row["retainers"] = self.json(source, depth - 1, above).into();
                above.pop();
            }
            rows.push(row);
        }
        rows
    }
}
