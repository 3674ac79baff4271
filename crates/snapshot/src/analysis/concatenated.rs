//! Concatenated strings: the beginning of each, without a walk through all its parts. Source:
//! `consStringName`.
//!
//! The name of a concatenated string is the text of its leaves, the first first, until there are
//! 1024 units. `s += x` in a loop makes a chain in which the first leaf of the N-th string lies N
//! steps below it, so that naming each string of the chain takes steps with the square of its
//! length (in DevTools too). But where a first part alone fills the name, the whole has its part's
//! name, and where one part is empty, the other's. So each string is given the deepest one of the
//! same name ([`Rope::same`]), from the parts up; from there on every step adds to the name, and no
//! name takes more than a few times 1024 steps.

use super::Analysis;
use crate::graph::Node;
use crate::meta::{EdgeType, NodeType};
use crate::strings::units;
use hashbrown::HashMap;

/// A concatenated string is put together up to here, in 16-bit units.
pub(super) const NAME_UNITS: usize = 1024;
/// A unit of a string takes at most so many bytes in the file.
const RAW_BYTES_A_UNIT: usize = 6;
/// Most steps for one name. A name has at most 1024 leaves, below as many inner strings, on a path
/// of as many more. The limit stops at cycles, which only crafted files have.
const STEPS_MAX: usize = 8 * NAME_UNITS;

/// A concatenated string.
#[derive(Clone, Copy, Debug)]
struct Rope {
    first: Node,
    second: Node,
    /// The deepest string with the same name.
    same: Node,
    /// Units of the name, 1024 for all that have more.
    units: u16,
}

impl Rope {
    /// Of two parts and their units.
    fn of(
        node: Node,
        (first, first_units): (Node, u16),
        (second, second_units): (Node, u16),
    ) -> Rope {
        let same = match (first_units, second_units) {
            (first_units, _) if usize::from(first_units) == NAME_UNITS => first,
            (_, 0) => first,
            (0, _) => second,
            _ => node,
        };
        Rope { first, second, same, units: (first_units + second_units).min(NAME_UNITS as u16) }
    }
}

/// All concatenated strings of a heap.
#[derive(Debug, Default)]
pub(super) struct Concatenated {
    ropes: HashMap<Node, Rope>,
}

impl Concatenated {
    pub fn of(analysis: &Analysis) -> Concatenated {
        let graph = &analysis.snapshot.graph;
        let mut building = Building { analysis, ropes: HashMap::new(), leaves: HashMap::new() };
        for node in
            graph.nodes().filter(|node| graph.node_type(*node) == NodeType::ConcatenatedString)
        {
            building.add(node);
        }
        Concatenated { ropes: building.ropes }
    }

    /// The deepest string with the same name as `node`; `node` need not be concatenated.
    pub fn same(&self, node: Node) -> Node {
        self.ropes.get(&node).map_or(node, |rope| rope.same)
    }

    /// Whether a concatenated string is empty.
    pub fn is_empty(&self, node: Node) -> bool {
        self.ropes.get(&node).is_some_and(|rope| rope.units == 0)
    }

    /// Passes the leaves of a name to `with`, which returns the units it has taken. Returns the
    /// number of steps.
    pub fn leaves(&self, node: Node, mut with: impl FnMut(Node) -> usize) -> usize {
        let mut stack = vec![self.same(node)];
        let (mut length, mut steps) = (0, 0);
        while length < NAME_UNITS && steps < STEPS_MAX {
            let Some(node) = stack.pop() else { break };
            steps += 1;
            match self.ropes.get(&node) {
                Some(rope) => stack.extend([rope.second, rope.first]),
                None => length += with(node),
            }
        }
        steps
    }
}

struct Building<'b, 's, 'a> {
    analysis: &'b Analysis<'s, 'a>,
    ropes: HashMap<Node, Rope>,
    /// Units of the strings that are parts, 1024 for all that have more.
    leaves: HashMap<Node, u16>,
}

