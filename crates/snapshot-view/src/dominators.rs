//! The dominator tree: an object's children die with the object.

use crate::rows::{label_within, node_json, share};
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::Analysis;
use heaplab_text::words::count as number;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::fmt::Write;

/// Column where an object's label begins, behind the bytes and their share.
const LABEL_COLUMN: usize = 19;

/// The dominators of a node, the nearest first.
fn chain(analysis: &Analysis, node: Node) -> Vec<Node> {
    let mut chain = Vec::new();
    let mut above = node;
    while analysis.dominator(above) != above {
        above = analysis.dominator(above);
        chain.push(above);
    }
    chain
}

/// Nodes grouped by dominator: the first index of each group, and all nodes.
fn children(analysis: &Analysis) -> (Vec<u32>, Vec<Node>) {
    let graph = &analysis.snapshot().graph;
    let mut first = vec![0_u32; graph.node_count() + 1];
    let dominated = || graph.nodes().filter(|node| analysis.dominator(*node) != *node);
    for node in dominated() {
        first[analysis.dominator(node) as usize] += 1;
    }
    let mut sum = 0;
    for slot in &mut first {
        sum += *slot;
        *slot = sum;
    }
    let mut children = vec![0; sum as usize];
    for node in dominated().rev() {
        let slot = &mut first[analysis.dominator(node) as usize];
        *slot -= 1;
        children[*slot as usize] = node;
    }
    (first, children)
}

/// The dominator tree, each object's children by retained bytes.
pub struct Tree<'t, 's, 'a> {
    analysis: &'t Analysis<'s, 'a>,
    children: (Vec<u32>, Vec<Node>),
    top: usize,
    least_bytes: u64,
}

impl<'t, 's, 'a> Tree<'t, 's, 'a> {
    /// A tree of at most `top` children of each object, without those that retain less than
    /// `least_bytes`.
    pub fn of(analysis: &'t Analysis<'s, 'a>, top: usize, least_bytes: u64) -> Tree<'t, 's, 'a> {
        Tree { analysis, children: children(analysis), top, least_bytes }
    }

    /// The dominators of `node`, `node` itself and its subtree as text, `columns` wide.
    pub fn lines(&self, node: Node, depth: usize, columns: usize) -> String {
        let analysis = self.analysis;
        let mut text = String::new();
        for node in chain(analysis, node).iter().rev().chain([&node]) {
            let retained = share(analysis.retained_size(*node), analysis.total_bytes());
            let label = label_within(analysis, *node, columns - LABEL_COLUMN);
            let _ = writeln!(text, "{retained:>17}  {label}");
        }
        self.text(node, depth, 1, columns, &mut text);
        text
    }

    /// The same as JSON.
    pub fn answer(&self, node: Node, depth: usize) -> Value {
        let above = chain(self.analysis, node);
        json!({
            "format": "heaplab-snapshot-dominators",
            "version": 1,
            "object": node_json(self.analysis, node),
            "dominators": above.iter().map(|node| node_json(self.analysis, *node)).collect::<Vec<_>>(),
            "dominated": self.json(node, depth),
        })
    }

    /// The children with the most retained bytes, and the count of all children.
    fn largest(&self, node: Node) -> (Vec<Node>, usize) {
        let (first, all) = &self.children;
        let mut children =
            all[first[node as usize] as usize..first[node as usize + 1] as usize].to_vec();
        children.sort_by_key(|child| Reverse(self.analysis.retained_size(*child)));
        let count = children.len();
        let small = children
            .partition_point(|child| self.analysis.retained_size(*child) >= self.least_bytes);
        // If all children are small, the largest one still gets a line.
        children.truncate(self.top.min(small.max(1)));
        (children, count)
    }

    fn text(&self, node: Node, depth: usize, level: usize, columns: usize, out: &mut String) {
        let (children, count) = self.largest(node);
        for child in &children {
            let retained = share(self.analysis.retained_size(*child), self.analysis.total_bytes());
            let label = label_within(
                self.analysis,
                *child,
                columns.saturating_sub(LABEL_COLUMN + 2 * level),
            );
            let _ = writeln!(out, "{retained:>17}  {}{label}", "  ".repeat(level));
            if level < depth {
                self.text(*child, depth, level + 1, columns, out);
            }
        }
        if children.len() < count {
            let _ = writeln!(
                out,
                "{:>17}  {}... and {} more",
                "",
                "  ".repeat(level),
                number((count - children.len()) as u64)
            );
        }
    }

    fn json(&self, node: Node, depth: usize) -> Vec<Value> {
        let row = |child: &Node| {
            let mut row = json!({"object": node_json(self.analysis, *child)});
            if depth > 1 {
                row["dominated"] = self.json(*child, depth - 1).into();
            }
            row
        };
        self.largest(node).0.iter().map(row).collect()
    }
}
