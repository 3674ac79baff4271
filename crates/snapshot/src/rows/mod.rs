//! A snapshot as a stream of rows: what rewrites a file (convert, redact, trim, the ladder) and what says how far one is good.
//!
//! Nothing is kept but where each list lies, so that a file of any size passes in little memory, and every number is looked at
//! before it is believed: errors name the byte. It is not the fast way into a file: that is the reader, which keeps the columns of a graph.
//!
//! Rows may be read in any order, because the lists are found first (numbers have no brackets; strings are looked through).

mod cursor;
mod damage;
mod find;
mod header;
mod scopes;

pub(crate) use cursor::unescape;
pub use damage::Damage;
pub(crate) use find::Located;
pub use find::Rows;
pub use scopes::{ScopeRows, ScopeUseRows, ScopeVariableRows};

use crate::names::StringId;
use crate::write::{EdgeName, Node, NodeField, Section};
use cursor::Cursor;

/// An edge with the node that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeRow {
    /// Ordinal of the node that it leaves.
    pub from: u64,
    /// Number of its type.
    pub edge_type: u8,
    /// Its name or index.
    pub name: EdgeName,
    /// Ordinal of the node that it leads to.
    pub to: u64,
}

/// Where a node stands in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocationRow {
    /// Ordinal of the node.
    pub node: u64,
    /// The script's number.
    pub script_id: u64,
    /// Ordinal of the script's node, where the file tells it; else the root's.
    pub script: u64,
    /// From 0.
    pub line: u64,
    /// From 0.
    pub column: u64,
}

/// A function in which objects were allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFunctionRow {
    /// `function_id`
    pub id: u64,
    /// Its name.
    pub name: StringId,
    /// Its script's name.
    pub script_name: StringId,
    /// `script_id`, line, column.
    pub place: [u64; 3],
}

/// Functions in which objects were allocated, one after the other.
#[derive(Clone, Debug)]
pub struct TraceFunctionRows<'a> {
    numbers: Numbers<'a>,
    rows: &'a Rows<'a>,
}

impl TraceFunctionRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.numbers.offset()
    }

    /// The next function.
    pub fn read(&mut self) -> Result<Option<TraceFunctionRow>, Damage> {
        let mut columns = [0u64; header::COLUMNS_MAX];
        let before = self.numbers.offset();
        if !self.numbers.row(&mut columns[..self.rows.trace_function_columns.width])? {
            return Ok(None);
        }
        let [id, name, script_name, script_id, line, column] = self.rows.trace_function_columns.pick(&columns);
        let (name, script_name) = (self.rows.name(name, before)?, self.rows.name(script_name, before)?);
        Ok(Some(TraceFunctionRow { id, name, script_name, place: [script_id, line, column] }))
    }
}

/// Moments of an allocation timeline, one after the other.
#[derive(Clone, Debug)]
pub struct SampleRows<'a> {
    numbers: Numbers<'a>,
    rows: &'a Rows<'a>,
}

impl SampleRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.numbers.offset()
    }

    /// The next moment: time in µs and the last id given by then.
    pub fn read(&mut self) -> Result<Option<[u64; 2]>, Damage> {
        let mut columns = [0u64; header::COLUMNS_MAX];
        let more = self.numbers.row(&mut columns[..self.rows.sample_columns.width])?;
        Ok(more.then(|| self.rows.sample_columns.pick(&columns)))
    }
}

/// A step through the trace tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStep {
    /// A node opens: id, function, count, size.
    Open([u64; 4]),
    /// The node that was opened last closes.
    Close,
}

/// Numbers of one list, row by row.
#[derive(Clone, Debug)]
struct Numbers<'a> {
    cursor: Cursor<'a>,
    begun: bool,
    /// Whether numbers may be below zero; those stand in two's complement.
    signed: bool,
}

impl Numbers<'_> {
    /// Where it has come to.
    fn offset(&self) -> usize {
        self.cursor.at
    }

    /// The next row, or none at the end of the list. Rows are whole.
    #[inline]
    fn row(&mut self, row: &mut [u64]) -> Result<bool, Damage> {
        if !self.begun {
            self.begun = true;
            self.cursor.expect(b'[', "a list")?;
            if self.cursor.take(b']') {
                return Ok(false);
            }
        } else if !self.cursor.take(b',') {
            self.cursor.expect(b']', "a comma or the end of the list")?;
            return Ok(false);
        }
        for (index, number) in row.iter_mut().enumerate() {
            if index > 0 {
                self.cursor.expect(b',', "the rest of a row")?;
            }
            *number = if self.signed { self.cursor.signed()? as u64 } else { self.cursor.number()? };
        }
        Ok(true)
    }
}

