//! What a node is called where DevTools shows it: concatenated strings are put together, plain objects show their properties.
//! Source: `JSHeapSnapshotNode.name`, `consStringName`, `plainObjectName`, `JSHeapSnapshotEdge.name`.

use super::Analysis;
use super::names::Known;
use super::reach::leading_integer;
use super::shapes::shown_property;
use crate::graph::{Edge, Node};
use crate::meta::{EdgeType, NodeType};
use crate::strings::{StringId, to_text, units};
use std::borrow::Cow;

/// A concatenated string is put together up to here, in 16-bit units.
const STRING_UNITS: usize = 1024;
/// A plain object's name takes another property while it stays within, in 16-bit units.
const OBJECT_UNITS_MAX: usize = 100;

impl Analysis<'_, '_> {
    /// The node's name in the file, with "Detached " before that of a detached node; WTF-8.
    pub fn raw_name(&self, node: Node) -> Cow<'_, [u8]> {
        self.names.bytes(self.name_id(node))
    }

    /// The number of the string that [`Analysis::raw_name`] shows.
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
            NodeType::ConcatenatedString => Cow::Owned(self.concatenated(node)),
            NodeType::Object if self.names.known(self.name_id(node)) == Known::Object => Cow::Owned(self.plain_object(node)),
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

    fn concatenated(&self, node: Node) -> Vec<u8> {
        let graph = &self.snapshot.graph;
        let mut stack = vec![node];
        let mut name = Vec::new();
        let mut length = 0;
        // A cycle of empty strings cannot be written by an engine; the bound is for files that somebody made.
        let mut steps = graph.node_count() + 1;
        while let Some(node) = stack.pop().filter(|_| length < STRING_UNITS && steps > 0) {
            steps -= 1;
            if graph.node_type(node) != NodeType::ConcatenatedString {
                let part = self.raw_name(node);
                length += units(&part);
                name.extend_from_slice(&part);
                continue;
            }
            let part = |wanted: &[u8]| {
                let mut edges = graph.edges(node).filter(|edge| graph.edge_type(*edge) == EdgeType::Internal);
                edges.find(|edge| *self.names.bytes(graph.edge_name(*edge)) == *wanted).map_or(0, |edge| graph.target(edge))
            };
            stack.extend([part(b"second"), part(b"first")]);
        }
        name
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
