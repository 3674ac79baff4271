//! `Writer`: a snapshot as a stream of rows, checked as they pass.
//!
//! The order of the lists is part of the format (DevTools scans forward for each key). Every list
//! is written, even an empty one, because some readers ask for all. The header announces the counts
//! before the first row. The caller gives the counts, and the writer checks them. Rows out of
//! order, a missing node or string, or an edge that its node did not announce are an error, which
//! ends the file instead of making one that a reader fails on. The writer remembers the distinct
//! strings and the used ids.
//!
//! The check that each node has as many edges as announced needs no memory: both lists are folded
//! into a number that depends on (node, count) pairs, and the two numbers must be equal. The check
//! that each id occurs once is exact: a bit a node for dense ids, two bytes for sparse ones. A diff
//! takes two objects with one id for one object.
//!
//! Source: V8's `HeapSnapshotJSONSerializer`; files that Node 12 to 24 wrote come out the same to
//! the byte (tests/rewrites.rs).

mod error;
mod header;
mod ids;
mod layout;
mod section;
mod text;

pub use error::WriteError;
pub use layout::{EDGE_TYPES, Layout, NODE_TYPES, NodeField, Rows, edge_type, node_type};
pub use section::Section;

use crate::names::{Hash, StringId, StringsStorage};
use header::{check_layout, header};
use std::io::Write;
use text::Output;

/// The counts that the header announces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes.
    pub nodes: u64,
    /// Edges.
    pub edges: u64,
    /// Trace functions, where allocations were tracked.
    pub trace_functions: u64,
}

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Number of its type in the layout ([`node_type`]).
    pub node_type: u8,
    /// The node's name: a class, a content, or another text.
    pub name: StringId,
    /// The node's id across snapshots.
    pub id: u64,
    /// The node's own bytes.
    pub self_size: u64,
    /// How many edges will leave it.
    pub edge_count: u64,
    /// Where it was allocated, or 0.
    pub trace_node_id: u64,
    /// 0 unknown, 1 attached, 2 detached.
    pub detachedness: u8,
}

impl Node {
    /// A node with this type, name, id and size, without edges.
    pub fn new(node_type: u8, name: StringId, id: u64, self_size: u64) -> Node {
        Node { node_type, name, id, self_size, edge_count: 0, trace_node_id: 0, detachedness: 0 }
    }
}

/// The name of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeName {
    /// Of elements and hidden edges.
    Index(u64),
    /// Of all others.
    Text(StringId),
}

/// A scope of a script: a function's, a block's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Ordinal of the script's node.
    pub script: u64,
    /// The scope's number in the script; negative for a scope that is not a function.
    pub id: i64,
    /// How many scopes it lies in.
    pub depth: u64,
    /// How many variables its contexts hold; they stand in a list of their own.
    pub context_vars: u64,
    /// How many variables of scopes around it its code uses; they too.
    pub uses: u64,
}

/// Counts of the written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes of the file.
    pub bytes: u64,
    /// Distinct strings.
    pub strings: usize,
}

/// Writes a snapshot row by row.
pub struct Writer<W> {
    output: Output<W>,
    layout: Layout,
    counts: Counts,
    strings: StringsStorage,
    ids: ids::IdSet,
    section: Section,
    rows: u64,
    /// Numbers of edge types whose name is an index.
    indexed: [bool; 256],
    announced_edges: u64,
    /// (node, count) pairs as the nodes announce them, and as the edges come.
    announced: u64,
    found: u64,
    edges_of: (u64, u64),
    trace_depth: u32,
}

impl<W: Write> Writer<W> {
    /// Writes the header. The sink is given pieces of 64 KiB.
    pub fn new(
        sink: W,
        layout: Layout,
        counts: Counts,
        hash: Hash,
    ) -> Result<Writer<W>, WriteError> {
        Writer::with_strings(sink, layout, counts, StringsStorage::new(hash))
    }

    /// The same, with strings that are already numbered: they keep their numbers.
    pub fn with_strings(
        sink: W,
        layout: Layout,
        counts: Counts,
        strings: StringsStorage,
    ) -> Result<Writer<W>, WriteError> {
        check_layout(&layout)?;
        if counts.nodes == 0 {
            return Err(WriteError::NoNodes);
        }
        small("the number of nodes", counts.nodes, u32::MAX.into())?;
        small("the number of edges", counts.edges, u32::MAX.into())?;
        let mut indexed = [false; 256];
        for name in ["element", "hidden"] {
            layout
                .edge_type(name)
                .into_iter()
                .for_each(|number| indexed[usize::from(number)] = true);
        }
        let mut output = Output::new(sink);
        output.text(header(&layout, counts).as_bytes())?;
        output.text(b"\"nodes\":[")?;
        Ok(Writer {
            output,
            layout,
            counts,
            strings,
            ids: ids::IdSet::default(),
            section: Section::Nodes,
            rows: 0,
            indexed,
            announced_edges: 0,
            announced: 0,
            found: 0,
            edges_of: (0, 0),
            trace_depth: 0,
        })
    }