/// Nodes, one after the other.
#[derive(Clone, Debug)]
pub struct NodeRows<'a> {
    numbers: Numbers<'a>,
    rows: &'a Rows<'a>,
    done: u64,
}

impl NodeRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.numbers.offset()
    }

    /// The next node; `None` after as many as the header says.
    #[inline]
    pub fn read(&mut self) -> Result<Option<Node>, Damage> {
        let mut columns = [0u64; header::COLUMNS_MAX];
        let columns = &mut columns[..self.rows.columns.len()];
        let before = self.numbers.offset();
        if !self.numbers.row(columns)? {
            return self.end();
        }
        if self.done == self.rows.counts.nodes {
            return Err(Damage::at(self.numbers.cursor.bytes, before, "no more nodes than node_count says"));
        }
        self.done += 1;
        let mut node = Node::new(0, StringId(0), 0, 0);
        for (field, number) in self.rows.columns.iter().zip(columns.iter()) {
            match field {
                Some(NodeField::Type) => {
                    node.node_type = self.rows.small(*number, self.rows.layout.node_types.len(), before, "a node type")?
                }
                Some(NodeField::Name) => node.name = self.rows.name(*number, before)?,
                Some(NodeField::Id) => node.id = *number,
                Some(NodeField::SelfSize) => node.self_size = *number,
                Some(NodeField::EdgeCount) => node.edge_count = *number,
                Some(NodeField::TraceNodeId) => node.trace_node_id = *number,
                Some(NodeField::Detachedness) => node.detachedness = self.rows.small(*number, 3, before, "0, 1 or 2 as detachedness")?,
                None => {}
            }
        }
        Ok(Some(node))
    }

    fn end(&self) -> Result<Option<Node>, Damage> {
        if self.done == self.rows.counts.nodes {
            return Ok(None);
        }
        Err(self.numbers.cursor.damage("as many nodes as node_count says"))
    }
}

/// Edges, one after the other.
#[derive(Clone, Debug)]
pub struct EdgeRows<'a> {
    numbers: Numbers<'a>,
    nodes: NodeRows<'a>,
    from: Option<u64>,
    left: u64,
    done: u64,
}

impl EdgeRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.numbers.offset()
    }

    /// The next edge; `None` after as many as the header and the nodes say.
    #[inline]
    pub fn read(&mut self) -> Result<Option<EdgeRow>, Damage> {
        let mut columns = [0u64; header::COLUMNS_MAX];
        let rows = self.nodes.rows;
        let before = self.numbers.offset();
        if !self.numbers.row(&mut columns[..rows.edge_columns.width])? {
            return self.end();
        }
        self.done += 1;
        while self.left == 0 {
            let node =
                self.nodes.read()?.ok_or_else(|| Damage::at(self.numbers.cursor.bytes, before, "no more edges than the nodes announce"))?;
            self.left = node.edge_count;
            self.from = Some(self.from.map_or(0, |from| from + 1));
        }
        self.left -= 1;
        let [edge_type, name, to] = rows.edge_columns.pick(&columns);
        let edge_type = rows.small(edge_type, rows.layout.edge_types.len(), before, "an edge type")?;
        let name = match rows.indexed[usize::from(edge_type)] {
            true => EdgeName::Index(name),
            false => EdgeName::Text(rows.name(name, before)?),
        };
        Ok(Some(EdgeRow { from: self.from.unwrap_or(0), edge_type, name, to: rows.node(to, before)? }))
    }

    fn end(&mut self) -> Result<Option<EdgeRow>, Damage> {
        while self.left == 0 {
            match self.nodes.read()? {
                Some(node) => self.left = node.edge_count,
                None if self.done == self.nodes.rows.counts.edges => return Ok(None),
                None => break,
            }
        }
        Err(self.numbers.cursor.damage("as many edges as edge_count and the nodes say"))
    }
}

/// Locations, one after the other.
#[derive(Clone, Debug)]
pub struct LocationRows<'a> {
    numbers: Numbers<'a>,
    rows: &'a Rows<'a>,
}

impl LocationRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.numbers.offset()
    }

    /// The next location.
    pub fn read(&mut self) -> Result<Option<LocationRow>, Damage> {
        let mut columns = [0u64; header::COLUMNS_MAX];
        let before = self.numbers.offset();
        if !self.numbers.row(&mut columns[..self.rows.location_columns.width])? {
            return Ok(None);
        }
        let [node, script_id, line, column] = self.rows.location_columns.pick(&columns);
        let script = match self.rows.script_object_at {
            Some(at) => self.rows.node(columns[at], before)?,
            None => 0,
        };
        Ok(Some(LocationRow { node: self.rows.node(node, before)?, script_id, script, line, column }))
    }
}

