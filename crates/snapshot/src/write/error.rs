//! Errors of a writer.

use super::Section;

/// Why a snapshot cannot be written on. Nothing written after it would make a valid file.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The sink failed.
    #[error("cannot write the snapshot")]
    Sink(#[from] std::io::Error),
    /// The layout lacks a required part.
    #[error("the layout {0}")]
    Layout(&'static str),
    /// A row of a list that is already closed: lists have one order.
    #[error("a row of {given:?} after {open:?} had begun: the lists of a snapshot have one order")]
    Order {
        /// The list of the row.
        given: Section,
        /// The list that is being written.
        open: Section,
    },
    /// More or fewer rows than the header declares.
    #[error("{written} rows of {section:?}, but the header says {declared}")]
    Count {
        /// The list.
        section: Section,
        /// The declared count.
        declared: u64,
        /// How many there were (one too many where the list goes on).
        written: u64,
    },
    /// The edges that the nodes announce are not those of the header.
    #[error("the nodes announce {announced} edges, but the header says {declared}")]
    EdgeCounts {
        /// Sum of `edge_count` over the nodes.
        announced: u64,
        /// The declared count.
        declared: u64,
    },
    /// The number of edges is right, but some node has others than it announced.
    #[error("some node does not have as many edges as its edge_count says")]
    EdgesOfNodes,
    /// Edges stand in the order of the nodes that they leave.
    #[error(
        "an edge of node {from} after one of node {after}: edges stand in the order of their nodes"
    )]
    EdgeOrder {
        /// The node of the edge.
        from: u64,
        /// The node before.
        after: u64,
    },
    /// A node that is not there.
    #[error("node {node} of {nodes} ({place})")]
    Node {
        /// The ordinal given.
        node: u64,
        /// How many nodes the header announces.
        nodes: u64,
        /// The reference to the node: "the start of an edge".
        place: &'static str,
    },
    /// An id that another node has: a diff would take the two for one.
    #[error("node {node} has the id {id}, which a node before it has")]
    DuplicateId {
        /// The id.
        id: u64,
        /// Ordinal of the second node.
        node: u64,
    },
    /// A number that no reader takes: DevTools keeps 32 bits.
    #[error("{value} as {what}, expected one below {below}")]
    Number {
        /// The kind of number.
        what: &'static str,
        /// The number given.
        value: u64,
        /// The bound: the value must be below.
        below: u64,
    },
    /// A snapshot without a node has no root.
    #[error("a snapshot needs a root, and the header says 0 nodes")]
    NoNodes,
    /// A type that the layout does not name.
    #[error("{place} type {given}, but the layout names {known}")]
    Type {
        /// Node or edge.
        place: &'static str,
        /// The number given.
        given: u8,
        /// How many there are.
        known: usize,
    },
    /// A string that is not in the storage.
    #[error("string {given} of {known}")]
    Name {
        /// The number given.
        given: u32,
        /// How many there are.
        known: usize,
    },
    /// A text that is lent cannot be had any more, or is another.
    #[error(
        "the text of string {0} is not what it was when its number was given: the heap may not change while it is walked"
    )]
    Lent(u32),
    /// Elements and hidden edges have an index, all others a name.
    #[error(
        "an edge of type {0} with the wrong kind of name: element and hidden edges have an index, all others a string"
    )]
    EdgeName(u8),
    /// The trace tree was not closed, or more than closed.
    #[error("the trace tree is not closed at its end: depth {0}")]
    TraceTree(u32),
    /// More distinct strings, or more bytes of them, than fit.
    #[error(transparent)]
    Strings(#[from] crate::names::StringsFull),
}
