//! Retained sizes as areas: an object's dominated objects and theirs.

use super::parameters::{Asked, Problem};
use super::rows;
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::Analysis;
use heaplab_text::words::{bytes, plural};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Objects of a level that have an area of their own; the others share one.
const AREAS: usize = 40;

/// The object `node`, its children in the dominator tree, and their children.
pub(super) fn treemap(analysis: &Analysis, asked: &Asked) -> Result<Value, Problem> {
    let node = asked.node(analysis)?;
    let first = dominated(analysis, &[node]).remove(&node).unwrap_or_default();
    let shown: Vec<Node> = first.largest.clone();
    let mut second = dominated(analysis, &shown);
    let mut area = rows::object(analysis, node);
    area["bytes"] = analysis.retained_size(node).into();
    area["within"] = first
        .areas(
            |child| second.remove(&child).unwrap_or_default().areas(|_| Vec::new(), analysis),
            analysis,
        )
        .into();
    let above = analysis.dominator_chain(node);
    area["above"] = above[1..]
        .iter()
        .rev()
        .map(|node| rows::object(analysis, *node))
        .collect::<Vec<_>>()
        .into();
    Ok(area)
}

/// The children of one object in the dominator tree.
#[derive(Default)]
struct Dominated {
    /// Those that retain most, the largest first.
    largest: Vec<Node>,
    rest: u64,
    rest_bytes: u64,
}

impl Dominated {
    fn areas(self, mut within: impl FnMut(Node) -> Vec<Value>, analysis: &Analysis) -> Vec<Value> {
        let area = |node: &Node| {
            let mut area = rows::object(analysis, *node);
            area["bytes"] = analysis.retained_size(*node).into();
            area["within"] = within(*node).into();
            area
        };
        let mut areas: Vec<Value> = self.largest.iter().map(area).collect();
        if self.rest_bytes > 0 {
            let label =
                format!("{} with {}", plural(self.rest, "more object"), bytes(self.rest_bytes));
            areas.push(json!({"label": label, "bytes": self.rest_bytes, "within": []}));
        }
        areas
    }
}

/// Objects that each of some objects dominates directly: one pass over the heap.
fn dominated(analysis: &Analysis, nodes: &[Node]) -> BTreeMap<Node, Dominated> {
    let graph = &analysis.snapshot().graph;
    let places: BTreeMap<Node, usize> = nodes.iter().copied().zip(0..).collect();
    let mut found: Vec<Vec<Node>> = vec![Vec::new(); nodes.len()];
    for node in graph.nodes() {
        let above = analysis.dominator(node);
        if above != node
            && let Some(place) = places.get(&above)
        {
            found[*place].push(node);
        }
    }
    let kept = |mut children: Vec<Node>| {
        let count = children.len();
        if count > AREAS {
            let size = |node: &Node| Reverse(analysis.retained_size(*node));
            children.select_nth_unstable_by_key(AREAS, size);
        }
        let rest = children.split_off(count.min(AREAS));
        children.sort_by_key(|node| Reverse(analysis.retained_size(*node)));
        let rest_bytes = rest.iter().map(|node| analysis.retained_size(*node)).sum();
        Dominated { largest: children, rest: rest.len() as u64, rest_bytes }
    };
    nodes.iter().copied().zip(found.into_iter().map(kept)).collect()
}
