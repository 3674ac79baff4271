//! The columns and types of a file: the `meta` of its header, as data.
//!
//! The format is defined by its header and has grown: a reader that looks fields up by name reads
//! every version, one that zips them with their types does not (Node 24 lists seven types for six
//! fields). Presets are the headers that the real programs write, to the byte: Node 12.22, 16.20,
//! 20.20, 24.

/// A column of the node list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeField {
    /// Index into the node types.
    Type,
    /// Index into the strings.
    Name,
    /// The object's id: odd for objects of V8's heap, even for those of its embedder.
    Id,
    /// Bytes of the object itself.
    SelfSize,
    /// How many edges leave it.
    EdgeCount,
    /// Where it was allocated: a node of the trace tree, or 0.
    TraceNodeId,
    /// 0 unknown, 1 attached, 2 detached.
    Detachedness,
}

impl NodeField {
    /// Every field that a file may have.
    pub const ALL: [NodeField; 7] = [
        NodeField::Type,
        NodeField::Name,
        NodeField::Id,
        NodeField::SelfSize,
        NodeField::EdgeCount,
        NodeField::TraceNodeId,
        NodeField::Detachedness,
    ];

    /// Its name in the header.
    pub fn name(self) -> &'static str {
        match self {
            NodeField::Type => "type",
            NodeField::Name => "name",
            NodeField::Id => "id",
            NodeField::SelfSize => "self_size",
            NodeField::EdgeCount => "edge_count",
            NodeField::TraceNodeId => "trace_node_id",
            NodeField::Detachedness => "detachedness",
        }
    }

    /// The field of that name.
    pub fn of_name(name: &str) -> Option<NodeField> {
        NodeField::ALL.into_iter().find(|field| field.name() == name)
    }
}

/// Where lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// A node, an edge, a string a line, each but the first behind its comma: V8 up to Node 20.
    /// Line tools can read it.
    OnePerLine,
    /// A list a line: V8 from Node 22 on, 3 % smaller.
    OneLine,
}

/// The columns, types and line ends of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the node list, in their order. `Type`, `Name`, `Id`, `SelfSize` and `EdgeCount`
    /// must be there.
    pub node_fields: Vec<NodeField>,
    /// Names of the node types.
    pub node_types: Vec<String>,
    /// Names of the edge types.
    pub edge_types: Vec<String>,
    /// Line ends.
    pub rows: Rows,
    /// Bytes that belong to the heap and to no node, as Node 24 writes them.
    pub extra_native_bytes: Option<u64>,
    /// How many kinds of node columns the header names behind the types. V8 wrote six for any
    /// columns, and later the right number.
    pub node_kinds: u8,
    /// Whether a location names the node of its script, as Chromium's do from V8 14 on.
    pub script_objects: bool,
    /// Whether the file has the scopes of its scripts (Chromium, from V8 15 on).
    pub scopes: bool,
}

/// Node types in the order of V8, Node 12 and later. The first 14 have kept their number ever
/// since.
pub const NODE_TYPES: [&str; 16] = [
    "hidden",
    "array",
    "string",
    "object",
    "code",
    "closure",
    "regexp",
    "number",
    "native",
    "synthetic",
    "concatenated string",
    "sliced string",
    "symbol",
    "bigint",
    "object shape",
    "wasm object",
];

/// Edge types in the order of V8.
pub const EDGE_TYPES: [&str; 7] =
    ["context", "element", "property", "internal", "hidden", "shortcut", "weak"];

/// Numbers of [`NODE_TYPES`].
pub mod node_type {
    #![allow(missing_docs)]
    pub const HIDDEN: u8 = 0;
    pub const ARRAY: u8 = 1;
    pub const STRING: u8 = 2;
    pub const OBJECT: u8 = 3;
    pub const CODE: u8 = 4;
    pub const CLOSURE: u8 = 5;
    pub const REGEXP: u8 = 6;
    pub const NUMBER: u8 = 7;
    pub const NATIVE: u8 = 8;
    pub const SYNTHETIC: u8 = 9;
    pub const CONCATENATED_STRING: u8 = 10;
    pub const SLICED_STRING: u8 = 11;
    pub const SYMBOL: u8 = 12;
    pub const BIGINT: u8 = 13;
    pub const OBJECT_SHAPE: u8 = 14;
}

/// Numbers of [`EDGE_TYPES`].
pub mod edge_type {
    #![allow(missing_docs)]
    pub const CONTEXT: u8 = 0;
    pub const ELEMENT: u8 = 1;
    pub const PROPERTY: u8 = 2;
    pub const INTERNAL: u8 = 3;
    pub const HIDDEN: u8 = 4;
    pub const SHORTCUT: u8 = 5;
    pub const WEAK: u8 = 6;
}

impl Layout {
    /// Node 12 and 14: no `detachedness`.
    pub fn node_12() -> Layout {
        Layout { node_fields: NodeField::ALL[..6].to_vec(), ..Layout::of(14, Rows::OnePerLine) }
    }

    /// Node 16: all seven columns.
    pub fn node_16() -> Layout {
        Layout::of(14, Rows::OnePerLine)
    }

    /// Node 18 and 20: as 16, with two more node types.
    pub fn node_20() -> Layout {
        Layout::of(16, Rows::OnePerLine)
    }

    /// Node 24: no `trace_node_id` unless allocations are tracked ([`Layout::with_trace_nodes`]), a
    /// list a line.
    pub fn node_24() -> Layout {
        let mut layout = Layout::of(15, Rows::OneLine);
        layout.node_fields.retain(|field| *field != NodeField::TraceNodeId);
        layout.extra_native_bytes = Some(0);
        layout
    }

    /// The same with the column `trace_node_id`.
    pub fn with_trace_nodes(mut self) -> Layout {
        if !self.node_fields.contains(&NodeField::TraceNodeId) {
            let at = self
                .node_fields
                .iter()
                .position(|field| *field == NodeField::EdgeCount)
                .map_or(self.node_fields.len(), |at| at + 1);
            self.node_fields.insert(at, NodeField::TraceNodeId);
        }
        self
    }

    /// The same with other line ends.
    pub fn with_rows(mut self, rows: Rows) -> Layout {
        self.rows = rows;
        self
    }

    fn of(node_types: usize, rows: Rows) -> Layout {
        Layout {
            node_fields: NodeField::ALL.to_vec(),
            node_types: NODE_TYPES[..node_types].iter().map(|name| name.to_string()).collect(),
            edge_types: EDGE_TYPES.iter().map(|name| name.to_string()).collect(),
            rows,
            extra_native_bytes: None,
            node_kinds: 6,
            script_objects: false,
            scopes: false,
        }
    }

    /// The number of the node type of that name.
    pub fn node_type(&self, name: &str) -> Option<u8> {
        self.node_types.iter().position(|known| known == name).and_then(|at| u8::try_from(at).ok())
    }

    /// The number of the edge type of that name.
    pub fn edge_type(&self, name: &str) -> Option<u8> {
        self.edge_types.iter().position(|known| known == name).and_then(|at| u8::try_from(at).ok())
    }
}
