//! The sums of DevTools' Statistics. Source: `calculateStatistics`, `calculateArraySize`.

use super::Analysis;
use super::names::Known;
use crate::columns::Bits;
use crate::graph::Node;
use crate::meta::{EdgeType, NodeType};

/// Bytes by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Everything, with what V8 knows of outside of its heap.
    pub total_bytes: u64,
    /// Native nodes, and what V8 knows of outside of its heap.
    pub native_bytes: u64,
    /// Of these, contents of typed arrays and buffers.
    pub typed_array_bytes: u64,
    /// Code.
    pub code_bytes: u64,
    /// Strings of all kinds.
    pub string_bytes: u64,
    /// Arrays of JavaScript, with elements that nothing else refers to.
    pub js_array_bytes: u64,
    /// Internals.
    pub system_bytes: u64,
}

impl Statistics {
    /// Everything that is not native.
    pub fn v8_heap_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.native_bytes)
    }
}

impl Analysis<'_, '_> {
    /// Sums by kind.
    pub fn statistics(&self) -> Statistics {
        let graph = &self.snapshot.graph;
        let extra = self.snapshot.header.extra_native_bytes.unwrap_or(0);
        let mut sums = Statistics {
            total_bytes: self.total_bytes(),
            native_bytes: extra,
            ..Statistics::default()
        };
        // A file may claim any sizes.
        let add = |sum: &mut u64, size: u64| *sum = sum.saturating_add(size);
        // Arrays and their elements.
        let mut elements: Vec<Node> = Vec::new();
        for node in graph.nodes() {
            let size = self.self_size(node);
            match graph.node_type(node) {
                NodeType::Hidden => add(&mut sums.system_bytes, size),
                NodeType::Native => {
                    add(&mut sums.native_bytes, size);
                    if self.is_known(node, Known::ArrayBufferData) {
                        add(&mut sums.typed_array_bytes, size);
                    }
                }
                NodeType::Code => add(&mut sums.code_bytes, size),
                NodeType::String | NodeType::ConcatenatedString | NodeType::SlicedString => {
                    add(&mut sums.string_bytes, size)
                }
                _ if self.is_known(node, Known::Array) => {
                    add(&mut sums.js_array_bytes, size);
                    elements.extend(self.elements_of(node));
                }
                _ => {}
            }
        }
        add(&mut sums.js_array_bytes, self.sole_elements_bytes(&elements));
        sums
    }

    fn is_known(&self, node: Node, known: Known) -> bool {
        self.names.known(self.name_id(node)) == known
    }

    fn elements_of(&self, array: Node) -> Option<Node> {
        let graph = &self.snapshot.graph;
        let is_elements = |edge: &u32| {
            graph.edge_type(*edge) == EdgeType::Internal
                && self.names.known(graph.edge_name(*edge)) == Known::Elements
        };
        graph.edges(array).find(is_elements).map(|edge| graph.target(edge))
    }

    /// Sizes of the elements to which exactly one edge, of whatever type, refers. A bit a node
    /// tells that; a backward adjacency or a table would grow faster than the heap.
    fn sole_elements_bytes(&self, elements: &[Node]) -> u64 {
        let graph = &self.snapshot.graph;
        let (mut sole, mut met) = (Bits::new(graph.node_count()), Bits::new(graph.node_count()));
        elements.iter().for_each(|node| sole.set(*node));
        for target in graph.edge_targets.iter() {
            if sole.get(*target) && met.replace(*target) {
                sole.clear(*target);
            }
        }
        elements.iter().filter(|node| sole.get(**node)).map(|node| self.self_size(*node)).sum()
    }
}
