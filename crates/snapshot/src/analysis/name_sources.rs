//! The source of a node's name. Nodes with the same source have the same name, so names can be
//! compared without building them.
//!
//! Names are long, and many nodes share one: a string of the file, a concatenated string's
//! beginning, the properties of a plain object. A caller that wants the names of many nodes builds
//! one name a source, not one a node.

use super::Analysis;
use super::same_names::SameNames;
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
    /// A name itself, where all are numbered ([`Numbered`]).
    Number(u32),
}

/// A number for each name, kept for many questions.
#[derive(Debug)]
pub(crate) struct Numbered {
    /// By node.
    number_of: Vec<u32>,
    /// By number, a string with that name, or a node ([`Source::Rope`]).
    sources: Vec<Source>,
}

impl Numbered {
    pub fn of(analysis: &Analysis) -> Numbered {
        let mut names = SameNames::new(analysis);
        let mut sources = Vec::new();
        let number = |node| {
            let (number, source) = names.number_and_source(node);
            if number as usize == sources.len() {
                sources.push(match source {
                    Source::String(_) => source,
                    _ => Source::Rope(node),
                });
            }
            number
        };
        Numbered { number_of: analysis.snapshot.graph.nodes().map(number).collect(), sources }
    }

    /// The number of the node's name.
    #[inline]
    pub fn number(&self, node: Node) -> u32 {
        self.number_of[node as usize]
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.sources.len()
    }
}

/// The lists of properties that were met.
pub(super) struct Sources<'n, 's, 'a> {
    pub(super) analysis: &'n Analysis<'s, 'a>,
    numbered: Option<&'n Numbered>,
    /// Of each list the first object that has it, and the list's hash.
    examples: Vec<(Node, u64)>,
    table: HashTable<u32>,
}

impl<'n, 's, 'a> Sources<'n, 's, 'a> {
    pub fn new(analysis: &'n Analysis<'s, 'a>) -> Self {
        let numbered = analysis.numbered.get();
        Sources { analysis, numbered, examples: Vec::new(), table: HashTable::new() }
    }

    /// Numbers of strings and of names are below this.
    pub fn len(&self) -> usize {
        self.numbered.map_or(self.analysis.names.len(), Numbered::len)
    }

    /// The source of the node's name.
    #[inline]
    pub fn of_node(&mut self, node: Node) -> Source {
        if let Some(numbered) = self.numbered {
            return Source::Number(numbered.number(node));
        }
        let analysis = self.analysis;
        let graph = &analysis.snapshot.graph;
        match graph.node_type(node) {
            NodeType::Object if analysis.has_plain_objects_name(node) => {
                Source::Properties(self.list(node))
            }
            NodeType::ConcatenatedString => match analysis.concatenated().same(node) {
                rope if graph.node_type(rope) == NodeType::ConcatenatedString => Source::Rope(rope),
                leaf => Source::String(analysis.name_id(leaf)),
            },
            _ => Source::String(analysis.name_id(node)),
        }
    }

    fn list(&mut self, node: Node) -> u32 {
        let Sources { analysis, examples, table, .. } = self;
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
            Source::Number(number) => {
                let source = self.numbered.map(|numbered| numbered.sources[number as usize]);
                source.map_or(Cow::Borrowed(&[]), |source| self.name(source))
            }
        }
    }
}
