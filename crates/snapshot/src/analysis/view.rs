//! A node's name as DevTools shows it: concatenated strings are joined, plain objects show their
//! properties. Source: `JSHeapSnapshotNode.name`, `plainObjectName`, `JSHeapSnapshotEdge.name`.

use super::Analysis;
use super::concatenated::Concatenated;
use super::names::Known;
use super::reach::leading_integer;
use super::shapes::shown_property;
use crate::graph::{Edge, Node};
use crate::meta::{EdgeType, NodeType};
use crate::strings::{StringId, to_text, units};
use std::borrow::Cow;

/// A plain object's name takes another property while it stays within, in 16-bit units.
const OBJECT_UNITS_MAX: usize = 100;

impl Analysis<'_, '_> {
    /// The node's name in the file, with "Detached " before that of a detached node; WTF-8.
    pub fn raw_name(&self, node: Node) -> Cow<'_, [u8]> {
        self.names.bytes(self.name_id(node))
    }

    /// The number of the string that [`Analysis::raw_name`] shows.
    #[inline]
    pub(super) fn name_id(&self, node: Node) -> StringId {
        self.attachment.renamed.get(&node).copied().unwrap_or(self.snapshot.graph.node_name(node))
    }

    /// The node's name as DevTools shows it.
    pub fn name(&self, node: Node) -> Cow<'_, str> {
        to_text(self.name_bytes(node))
    }

    /// The same in WTF-8.
    pub fn name_bytes(&self, node: Node) -> Cow<'_, [u8]> {
        match self.snapshot.graph.node_type(node) {
            NodeType::ConcatenatedString => Cow::Owned(self.concatenated_name(node)),
            NodeType::Object if self.has_plain_objects_name(node) => {
                Cow::Owned(self.plain_object(node))
            }
            _ => self.raw_name(node),
        }
    }

    /// An edge's name as DevTools shows it: an index or a string.
    pub fn edge_name(&self, edge: Edge) -> Cow<'_, str> {
        let graph = &self.snapshot.graph;
        let (edge_type, name) = (graph.edge_type(edge), graph.edge_name(edge));
        if edge_type.is_indexed() {
            return Cow::Owned(name.to_string());
        }
        if edge_type == EdgeType::Shortcut
            && let Some(index) = leading_integer(&self.names.bytes(name))
        {
            return Cow::Owned(index.to_string());
        }
        self.names.text(name)
    }

    /// Concatenated strings, looked at when the first name of one is asked for.
    pub(super) fn concatenated(&self) -> &Concatenated {
        self.concatenated.get_or_init(|| Concatenated::of(self))
    }

    fn concatenated_name(&self, node: Node) -> Vec<u8> {
        let mut name = Vec::new();
        self.concatenated().leaves(node, |leaf| {
            let part = self.raw_name(leaf);
            name.extend_from_slice(&part);
            units(&part)
        });
        name
    }

    /// Whether the node's name is made of its properties.
    #[inline]
    pub(super) fn has_plain_objects_name(&self, node: Node) -> bool {
        self.snapshot.graph.node_type(node) == NodeType::Object
            && self.names.known(self.name_id(node)) == Known::Object
    }

    /// Whether the name is empty, without making it.
    pub(super) fn has_empty_name(&self, node: Node) -> bool {
        match self.snapshot.graph.node_type(node) {
            NodeType::ConcatenatedString => self.concatenated().is_empty(node),
            _ => self.names.raw_len(self.name_id(node)) == 0,
        }
    }

    fn plain_object(&self, node: Node) -> Vec<u8> {
        let graph = &self.snapshot.graph;
        let properties: Vec<StringId> = graph
            .edges(node)
            .filter(|edge| graph.edge_type(*edge) == EdgeType::Property)
            .map(|edge| graph.edge_name(edge))
            .filter(|name| self.names.known(*name) != Known::Proto)
            .collect();
        let (mut start, mut end) = (vec![b'{'], vec![b'}']);
        let (mut first, mut last) = (0, properties.len());
        let mut from_end = false;
        while first < last {
            let place = if from_end { last - 1 } else { first };
            let shown = shown_property(&self.names.bytes(properties[place]));
            if units(&start) > 1 && units(&start) + units(&end) + units(&shown) > OBJECT_UNITS_MAX {
                break;
            }
            if from_end {
                last -= 1;
                let comma: &[u8] = if units(&end) > 1 { b", " } else { b"" };
                end = [&shown, comma, &end].concat();
            } else {
                first += 1;
                if units(&start) > 1 {
                    start.extend(b", ");
                }
                start.extend(shown);
            }
            from_end = !from_end;
        }
        if first < last {
            start.extend(", \u{2026}".as_bytes());
        }
        if units(&end) > 1 {
            start.extend(b", ");
        }
        start.extend(end);
        start
    }
}
