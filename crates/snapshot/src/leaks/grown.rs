//! Objects that were there before an action and take more themselves after its undoing: an array of
//! numbers, the table of a map, a buffer. Nothing was born that belongs to the program, so that
//! nothing has leaked, and yet the heap has grown.
//!
//! An object takes its own bytes and those of the engine's tables and arrays that it refers to. A
//! table that grows is another node than before, so tables are compared by the objects that have
//! them. Files of whose objects this is asked are as large as heaps, so sizes below
//! 4 KiB are not kept.

use super::born::Born;
use super::is_of_program;
use crate::analysis::Analysis;
use crate::columns::Bits;
use crate::graph::{Edge, Graph, Node};
use crate::meta::{EdgeType, NodeType};
use crate::snapshot::Snapshot;
use hashbrown::HashMap;
use std::cmp::Reverse;

/// What takes less is not kept.
const SIZE_MIN_BYTES: u64 = 4 << 10;
/// What grew by less is not told.
const GROWTH_MIN_BYTES: u64 = 16 << 10;

/// What the larger objects of a snapshot take themselves.
#[derive(Clone, Debug, Default)]
pub struct OwnSizes {
    /// By id.
    bytes: HashMap<u32, u64>,
    last_object_id: u32,
}

/// An object that takes more than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    /// The object, in the later snapshot.
    pub node: Node,
    /// What it took before; below 4 KiB 0.
    pub before_bytes: u64,
    /// What it takes.
    pub bytes: u64,
}

impl Grown {
    /// By how much it grew.
    pub fn growth_bytes(&self) -> u64 {
        self.bytes - self.before_bytes
    }
}

impl OwnSizes {
    /// Of a file that is read.
    pub fn of(snapshot: &Snapshot) -> OwnSizes {
        let graph = &snapshot.graph;
        let bytes = own_sizes(snapshot);
        OwnSizes {
            bytes: bytes.into_iter().map(|(node, bytes)| (graph.id(node), bytes)).collect(),
            last_object_id: graph.last_object_id(),
        }
    }
}

/// The objects with more bytes of their own than before, those that grew most first. `born` are no
/// older objects, and others count if `keep` holds.
pub fn grown(
    analysis: &Analysis,
    before: &OwnSizes,
    born: &Born,
    keep: impl Fn(Node) -> bool,
) -> Vec<Grown> {
    let graph = &analysis.snapshot().graph;
    let is_old = |node: Node| {
        let id = graph.id(node);
        id <= before.last_object_id && !born.contains(id)
    };
    let mut grown: Vec<Grown> = own_sizes(analysis.snapshot())
        .into_iter()
        .map(|(node, bytes)| {
            let before_bytes = before.bytes.get(&graph.id(node)).copied().unwrap_or(0);
            Grown { node, before_bytes, bytes }
        })
        .filter(|grown| {
            grown.bytes >= grown.before_bytes + GROWTH_MIN_BYTES
                && is_old(grown.node)
                && analysis.distance(grown.node) >= 0
                && is_of_program(analysis, grown.node)
                && keep(grown.node)
        })
        .collect();
    grown.sort_by_key(|grown| (Reverse(grown.growth_bytes()), grown.node));
    grown
}

/// What the larger objects take: nodes that may grow, with their tables.
fn own_sizes(snapshot: &Snapshot) -> HashMap<Node, u64> {
    let graph = &snapshot.graph;
    let mut tables = Bits::new(graph.node_count());
    let mut sizes: HashMap<Node, u64> = HashMap::new();
    for node in graph.nodes() {
        let bytes = graph.self_size(node);
        if bytes < SIZE_MIN_BYTES {
            continue;
        }
        if is_table(snapshot, node) {
            tables.set(node);
        } else if may_grow(graph, node) {
            sizes.insert(node, bytes);
        }
    }
    for node in graph.nodes().filter(|node| may_grow(graph, *node)) {
        let holds = |edge: &Edge| {
            tables.get(graph.target(*edge)) && graph.edge_type(*edge) != EdgeType::Weak
        };
        for edge in graph.edges(node).filter(holds) {
            *sizes.entry(node).or_default() += graph.self_size(graph.target(edge));
        }
    }
    sizes
}

/// The engine's own memory of some object: an array, a table, the bytes of a buffer.
fn is_table(snapshot: &Snapshot, node: Node) -> bool {
    let kind = snapshot.graph.node_type(node);
    matches!(kind, NodeType::Hidden | NodeType::Array)
        || (kind == NodeType::Native
            && snapshot.strings.raw(snapshot.graph.node_name(node)).starts_with(b"system /"))
}

/// Strings and numbers stay as they are, and the engine's objects are nobody's.
fn may_grow(graph: &Graph, node: Node) -> bool {
    matches!(graph.node_type(node), NodeType::Object | NodeType::Native)
}