    /// The strings. Those known when the file is finished become its last list.
    pub fn strings(&mut self) -> &mut StringsStorage {
        &mut self.strings
    }

    /// The number of a string.
    pub fn string(&mut self, text: &str) -> Result<StringId, WriteError> {
        Ok(self.strings.intern(text)?)
    }

    /// The layout given.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes written so far, those of the buffer included.
    pub fn bytes(&self) -> u64 {
        self.output.bytes()
    }

    /// Whether a node before has this id.
    pub fn has_id(&self, id: u64) -> bool {
        u32::try_from(id).is_ok_and(|id| self.ids.contains(id))
    }

    /// The next node. Its ordinal is the number of nodes before it.
    pub fn node(&mut self, node: &Node) -> Result<(), WriteError> {
        self.row_of(Section::Nodes, self.counts.nodes)?;
        check_type("node", node.node_type, self.layout.node_types.len())?;
        self.check_string(node.name)?;
        let id = small("an id", node.id, 1 << 32)?;
        if !self.ids.insert(id as u32) {
            return Err(WriteError::DuplicateId { id, node: self.rows - 1 });
        }
        small("a trace node's id", node.trace_node_id, 1 << 32)?;
        small("a detachedness", node.detachedness.into(), 3)?;
        if node.edge_count > 0 {
            self.announced = self.announced.wrapping_add(pair(self.rows - 1, node.edge_count));
        }
        self.announced_edges = self.announced_edges.saturating_add(node.edge_count);
        let mut columns = [0; NodeField::ALL.len()];
        for (column, field) in columns.iter_mut().zip(&self.layout.node_fields) {
            *column = match field {
                NodeField::Type => u64::from(node.node_type),
                NodeField::Name => u64::from(node.name.0),
                NodeField::Id => node.id,
                NodeField::SelfSize => node.self_size,
                NodeField::EdgeCount => node.edge_count,
                NodeField::TraceNodeId => node.trace_node_id,
                NodeField::Detachedness => u64::from(node.detachedness),
            };
        }
        self.row(self.layout.node_fields.len(), columns)
    }

    /// The next edge, from one node (by ordinal) to another; all edges of a node before those of
    /// the next.
    pub fn edge(
        &mut self,
        from: u64,
        edge_type: u8,
        name: EdgeName,
        to: u64,
    ) -> Result<(), WriteError> {
        self.row_of(Section::Edges, self.counts.edges)?;
        check_type("edge", edge_type, self.layout.edge_types.len())?;
        self.check_node(from, "the start of an edge")?;
        self.check_node(to, "the end of an edge")?;
        let name = match name {
            EdgeName::Index(index) if self.indexed[usize::from(edge_type)] => {
                small("an index", index, 1 << 32)?
            }
            EdgeName::Text(id) if !self.indexed[usize::from(edge_type)] => {
                self.check_string(id)?;
                u64::from(id.0)
            }
            _ => return Err(WriteError::EdgeName(edge_type)),
        };
        if from != self.edges_of.0 {
            self.next_node(from)?;
        }
        self.edges_of.1 += 1;
        let fields = self.layout.node_fields.len() as u64;
        self.row(3, [u64::from(edge_type), name, to * fields])
    }

    fn next_node(&mut self, from: u64) -> Result<(), WriteError> {
        if from < self.edges_of.0 {
            return Err(WriteError::EdgeOrder { from, after: self.edges_of.0 });
        }
        self.end_node();
        self.edges_of = (from, 0);
        Ok(())
    }

    fn end_node(&mut self) {
        if self.edges_of.1 > 0 {
            self.found = self.found.wrapping_add(pair(self.edges_of.0, self.edges_of.1));
        }
    }

    /// A function in which objects were allocated: `function_id`, name, script name, `script_id`,
    /// line, column.
    pub fn trace_function_info(
        &mut self,
        id: u64,
        name: StringId,
        script: StringId,
        place: [u64; 3],
    ) -> Result<(), WriteError> {
        self.row_of(Section::TraceFunctionInfos, self.counts.trace_functions)?;
        self.check_string(name)?;
        self.check_string(script)?;
        self.row(6, [id, u64::from(name.0), u64::from(script.0), place[0], place[1], place[2]])
    }