/// The trace tree, step by step.
#[derive(Clone, Debug)]
pub struct TraceSteps<'a> {
    cursor: Cursor<'a>,
    columns: header::Columns<4>,
    /// Whether a node's own numbers may come next (else the end of its list, or a comma).
    fresh: bool,
    depth: usize,
    begun: bool,
}

impl TraceSteps<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.cursor.at
    }

    /// The next step; `None` at the end.
    pub fn read(&mut self) -> Result<Option<TraceStep>, Damage> {
        if !self.begun {
            self.begun = true;
            self.fresh = true;
            self.cursor.expect(b'[', "a list")?;
        }
        if self.cursor.take(b']') {
            self.fresh = false;
            if self.depth == 0 {
                return Ok(None);
            }
            self.depth -= 1;
            return Ok(Some(TraceStep::Close));
        }
        if !self.fresh {
            self.cursor.expect(b',', "a comma or the end of a list")?;
        }
        let mut columns = [0; header::COLUMNS_MAX];
        // The last field is the list of children.
        for column in &mut columns[..self.columns.width - 1] {
            *column = self.cursor.number()?;
            self.cursor.expect(b',', "the rest of a trace node")?;
        }
        self.cursor.expect(b'[', "the children of a trace node")?;
        self.depth += 1;
        self.fresh = true;
        Ok(Some(TraceStep::Open(self.columns.pick(&columns))))
    }
}

/// Strings, one after the other.
#[derive(Clone, Debug)]
pub struct StringRows<'a> {
    cursor: Cursor<'a>,
    begun: bool,
    text: Vec<u8>,
}

impl StringRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.cursor.at
    }

    /// The next string, in UTF-8 in which surrogates may stand alone.
    pub fn read(&mut self) -> Result<Option<&[u8]>, Damage> {
        if !self.begun {
            self.begun = true;
            self.cursor.expect(b'[', "a list")?;
            if self.cursor.take(b']') {
                return Ok(None);
            }
        } else if !self.cursor.take(b',') {
            self.cursor.expect(b']', "a comma or the end of the list")?;
            return Ok(None);
        }
        let raw = self.cursor.raw_string()?;
        unescape(raw, &mut self.text);
        Ok(Some(&self.text))
    }
}

impl<'a> Rows<'a> {
    /// The nodes.
    pub fn nodes(&'a self) -> NodeRows<'a> {
        NodeRows { numbers: self.numbers(Section::Nodes), rows: self, done: 0 }
    }

    /// The edges.
    pub fn edges(&'a self) -> EdgeRows<'a> {
        EdgeRows { numbers: self.numbers(Section::Edges), nodes: self.nodes(), from: None, left: 0, done: 0 }
    }

    /// The locations.
    pub fn locations(&'a self) -> LocationRows<'a> {
        LocationRows { numbers: self.numbers(Section::Locations), rows: self }
    }

    /// The functions in which objects were allocated.
    pub fn trace_functions(&'a self) -> TraceFunctionRows<'a> {
        TraceFunctionRows { numbers: self.numbers(Section::TraceFunctionInfos), rows: self }
    }

    /// The moments of an allocation timeline.
    pub fn samples(&'a self) -> SampleRows<'a> {
        SampleRows { numbers: self.numbers(Section::Samples), rows: self }
    }

    /// The strings.
    pub fn strings(&'a self) -> StringRows<'a> {
        StringRows { cursor: self.cursor(Section::Strings), begun: false, text: Vec::new() }
    }

    /// The trace tree.
    pub fn trace_tree(&'a self) -> TraceSteps<'a> {
        TraceSteps { cursor: self.cursor(Section::TraceTree), columns: self.trace_node_columns, fresh: false, depth: 0, begun: false }
    }

    fn numbers(&'a self, section: Section) -> Numbers<'a> {
        Numbers { cursor: self.cursor(section), begun: false, signed: section.is_of_scopes() }
    }

    /// At the start of a list; a list that is not there is an empty one.
    fn cursor(&'a self, section: Section) -> Cursor<'a> {
        match &self.ranges[section as usize] {
            Some(range) => Cursor::over(self.bytes, range),
            None => Cursor { bytes: b"[]", at: 0 },
        }
    }
}

#[cfg(test)]
mod tests;