impl Building<'_, '_, '_> {
    /// Adds a string behind its parts. A string met again below itself counts as full: an engine's
    /// strings have no cycles, and a name around a cycle has no end.
    fn add(&mut self, node: Node) {
        let graph = &self.analysis.snapshot.graph;
        let mut stack = vec![(node, false)];
        while let Some((node, has_parts)) = stack.pop() {
            if has_parts {
                self.finish(node);
            } else if !self.ropes.contains_key(&node) {
                let (first, second) = self.parts(node);
                self.ropes
                    .insert(node, Rope { first, second, same: node, units: NAME_UNITS as u16 });
                stack.push((node, true));
                let deeper = |part: &Node| graph.node_type(*part) == NodeType::ConcatenatedString;
                stack.extend([first, second].into_iter().filter(deeper).map(|part| (part, false)));
            }
        }
    }

    fn finish(&mut self, node: Node) {
        let Some(rope) = self.ropes.get(&node).copied() else { return };
        let (first, second) = (self.part(rope.first), self.part(rope.second));
        self.ropes.insert(node, Rope::of(node, first, second));
    }

    /// The deepest string of the part's name, and its units.
    fn part(&mut self, part: Node) -> (Node, u16) {
        if let Some(rope) = self.ropes.get(&part) {
            return (rope.same, rope.units);
        }
        let analysis = self.analysis;
        let count = || match analysis.names.raw_len(analysis.name_id(part)) {
            long if long >= NAME_UNITS * RAW_BYTES_A_UNIT => NAME_UNITS,
            _ => units(&analysis.raw_name(part)).min(NAME_UNITS),
        };
        (part, *self.leaves.entry(part).or_insert_with(|| count() as u16))
    }

    /// The targets of the first internal edges of these names; the root for a missing edge, as in
    /// DevTools.
    fn parts(&self, node: Node) -> (Node, Node) {
        let (graph, names) = (&self.analysis.snapshot.graph, &self.analysis.names);
        let (mut first, mut second) = (None, None);
        for edge in graph.edges(node).filter(|edge| graph.edge_type(*edge) == EdgeType::Internal) {
            match &*names.bytes(graph.edge_name(edge)) {
                b"first" => first = first.or(Some(graph.target(edge))),
                b"second" => second = second.or(Some(graph.target(edge))),
                _ => {}
            }
        }
        (first.unwrap_or(0), second.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of strings below `links`, each the one before and a letter, whichever stands first.
    /// Node 0 is the letter.
    fn steps(links: u32, grows_at_end: bool) -> (usize, usize) {
        let mut ropes = HashMap::new();
        let part = |node: Node, units: u16| (node, units);
        let mut below = part(0, 1);
        for node in 1..=links {
            let ((first, first_units), (second, second_units)) =
                if grows_at_end { (below, part(0, 1)) } else { (part(0, 1), below) };
            let rope = Rope::of(node, (first, first_units), (second, second_units));
            ropes.insert(node, rope);
            below = part(rope.same, rope.units);
        }
        let all = Concatenated { ropes };
        let most = (1..=links).step_by(97).map(|node| all.leaves(node, |_| 1)).max().unwrap_or(0);
        let different: hashbrown::HashSet<Node> = (1..=links).map(|node| all.same(node)).collect();
        (most, different.len())
    }

    #[test]
    fn no_name_takes_more_steps_in_a_longer_chain() {
        let (most, different) = steps(30_000, true);
        assert!(most <= 3 * NAME_UNITS && different == NAME_UNITS - 1, "{most} {different}");
        assert_eq!(steps(120_000, true).1, different);
        assert!(steps(120_000, true).0 <= 3 * NAME_UNITS);
        // Here every string begins with another letter of its own: each is named, in as many steps.
        assert!(steps(5000, false).0 <= 3 * NAME_UNITS);
    }
}
