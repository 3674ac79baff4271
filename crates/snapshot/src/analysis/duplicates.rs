//! Strings that are on the heap more than once. Source: `getDuplicateStrings`, `createDuplicatedStringsFilter`.
//!
//! Concatenated strings that were flattened are left out (one of their parts is empty: the other is the same string), and strings that encode numbers of the
//! snapshot itself (no size). Strings that the writer cut are the same only if their lengths and hashes are too, where the file has them.

use super::Analysis;
use crate::graph::Node;
use crate::meta::{EdgeType, NodeType};
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// Nodes that hold the same string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateStrings {
    /// The string, in WTF-8.
    pub value: Vec<u8>,
    /// At least two, in the file's order.
    pub nodes: Vec<Node>,
    /// Their own sizes together, bytes.
    pub self_size: u64,
    /// Their retained sizes together, bytes.
    pub retained_size: u64,
    /// Whether the writer cut the string.
    pub truncated: bool,
}

impl DuplicateStrings {
    /// What one copy instead of many would save, bytes.
    pub fn saving_bytes(&self) -> u64 {
        self.self_size - self.self_size / self.nodes.len().max(1) as u64
    }
}

/// Nodes of one string while they are found.
struct Group {
    first: Node,
    others: Vec<Node>,
    hash: u64,
    /// Length and hash of a string that the writer cut.
    cut: Option<(Option<i64>, Option<i64>)>,
}

impl Analysis<'_, '_> {
    /// Strings held by several nodes, those that retain most first.
    pub fn duplicate_strings(&self) -> Vec<DuplicateStrings> {
        let graph = &self.snapshot.graph;
        // Most strings have one node, for which nothing is kept but its number: strings are compared where they are.
        let mut table: HashTable<u32> = HashTable::new();
        let mut groups: Vec<Group> = Vec::new();
        for node in graph.nodes() {
            let node_type = graph.node_type(node);
            let of_type = matches!(node_type, NodeType::String | NodeType::ConcatenatedString);
            if !of_type || self.self_size(node) == 0 || self.is_flat(node) {
                continue;
            }
            let cut = self.is_truncated(node).then(|| (self.integer(node, b"length"), self.integer(node, b"hash")));
            let name = self.name_bytes(node);
            let hash = xxh3_64(&name);
            let same = |group: &u32| {
                let group = &groups[*group as usize];
                group.hash == hash && group.cut == cut && self.name_bytes(group.first) == name
            };
            match table.find(hash, same) {
                Some(group) => groups[*group as usize].others.push(node),
                None => {
                    let new = groups.len() as u32;
                    groups.push(Group { first: node, others: Vec::new(), hash, cut });
                    table.insert_unique(hash, new, |group| groups[*group as usize].hash);
                }
            }
        }
        drop(table);
        let found = groups.into_iter().filter(|group| !group.others.is_empty()).map(|group| self.duplicates_of(group));
        let mut found: Vec<DuplicateStrings> = found.collect();
        found.sort_by_key(|group| (std::cmp::Reverse(group.retained_size), group.truncated, group.nodes[0]));
        found
    }

    fn duplicates_of(&self, group: Group) -> DuplicateStrings {
        let nodes: Vec<Node> = std::iter::once(group.first).chain(group.others).collect();
        DuplicateStrings {
            value: self.name_bytes(group.first).into_owned(),
            self_size: nodes.iter().map(|node| self.self_size(*node)).sum(),
            retained_size: nodes.iter().map(|node| self.retained_size(*node)).sum(),
            truncated: group.cut.is_some(),
            nodes,
        }
    }

    /// Whether a concatenated string has an empty part.
    fn is_flat(&self, node: Node) -> bool {
        let graph = &self.snapshot.graph;
        graph.node_type(node) == NodeType::ConcatenatedString
            && graph.edges(node).any(|edge| {
                graph.edge_type(edge) == EdgeType::Internal
                    && matches!(&*self.names.bytes(graph.edge_name(edge)), b"first" | b"second")
                    && self.name_bytes(graph.target(edge)).is_empty()
            })
    }

    /// The target of the first internal edge of that name.
    pub(crate) fn internal(&self, node: Node, name: &[u8]) -> Option<Node> {
        let graph = &self.snapshot.graph;
        let mut edges = graph.edges(node).filter(|edge| graph.edge_type(*edge) == EdgeType::Internal);
        edges.find(|edge| *self.names.bytes(graph.edge_name(*edge)) == *name).map(|edge| graph.target(edge))
    }

    /// A number that the snapshot encodes as a node with a string.
    fn encoded(&self, node: Node, name: &[u8], kind: &[u8]) -> Option<Vec<u8>> {
        let number = self.internal(node, name)?;
        let fits = self.snapshot.graph.node_type(number) == NodeType::Number && *self.raw_name(number) == *kind;
        fits.then(|| self.internal(number, b"value").map(|value| self.raw_name(value).into_owned())).flatten()
    }

    fn integer(&self, node: Node, name: &[u8]) -> Option<i64> {
        super::reach::leading_integer(&self.encoded(node, name, b"int")?)
    }

    fn is_truncated(&self, node: Node) -> bool {
        self.encoded(node, b"truncated", b"bool").is_some_and(|value| value == b"true")
    }
}
