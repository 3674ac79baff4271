//! The content of a file: graph, strings, and the small lists beside them.

use crate::graph::{Graph, Node};
use crate::meta::{EdgeType, Header, NodeType};
use crate::strings::{StringId, Strings};
use crate::{ReadError, ReadOptions, reader};

/// A heap snapshot. It borrows the file's bytes for its strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// The header.
    pub header: Header,
    /// Objects and references.
    pub graph: Graph<'a>,
    /// Names and contents of strings.
    pub strings: Strings<'a>,
    /// Where functions and constructors stand in their scripts, in the file's order.
    pub locations: Vec<Location>,
    /// When ids were handed out, if the heap was recorded over time.
    pub samples: Vec<Sample>,
    /// The allocation tree, if allocations were tracked.
    pub traces: Traces,
}

/// A place in a script that belongs to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The object.
    pub node: Node,
    /// The engine's number of the script.
    pub script_id: u32,
    /// Counted from 0.
    pub line: u32,
    /// Counted from 0.
    pub column: u32,
}

/// A moment and the last id that was in use then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Microseconds since the recording began.
    pub timestamp_us: u64,
    /// Objects with larger ids came later.
    pub last_assigned_id: u64,
}

/// Functions that allocated and the tree of their calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// Functions.
    pub functions: Vec<TraceFunction>,
    /// Nodes of the tree, parents before children.
    pub nodes: Vec<TraceNode>,
}

/// A function that allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFunction {
    /// The engine's number of the function.
    pub function_id: u64,
    /// Its name.
    pub name: StringId,
    /// Its script's name.
    pub script_name: StringId,
    /// Its script's number.
    pub script_id: u64,
    /// Counted from 0; not known is -1 in the file and 2^32 - 1 here.
    pub line: u64,
    /// Counted from 0.
    pub column: u64,
}

/// A call in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceNode {
    /// What [`Graph::trace_node`] names.
    pub id: u64,
    /// Index in [`Traces::functions`].
    pub function: u32,
    /// Objects allocated here while tracking ran.
    pub count: u64,
    /// Their bytes.
    pub size_bytes: u64,
    /// Index of the caller in [`Traces::nodes`]; `None` for the root.
    pub parent: Option<u32>,
}

impl<'a> Snapshot<'a> {
    /// Reads a file's bytes. Fails at the first byte that breaks the format.
    pub fn read(bytes: &'a [u8]) -> Result<Snapshot<'a>, ReadError> {
        reader::read(bytes, &ReadOptions::default())
    }

    /// The same with options.
    pub fn read_with(bytes: &'a [u8], options: &ReadOptions) -> Result<Snapshot<'a>, ReadError> {
        reader::read(bytes, options)
    }

    /// The file's name of a node type.
    pub fn node_type_name(&self, node_type: NodeType) -> &str {
        node_type.name(&self.header.meta.node_types)
    }

    /// The file's name of an edge type.
    pub fn edge_type_name(&self, edge_type: EdgeType) -> &str {
        edge_type.name(&self.header.meta.edge_types)
    }
}