    /// Opens a node of the trace tree: `id`, index of its function, count and size of its
    /// allocations. Its children follow.
    pub fn open_trace_node(&mut self, columns: [u64; 4]) -> Result<(), WriteError> {
        self.to(Section::TraceTree)?;
        small("a function's index", columns[1], self.counts.trace_functions)?;
        if self.rows > 0 {
            self.output.byte(b',')?;
        }
        self.output.numbers(&columns)?;
        self.output.text(b",[")?;
        self.trace_depth += 1;
        // Whether a comma comes before the next node.
        self.rows = 0;
        Ok(())
    }

    /// Closes the node that was opened last.
    pub fn close_trace_node(&mut self) -> Result<(), WriteError> {
        self.to(Section::TraceTree)?;
        self.trace_depth = self.trace_depth.checked_sub(1).ok_or(WriteError::TraceTree(0))?;
        self.output.byte(b']')?;
        self.rows = 1;
        Ok(())
    }

    /// A moment of an allocation timeline: time in µs and the last id given by then.
    pub fn sample(&mut self, timestamp_us: u64, last_assigned_id: u64) -> Result<(), WriteError> {
        self.row_of(Section::Samples, u64::MAX)?;
        self.row(2, [timestamp_us, last_assigned_id])
    }

    /// Where a node (by ordinal) stands in the source: script, and line and column from 0.
    pub fn location(
        &mut self,
        node: u64,
        script_id: u64,
        line: u64,
        column: u64,
    ) -> Result<(), WriteError> {
        self.location_in(node, (script_id, 0), line, column)
    }

    /// The same with the script's number and its node, which is written where the layout has
    /// [`Layout::script_objects`].
    pub fn location_in(
        &mut self,
        node: u64,
        script: (u64, u64),
        line: u64,
        column: u64,
    ) -> Result<(), WriteError> {
        self.row_of(Section::Locations, u64::MAX)?;
        self.check_node(node, "a location")?;
        self.check_node(script.1, "a location's script")?;
        for (what, value) in
            [("a script's number", script.0), ("a line", line), ("a column", column)]
        {
            small(what, value, 1 << 32)?;
        }
        let fields = self.layout.node_fields.len() as u64;
        if self.layout.script_objects {
            return self.row(5, [node * fields, script.0, script.1 * fields, line, column]);
        }
        self.row(4, [node * fields, script.0, line, column])
    }

    /// A scope. Scopes of a script follow each other, each behind its enclosing scope.
    pub fn scope(&mut self, scope: Scope) -> Result<(), WriteError> {
        self.scopes_row(Section::Scopes)?;
        self.check_node(scope.script, "a scope's script")?;
        let fields = self.layout.node_fields.len() as u64;
        self.output.numbers(&[scope.script * fields])?;
        self.output.byte(b',')?;
        self.output.signed(scope.id)?;
        self.output.byte(b',')?;
        self.row_end(&[scope.depth, scope.context_vars, scope.uses])
    }

    /// A variable of a scope; they come in the order of the scopes.
    pub fn scope_context_var(&mut self, name: StringId) -> Result<(), WriteError> {
        self.scopes_row(Section::ScopeContextVars)?;
        self.check_string(name)?;
        self.row_end(&[u64::from(name.0)])
    }

    /// A variable that a scope uses: the scope that declares it, and its place there. In the order
    /// of the scopes.
    pub fn scope_use(&mut self, declaring_scope: i64, slot: u64) -> Result<(), WriteError> {
        self.scopes_row(Section::ScopeUses)?;
        self.output.signed(declaring_scope)?;
        self.output.byte(b',')?;
        self.row_end(&[slot])
    }

    fn scopes_row(&mut self, section: Section) -> Result<(), WriteError> {
        if !self.layout.scopes {
            return Err(WriteError::Layout("has no scopes"));
        }
        self.row_of(section, u64::MAX)?;
        if self.rows > 1 {
            self.output.byte(b',')?;
        }
        Ok(())
    }

    /// Writes the remaining lists, checks the counts, and returns the sink.
    pub fn finish(self) -> Result<(W, Written), WriteError> {
        self.finish_lent(&mut |_, _| false)
    }

