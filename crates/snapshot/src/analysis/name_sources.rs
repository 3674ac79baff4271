//! The source of a node's name. Nodes with the same source have the same name, so names can be
//! compared without building them.
//!
//! Names are long, and many nodes share one: a string of the file, a concatenated string's
//! beginning, the properties of a plain object. A caller that wants the names of many nodes builds
//! one name a source, not one a node.

use super::Analysis;
use super::shapes::{mix, properties};
use crate::graph::Node;
use crate::meta::NodeType;
use crate::strings::StringId;
use hashbrown::HashTable;
use std::borrow::Cow;

/// What decides a name. Different sources may still make the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Source {
    /// A string of the file, or a string that the analysis added.
    String(StringId),
    /// The deepest concatenated string with this name.
    Rope(Node),
    /// The properties of a plain object in their order: the number of the list in [`Sources`].
    Properties(u32),
}

/// The lists of properties that were met.
pub(super) struct Sources<'n, 's, 'a> {
    pub(super) analysis: &'n Analysis<'s, 'a>,
    /// Of each list the first object that has it, and the list's hash.
    examples: Vec<(Node, u64)>,
    table: HashTable<u32>,
}

impl<'n, 's, 'a> Sources<'n, 's, 'a> {
    pub fn new(analysis: &'n Analysis<'s, 'a>) -> Self {
        Sources { analysis, examples: Vec::new(), table: HashTable::new() }
    }

    /// The source of the node's name.
    pub fn of_node(&mut self, node: Node) -> Source {
        let analysis = self.analysis;
        if analysis.has_plain_objects_name(node) {
            return Source::Properties(self.list(node));
        }
        let graph = &analysis.snapshot.graph;
        if graph.node_type(node) != NodeType::ConcatenatedString {
            return Source::String(analysis.name_id(node));
        }
        match analysis.concatenated().same(node) {
            rope if graph.node_type(rope) == NodeType::ConcatenatedString => Source::Rope(rope),
            leaf => Source::String(analysis.name_id(leaf)),
        }
    }

    fn list(&mut self, node: Node) -> u32 {
        let Sources { analysis, examples, table } = self;
        let graph = &analysis.snapshot.graph;
        let hash = properties(graph, node).fold(0, mix);
        let same = |list: &u32| {
            let (example, known) = examples[*list as usize];
            known == hash && properties(graph, example).eq(properties(graph, node))
        };
        if let Some(list) = table.find(hash, same) {
            return *list;
        }
        let list = examples.len() as u32;
        examples.push((node, hash));
        table.insert_unique(hash, list, |list| examples[*list as usize].1);
        list
    }

    /// The name from this source, in WTF-8.
    pub fn name(&self, source: Source) -> Cow<'n, [u8]> {
        let analysis = self.analysis;
        match source {
            Source::String(id) => analysis.names.bytes(id),
            Source::Rope(rope) => analysis.name_bytes(rope),
            Source::Properties(list) => analysis.name_bytes(self.examples[list as usize].0),
        }
    }
}
