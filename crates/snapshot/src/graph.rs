//! The objects and references of a snapshot as columns: one plain vector a field, in the file's
//! order.
//!
//! A node is its ordinal (its row in `nodes`), an edge its row in `edges`. Both are `u32`, so a
//! snapshot has at most 2^32 - 2 nodes and as many edges (12.9 thousand million edge fields;
//! DevTools ends at its arrays' length). Edges of a node are consecutive, so one offset a node is
//! the forward adjacency ([`Graph::edges`]). The backward adjacency is built on demand
//! ([`Retainers`]).

use crate::columns::{self, Column};
use crate::meta::{EdgeType, NodeType};
use crate::strings::StringId;
use std::ops::Range;

/// A node's ordinal.
pub type Node = u32;
/// An edge's ordinal.
pub type Edge = u32;

/// Columns of nodes and edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph<'a> {
    pub(crate) node_types: Column<'a, u8>,
    pub(crate) node_names: Column<'a, StringId>,
    pub(crate) ids: Column<'a, u32>,
    pub(crate) self_sizes: Column<'a, u32>,
    /// Sizes of 2^32 bytes and more, by node; `self_sizes` has their lower 32 bits, which is what
    /// DevTools sees.
    pub(crate) large_sizes: Vec<(Node, u64)>,
    /// One more than nodes: where the edges of each begin.
    pub(crate) first_edges: Column<'a, Edge>,
    /// Empty when the file does not say.
    pub(crate) detachedness: Column<'a, u8>,
    /// Empty when the file does not say.
    pub(crate) trace_nodes: Column<'a, u32>,
    pub(crate) edge_types: Column<'a, u8>,
    pub(crate) edge_names: Column<'a, u32>,
    pub(crate) edge_targets: Column<'a, Node>,
    pub(crate) root: Node,
}

impl Graph<'_> {
    /// How many nodes.
    pub fn node_count(&self) -> usize {
        self.node_types.len()
    }

    /// How many edges.
    pub fn edge_count(&self) -> usize {
        self.edge_types.len()
    }

    /// The node that everything hangs on.
    pub fn root(&self) -> Node {
        self.root
    }

    /// All nodes.
    pub fn nodes(&self) -> Range<Node> {
        0..self.node_count() as Node
    }

    /// The node's type.
    #[inline]
    pub fn node_type(&self, node: Node) -> NodeType {
        NodeType(self.node_types[node as usize])
    }

    /// Its name as in the file.
    #[inline]
    pub fn node_name(&self, node: Node) -> StringId {
        self.node_names[node as usize]
    }

    /// Its id: the same object has the same in later snapshots of the process.
    #[inline]
    pub fn id(&self, node: Node) -> u32 {
        self.ids[node as usize]
    }

    /// Its own size as in the file, bytes.
    pub fn self_size(&self, node: Node) -> u64 {
        match self.large_sizes.binary_search_by_key(&node, |large| large.0) {
            Ok(place) => self.large_sizes[place].1,
            Err(_) => u64::from(self.self_sizes[node as usize]),
        }
    }

    /// Where it was allocated, if that was recorded and is known: an id of the allocation tree.
    pub fn trace_node(&self, node: Node) -> Option<u32> {
        self.trace_nodes.get(node as usize).copied().filter(|id| *id != 0)
    }

    /// The attachment that the file states: 0 unknown, 1 attached, 2 detached.
    pub fn detachedness(&self, node: Node) -> u8 {
        self.detachedness.get(node as usize).copied().unwrap_or(0)
    }

    /// Its references.
    #[inline]
    pub fn edges(&self, node: Node) -> Range<Edge> {
        self.first_edges[node as usize]..self.first_edges[node as usize + 1]
    }

    /// The edge's type.
    #[inline]
    pub fn edge_type(&self, edge: Edge) -> EdgeType {
        EdgeType(self.edge_types[edge as usize])
    }

    /// Its name: an index for those that [`EdgeType::is_indexed`], else a string.
    #[inline]
    pub fn edge_name(&self, edge: Edge) -> u32 {
        self.edge_names[edge as usize]
    }

    /// The edge's target.
    #[inline]
    pub fn target(&self, edge: Edge) -> Node {
        self.edge_targets[edge as usize]
    }

    /// The edge's source. Takes a search; a forward walk knows the source anyway.
    pub fn source(&self, edge: Edge) -> Node {
        (self.first_edges.partition_point(|first| *first <= edge) - 1) as Node
    }

    /// The sources of edges in rising order: each search begins where the last ended.
    pub(crate) fn sources<'g>(
        &'g self,
        edges: impl Iterator<Item = Edge> + 'g,
    ) -> impl Iterator<Item = (Edge, Node)> + 'g {
        let first = &self.first_edges;
        let mut node = 0;
        edges.map(move |edge| {
            let mut step = 1;
            while first.get(node + step).is_some_and(|first| *first <= edge) {
                node += step;
                step *= 2;
            }
            let rest = &first[node..first.len().min(node + step)];
            node += rest.partition_point(|first| *first <= edge) - 1;
            (edge, node as Node)
        })
    }

    /// The last id that an object of the language's heap has (those of its embedder are even): what
    /// came later has a larger one.
    pub fn last_object_id(&self) -> u32 {
        self.ids.iter().copied().filter(|id| id % 2 == 1).max().unwrap_or(0)
    }

    /// The node with that id.
    pub fn node_by_id(&self, id: u32) -> Option<Node> {
        self.ids.iter().position(|other| *other == id).map(|node| node as Node)
    }
}

/// The backward adjacency: which edges refer to a node.
#[derive(Clone, Debug, Default)]
pub struct Retainers {
    first: Vec<Edge>,
    edges: Vec<Edge>,
}

impl Retainers {
    /// Of all edges, weak ones too, in the order of the file.
    pub fn of(graph: &Graph) -> Retainers {
        let mut first: Vec<Edge> = columns::zeroed(graph.node_count() + 1);
        for target in graph.edge_targets.iter() {
            first[*target as usize] += 1;
        }
        // Ends of the slots, which the filling from the last edge on moves to their beginnings.
        let mut end = 0;
        for slot in &mut first {
            end += *slot;
            *slot = end;
        }
        let mut edges: Vec<Edge> = columns::zeroed(graph.edge_count());
        for (edge, target) in graph.edge_targets.iter().enumerate().rev() {
            let slot = &mut first[*target as usize];
            *slot -= 1;
            edges[*slot as usize] = edge as Edge;
        }
        Retainers { first, edges }
    }

    /// The edges that refer to the node.
    pub fn of_node(&self, node: Node) -> &[Edge] {
        &self.edges[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }
}
