//! Strings that are on the heap more than once. Source: `getDuplicateStrings`,
//! `createDuplicatedStringsFilter`.
//!
//! Concatenated strings that were flattened are left out (one of their parts is empty: the other is
//! the same string), and strings that encode numbers of the snapshot itself (no size). Strings that
//! the writer cut are the same only if their lengths and hashes are too, where the file has them.

use super::Analysis;
use super::concatenated::NAME_UNITS;
use super::same_names::SameNames;
use crate::graph::Node;
use crate::meta::{EdgeType, NodeType};
use crate::strings::units;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// Nodes that hold the same string; [`Analysis::name_bytes`] of any of them is the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateStrings {
    /// At least two, in the file's order.
    pub nodes: Vec<Node>,
    /// Their own sizes together, bytes.
    pub self_size: u64,
    /// Their retained sizes together, bytes.
    pub retained_size: u64,
    /// Whether the file says that its writer cut the string.
    pub truncated: bool,
    /// Whether only the beginnings were compared: the string is cut, or may be, and the file lacks
    /// the lengths and hashes of the whole strings. DevTools takes such strings for equal.
    pub beginnings_alone: bool,
}

impl DuplicateStrings {
    /// Bytes that one copy instead of many would save; an upper bound if only the beginnings are
    /// known.
    pub fn saving_bytes(&self) -> u64 {
        self.self_size - self.self_size / self.nodes.len().max(1) as u64
    }
}

/// Length and hash of a string that the writer cut.
type Cut = Option<(Option<i64>, Option<i64>)>;

impl Analysis<'_, '_> {
    /// Strings held by several nodes, those that retain most first.
    pub fn duplicate_strings(&self) -> &[DuplicateStrings] {
        self.duplicates.get_or_init(|| self.find_duplicate_strings())
    }

    fn find_duplicate_strings(&self) -> Vec<DuplicateStrings> {
        let graph = &self.snapshot.graph;
        let mut names = SameNames::new(self);
        let mut numbered: Vec<(Node, u32)> = Vec::new();
        let mut counts: Vec<u32> = Vec::new();
        for node in graph.nodes() {
            let of_type =
                matches!(graph.node_type(node), NodeType::String | NodeType::ConcatenatedString);
            if !of_type || self.self_size(node) == 0 {
                continue;
            }
            let number = names.number(node);
            counts.resize(counts.len().max(number as usize + 1), 0);
            counts[number as usize] += 1;
            numbered.push((node, number));
        }
        drop(names);
        // Most names are of one node, which is no duplicate whatever else it is.
        numbered.retain(|(_, number)| counts[*number as usize] > 1);
        let mut groups: Vec<(Node, Cut, Vec<Node>)> = Vec::new();
        let mut by_name: HashMap<(u32, Cut), u32> = HashMap::new();
        for (node, number) in numbered {
            if self.is_flat(node) {
                continue;
            }
            let cut = self
                .is_truncated(node)
                .then(|| (self.integer(node, b"length"), self.integer(node, b"hash")));
            match by_name.entry((number, cut)) {
                Entry::Occupied(group) => groups[*group.get() as usize].2.push(node),
                Entry::Vacant(new) => {
                    new.insert(groups.len() as u32);
                    groups.push((node, cut, Vec::new()));
                }
            }
        }
        drop(by_name);
        let found = groups.into_iter().filter(|(_, _, others)| !others.is_empty());
        let mut found: Vec<DuplicateStrings> =
            found.map(|(first, cut, others)| self.duplicates_of(first, cut, others)).collect();
        found.sort_by_key(|group| {
            (std::cmp::Reverse(group.retained_size), group.truncated, group.nodes[0])
        });
        found
    }

    fn duplicates_of(&self, first: Node, cut: Cut, others: Vec<Node>) -> DuplicateStrings {
        let nodes: Vec<Node> = std::iter::once(first).chain(others).collect();
        DuplicateStrings {
            self_size: nodes.iter().map(|node| self.self_size(*node)).sum(),
            retained_size: nodes.iter().map(|node| self.retained_size(*node)).sum(),
            truncated: cut.is_some(),
            beginnings_alone: cut.map_or_else(
                || nodes.iter().any(|node| self.may_be_cut(*node)),
                |whole| !matches!(whole, (Some(_), Some(_))),
            ),
            nodes,
        }
    }

    /// Whether a string may be cut although the file does not say so: it has as many units as V8
    /// leaves, or is the beginning of a concatenated string. A writer that keeps longer strings
    /// evidently cuts none.
    pub fn may_be_cut(&self, node: Node) -> bool {
        let units = units(&self.name_bytes(node));
        match self.snapshot.graph.node_type(node) {
            NodeType::ConcatenatedString => units >= NAME_UNITS,
            _ => units == NAME_UNITS && self.encoded(node, b"truncated", b"bool").is_none(),
        }
    }

    /// Whether a concatenated string has an empty part.
    fn is_flat(&self, node: Node) -> bool {
        let graph = &self.snapshot.graph;
        graph.node_type(node) == NodeType::ConcatenatedString
            && graph.edges(node).any(|edge| {
                graph.edge_type(edge) == EdgeType::Internal
                    && matches!(&*self.names.bytes(graph.edge_name(edge)), b"first" | b"second")
                    && self.has_empty_name(graph.target(edge))
            })
    }

    /// The target of the first internal edge of that name.
    pub(crate) fn internal(&self, node: Node, name: &[u8]) -> Option<Node> {
        let graph = &self.snapshot.graph;
        let mut edges =
            graph.edges(node).filter(|edge| graph.edge_type(*edge) == EdgeType::Internal);
        edges
            .find(|edge| *self.names.bytes(graph.edge_name(*edge)) == *name)
            .map(|edge| graph.target(edge))
    }

    /// A number that the snapshot encodes as a node with a string.
    fn encoded(&self, node: Node, name: &[u8], kind: &[u8]) -> Option<Vec<u8>> {
        let number = self.internal(node, name)?;
        let fits = self.snapshot.graph.node_type(number) == NodeType::Number
            && *self.raw_name(number) == *kind;
        fits.then(|| self.internal(number, b"value").map(|value| self.raw_name(value).into_owned()))
            .flatten()
    }

    fn integer(&self, node: Node, name: &[u8]) -> Option<i64> {
        super::reach::leading_integer(&self.encoded(node, name, b"int")?)
    }

    fn is_truncated(&self, node: Node) -> bool {
        self.encoded(node, b"truncated", b"bool").is_some_and(|value| value == b"true")
    }
}
