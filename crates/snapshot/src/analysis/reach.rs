//! Reachability: objects of the page, and distances from the roots that a user knows. Source:
//! DevTools' `markPageOwnedNodes`, `calculateDistances` and its filter.
//!
//! Both are walks over all edges. The order of the breadth-first one matters: of a WeakMap's pair
//! of references the first that is met is skipped, so that a value's distance comes from the
//! farther of map and key.

use super::ephemerons::Ephemerons;
use super::names::{Known, Names};
use crate::columns::{Bits, Pool};
use crate::graph::{Edge, Graph, Node};
use crate::meta::{EdgeType, NodeType};
use hashbrown::HashSet;

/// The distance of what nothing reaches.
pub const NO_DISTANCE: i32 = -5;
const UNREACHED: u32 = NO_DISTANCE as u32;
/// The root's distance, from which objects that no user root reaches are counted.
pub const BASE_SYSTEM_DISTANCE: i32 = 100_000_000;

/// Whether the node is a root that a user knows: no synthetic one but the group of documents.
pub(crate) fn is_user_root(graph: &Graph, names: &Names, node: Node) -> bool {
    graph.node_type(node) != NodeType::Synthetic || is_document_root(graph, names, node)
}

fn is_document_root(graph: &Graph, names: &Names, node: Node) -> bool {
    graph.node_type(node) == NodeType::Synthetic
        && names.known(graph.node_name(node)) == Known::DocumentDomTrees
}

/// The objects of the page: those that the root's shortcuts (global objects) and documents reach
/// through strong references.
pub(crate) fn page_objects(graph: &Graph, names: &Names) -> Bits {
    let mut page = Bits::new(graph.node_count());
    let mut stack = Vec::new();
    for edge in graph.edges(graph.root()) {
        let target = graph.target(edge);
        let entry = match graph.edge_type(edge) {
            EdgeType::Element => is_document_root(graph, names, target),
            edge_type => edge_type == EdgeType::Shortcut,
        };
        if entry && !page.replace(target) {
            stack.push(target);
        }
    }
    while let Some(node) = stack.pop() {
        let edges = graph.edges(node);
        let edges = edges.start as usize..edges.end as usize;
        for (target, edge_type) in
            graph.edge_targets[edges.clone()].iter().zip(&graph.edge_types[edges])
        {
            if *edge_type != EdgeType::Weak.0 && !page.replace(*target) {
                stack.push(*target);
            }
        }
    }
    page
}

/// Distances of all nodes, as the bits of an `i32`: 1 for user roots, one more a reference; then
/// the rest from the root.
pub(crate) fn distances(
    graph: &Graph,
    names: &Names,
    ephemerons: &Ephemerons,
    pool: &mut Pool,
) -> Vec<u32> {
    let mut distances = pool.take(graph.node_count());
    distances.fill(UNREACHED);
    let mut queue = pool.take_for_a_while(graph.node_count());
    queue.clear();
    let mut walk = Walk { graph, names, ephemerons, distances, queue, pending: HashSet::new() };
    for edge in graph.edges(graph.root()) {
        let target = graph.target(edge);
        if is_user_root(graph, names, target) {
            // A root that two edges name is walked twice, as in DevTools: it can meet the second
            // half of a pair then.
            walk.distances[target as usize] = 1;
            walk.queue.push(target);
        }
    }
    walk.run();
    walk.distances[graph.root() as usize] =
        if walk.queue.is_empty() { 0 } else { BASE_SYSTEM_DISTANCE as u32 };
    walk.queue.clear();
    walk.queue.push(graph.root());
    walk.run();
    pool.give(walk.queue);
    walk.distances
}

/// A breadth-first walk.
struct Walk<'w, 's, 'a> {
    graph: &'w Graph<'w>,
    names: &'w Names<'s, 'a>,
    ephemerons: &'w Ephemerons,
    distances: Vec<u32>,
    queue: Vec<Node>,
    /// Pairs of which one half was met.
    pending: HashSet<u32>,
}

impl Walk<'_, '_, '_> {
    fn run(&mut self) {
        let mut next = 0;
        while let Some(&node) = self.queue.get(next) {
            next += 1;
            let distance = self.distances[node as usize].wrapping_add(1);
            let special = self.special(node);
            let edges = self.graph.edges(node);
            for edge in edges {
                let target = self.graph.edge_targets[edge as usize];
                if self.distances[target as usize] != UNREACHED {
                    continue;
                }
                let edge_type = self.graph.edge_type(edge);
                if edge_type == EdgeType::Weak || !self.passes(special, edge, edge_type) {
                    continue;
                }
                self.distances[target as usize] = distance;
                self.queue.push(target);
            }
        }
    }

    /// Whether some of the node's references do not count, and by which rule.
    #[inline]
    fn special(&self, node: Node) -> Known {
        let wanted = match self.graph.node_type(node) {
            NodeType::Hidden => Known::NativeContext,
            NodeType::Array => Known::MapDescriptors,
            _ => return Known::Other,
        };
        if self.names.known(self.graph.node_name(node)) == wanted { wanted } else { Known::Other }
    }

    #[inline]
    fn passes(&mut self, special: Known, edge: Edge, edge_type: EdgeType) -> bool {
        if special != Known::Other {
            let name = self.graph.edge_name(edge);
            if special == Known::MapDescriptors {
                // Slots 3i + 4 hold descriptors. Maps share them although not all entries are valid
                // for each map.
                let index = if edge_type.is_indexed() {
                    Some(i64::from(name))
                } else {
                    leading_integer(&self.names.bytes(name))
                };
                return index.is_none_or(|index| index < 2 || index % 3 != 1);
            }
            if !edge_type.is_indexed() && self.names.known(name) == Known::SloppyFunctionMap {
                return false;
            }
        }
        if edge_type == EdgeType::Internal
            && let Some(pair) = self.ephemerons.pair(edge)
            && !self.pending.remove(&pair)
        {
            self.pending.insert(pair);
            return false;
        }
        true
    }
}

/// What `parseInt` makes of a name.
pub(crate) fn leading_integer(name: &[u8]) -> Option<i64> {
    let text = name.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = digits[..count].iter().fold(0i64, |value, digit| {
        value.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
    });
    (count > 0).then_some(if negative { -value } else { value })
}