    /// The same where texts are lent ([`StringsStorage::with_lent`]): `append` gives them, in the
    /// order of their numbers, and false where it cannot.
    pub fn finish_lent(
        mut self,
        append: &mut dyn FnMut(StringId, &mut Vec<u8>) -> bool,
    ) -> Result<(W, Written), WriteError> {
        self.to(Section::Strings)?;
        let separator: &[u8] = if self.layout.rows == Rows::OnePerLine { b",\n" } else { b"," };
        let mut text = Vec::new();
        for number in (0..self.strings.len() as u32).map(StringId) {
            if number.0 > 0 {
                self.output.text(separator)?;
            }
            if number.0 >= self.strings.lent() {
                self.output.string(self.strings.bytes_of(number))?;
                continue;
            }
            text.clear();
            if !append(number, &mut text) {
                return Err(WriteError::Lent(number.0));
            }
            self.output.string(&text)?;
        }
        self.output.text(b"]}")?;
        let written = Written { bytes: self.output.bytes(), strings: self.strings.len() };
        Ok((self.output.into_sink()?, written))
    }

    /// Opens the list of a row, and counts the row.
    #[inline]
    fn row_of(&mut self, section: Section, declared: u64) -> Result<(), WriteError> {
        if self.section != section {
            self.to(section)?;
        }
        if self.rows >= declared {
            return Err(WriteError::Count { section, declared, written: self.rows + 1 });
        }
        self.rows += 1;
        Ok(())
    }

    /// The first `length` numbers as the row that was counted last.
    #[inline]
    fn row<const N: usize>(&mut self, length: usize, columns: [u64; N]) -> Result<(), WriteError> {
        if self.rows > 1 {
            self.output.byte(b',')?;
        }
        self.row_end(&columns[..length])
    }

    /// The last numbers of a row.
    #[inline]
    fn row_end(&mut self, numbers: &[u64]) -> Result<(), WriteError> {
        self.output.numbers(numbers)?;
        if self.layout.rows == Rows::OnePerLine {
            self.output.byte(b'\n')?;
        }
        Ok(())
    }

    /// Closes all lists before that one and opens it; each must have the declared count of rows.
    fn to(&mut self, section: Section) -> Result<(), WriteError> {
        if section < self.section {
            return Err(WriteError::Order { given: section, open: self.section });
        }
        while self.section < section {
            self.close()?;
            let next = Section::ALL[self.section as usize + 1];
            if next.is_of_scopes() && !self.layout.scopes {
                (self.section, self.rows) = (next, 0);
                continue;
            }
            self.output.text(b"],\n\"")?;
            self.output.text(next.key().as_bytes())?;
            self.output.text(b"\":[")?;
            self.section = next;
            self.rows = 0;
        }
        Ok(())
    }

    /// Holds the list that ends to the header.
    fn close(&mut self) -> Result<(), WriteError> {
        let declared = match self.section {
            Section::Nodes => self.counts.nodes,
            Section::Edges => self.counts.edges,
            Section::TraceFunctionInfos => self.counts.trace_functions,
            _ => self.rows,
        };
        if self.rows != declared {
            return Err(WriteError::Count { section: self.section, declared, written: self.rows });
        }
        match self.section {
            Section::Nodes if self.announced_edges != self.counts.edges => {
                Err(WriteError::EdgeCounts {
                    announced: self.announced_edges,
                    declared: self.counts.edges,
                })
            }
            Section::Edges => {
                self.end_node();
                if self.announced == self.found { Ok(()) } else { Err(WriteError::EdgesOfNodes) }
            }
            Section::TraceTree if self.trace_depth > 0 => {
                Err(WriteError::TraceTree(self.trace_depth))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn check_string(&self, id: StringId) -> Result<(), WriteError> {
        if (id.0 as usize) < self.strings.len() {
            Ok(())
        } else {
            Err(WriteError::Name { given: id.0, known: self.strings.len() })
        }
    }

    #[inline]
    fn check_node(&self, node: u64, place: &'static str) -> Result<(), WriteError> {
        if node < self.counts.nodes {
            Ok(())
        } else {
            Err(WriteError::Node { node, nodes: self.counts.nodes, place })
        }
    }
}

/// A number that readers take.
#[inline]
fn small(what: &'static str, value: u64, below: u64) -> Result<u64, WriteError> {
    if value < below { Ok(value) } else { Err(WriteError::Number { what, value, below }) }
}

#[inline]
fn check_type(place: &'static str, given: u8, known: usize) -> Result<(), WriteError> {
    if usize::from(given) < known { Ok(()) } else { Err(WriteError::Type { place, given, known }) }
}

/// A number for "this node has so many edges"; sums of these numbers are compared.
#[inline]
fn pair(node: u64, count: u64) -> u64 {
    crate::names::fold(
        node.wrapping_add(0x9E37_79B9_7F4A_7C15),
        count.wrapping_mul(0xD6E8_FEB8_6659_FD93) | 1,
    )
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
