//! A snapshot as a stream of rows, for the code that rewrites a file (convert, redact, trim, the
//! ladder) or validates one.
//!
//! Only the places of the lists are kept, so a file of any size passes in little memory. Every
//! number is checked before use, and errors name the byte. For speed, use the reader, which keeps
//! the columns of a graph.
//!
//! Rows may be read in any order, because the lists are found first (numbers have no brackets;
//! strings are looked through).

mod find;
mod header;
mod scopes;
mod small_lists;

pub use find::Rows;
pub(crate) use find::{BEGINNING, Located};
pub(crate) use header::rows;
pub use scopes::{ScopeRows, ScopeUseRows, ScopeVariableRows};
pub(crate) use small_lists::Ranges;

use crate::ReadError;
use crate::names::StringId;
use crate::reader::Cursor;
use crate::strings::decode;
use crate::write::{EdgeName, Node, NodeField, Section};

/// An edge with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeRow {
    /// Ordinal of the source.
    pub from: u64,
    /// Number of its type.
    pub edge_type: u8,
    /// Its name or index.
    pub name: EdgeName,
    /// Ordinal of the target.
    pub to: u64,
}

/// Where a node stands in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocationRow {
    /// Ordinal of the node.
    pub node: u64,
    /// The script's number.
    pub script_id: u64,
    /// Ordinal of the script's node, if the file has it; else the root's.
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
    done: u64,
}

impl TraceFunctionRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.numbers.offset()
    }

    /// The next function.
    pub fn read(&mut self) -> Result<Option<TraceFunctionRow>, ReadError> {
        let mut columns = [0u64; header::COLUMNS_MAX];
        let (rows, numbers) = (self.rows, &mut self.numbers);
        let of = &rows.trace_function_columns;
        let more = numbers.row(&mut columns[..of.width])?;
        let count = rows.counts.trace_functions;
        if more && self.done == count {
            return Err(
                numbers.error(0, format!("`]` behind {count} functions, as the header says"))
            );
        }
        if !more && self.done != count {
            let expected =
                format!("{count} functions, as the header says ({} are there)", self.done);
            return Err(ReadError::at(numbers.cursor.bytes, numbers.offset() - 1, expected));
        }
        if !more {
            return Ok(None);
        }
        self.done += 1;
        let [id, name, script_name, script_id, line, column] = of.pick(&columns);
        match (rows.name(name, numbers, of.at[1]), rows.name(script_name, numbers, of.at[2])) {
            (Ok(name), Ok(script_name)) => Ok(Some(TraceFunctionRow {
                id,
                name,
                script_name,
                place: [script_id, line, column],
            })),
            (name, script_name) => Err(first([name.err(), script_name.err()])),
        }
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
    pub fn read(&mut self) -> Result<Option<[u64; 2]>, ReadError> {
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
pub(crate) struct Numbers<'a> {
    cursor: Cursor<'a>,
    begun: bool,
    /// Whether numbers may be below zero; those stand in two's complement.
    signed: bool,
    /// Where the last row began, behind the comma before it.
    row_at: usize,
}

impl Numbers<'_> {
    /// The current position.
    fn offset(&self) -> usize {
        self.cursor.at
    }

    /// The next row, or none at the end of the list. Rows are whole.
    #[inline]
    fn row(&mut self, row: &mut [u64]) -> Result<bool, ReadError> {
        if !self.begun {
            self.begun = true;
            self.cursor.expect(b'[', "a list")?;
            if self.cursor.take(b']') {
                return Ok(false);
            }
        } else if !self.cursor.take(b',') {
            self.cursor.expect(b']', "a comma or `]`")?;
            return Ok(false);
        }
        self.row_at = self.cursor.at;
        let width = row.len();
        for (index, number) in row.iter_mut().enumerate() {
            if index > 0 && !self.cursor.take(b',') {
                return Err(self.cursor.error(format!("a comma: rows have {width} fields")));
            }
            *number = if self.signed {
                self.cursor.signed("an integer")? as u64
            } else {
                self.cursor.integer("an integer")?
            };
        }
        Ok(true)
    }

    /// Where a field of the last row stands.
    #[cold]
    fn field_at(&self, field: usize) -> usize {
        let mut cursor = Cursor { at: self.row_at, ..self.cursor };
        for _ in 0..field {
            let comma = memchr::memchr(b',', &cursor.bytes[cursor.at..]);
            cursor.at += comma.map_or(0, |comma| comma + 1);
        }
        cursor.peek();
        cursor.at
    }

    /// An error about a field of the last row.
    #[cold]
    fn error(&self, field: usize, expected: String) -> ReadError {
        ReadError::at(self.cursor.bytes, self.field_at(field), expected)
    }
}

/// The error of a row that stands first in the file; its fields may stand in any order.
#[cold]
fn first<const N: usize>(errors: [Option<ReadError>; N]) -> ReadError {
    let first = errors.into_iter().flatten().min_by_key(|error| error.offset);
    first.unwrap_or_else(|| ReadError::saying(0, "a row without errors", "one with"))
}

/// Nodes, one after the other.
#[derive(Clone, Debug)]
pub struct NodeRows<'a> {
    numbers: Numbers<'a>,
    rows: &'a Rows<'a>,
    done: u64,
    /// Edges that the nodes so far announce.
    announced: u64,
}

impl NodeRows<'_> {
    /// Byte of the file that comes next.
    pub fn offset(&self) -> usize {
        self.numbers.offset()
    }

    /// The next node; `None` after the header's count of nodes.
    #[inline]
    pub fn read(&mut self) -> Result<Option<Node>, ReadError> {
        let mut columns = [0u64; header::COLUMNS_MAX];
        let (rows, numbers) = (self.rows, &mut self.numbers);
        let columns = &mut columns[..rows.columns.len()];
        if !numbers.row(columns)? {
            return self.end();
        }
        if self.done == rows.counts.nodes {
            return Err(numbers
                .error(0, format!("`]` behind {} nodes, as the header says", rows.counts.nodes)));
        }
        self.done += 1;
        let mut node = Node::new(0, StringId(0), 0, 0);
        for (at, (field, number)) in rows.columns.iter().zip(columns.iter()).enumerate() {
            match field {
                Some(NodeField::Type) => {
                    node.node_type = rows.small(
                        *number,
                        rows.layout.node_types.len(),
                        numbers,
                        at,
                        "a node type",
                    )?
                }
                Some(NodeField::Name) => node.name = rows.name(*number, numbers, at)?,
                Some(NodeField::Id) => {
                    node.id = rows.short(
                        *number,
                        numbers,
                        at,
                        "an id below 2^32, as V8 and DevTools have them",
                    )?
                }
                Some(NodeField::SelfSize) => node.self_size = *number,
                Some(NodeField::EdgeCount) => {
                    self.announced = self.announced.saturating_add(*number);
                    if self.announced > rows.counts.edges {
                        return Err(numbers.error(
                            at,
                            format!(
                                "at most {} edges together, as the header says",
                                rows.counts.edges
                            ),
                        ));
                    }
                    node.edge_count = *number;
                }
                Some(NodeField::TraceNodeId) => {
                    node.trace_node_id =
                        rows.short(*number, numbers, at, "a trace node's id below 2^32")?
                }
                Some(NodeField::Detachedness) => {
                    node.detachedness = rows.small(*number, 3, numbers, at, "a detachedness")?
                }
                None => {}
            }
        }
        Ok(Some(node))
    }

    fn end(&self) -> Result<Option<Node>, ReadError> {
        let (numbers, counts) = (&self.numbers, &self.rows.counts);
        let end =
            |expected| Err(ReadError::at(numbers.cursor.bytes, numbers.offset() - 1, expected));
        if self.done != counts.nodes {
            return end(format!(
                "{} nodes, as the header says ({} are there)",
                counts.nodes, self.done
            ));
        }
        if self.announced != counts.edges {
            return end(format!(
                "nodes with {} edges together, as the header says ({} are announced)",
                counts.edges, self.announced
            ));
        }
        Ok(None)
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

    /// The next edge; `None` after the count that the header and the nodes declare. Damaged nodes
    /// give their own error.
    #[inline]
    pub fn read(&mut self) -> Result<Option<EdgeRow>, ReadError> {
        let mut columns = [0u64; header::COLUMNS_MAX];
        let (rows, numbers) = (self.nodes.rows, &mut self.numbers);
        let of = &rows.edge_columns;
        if !numbers.row(&mut columns[..of.width])? {
            return self.end();
        }
        if self.done == rows.counts.edges {
            return Err(numbers
                .error(0, format!("`]` behind {} edges, as the header says", rows.counts.edges)));
        }
        self.done += 1;
        while self.left == 0 {
            let Some(node) = self.nodes.read()? else {
                return Err(numbers
                    .error(0, format!("no more edges than the {} of the nodes", self.done - 1)));
            };
            self.left = node.edge_count;
            self.from = Some(self.from.map_or(0, |from| from + 1));
        }
        self.left -= 1;
        let [edge_type, name, to] = of.pick(&columns);
        let edge_type =
            rows.small(edge_type, rows.layout.edge_types.len(), numbers, of.at[0], "an edge type");
        let name = match edge_type
            .as_ref()
            .is_ok_and(|edge_type| !rows.indexed[usize::from(*edge_type)])
        {
            false => {
                rows.short(name, numbers, of.at[1], "an index below 2^32").map(EdgeName::Index)
            }
            true => rows.name(name, numbers, of.at[1]).map(EdgeName::Text),
        };
        match (edge_type, name, rows.node(to, numbers, of.at[2])) {
            (Ok(edge_type), Ok(name), Ok(to)) => {
                Ok(Some(EdgeRow { from: self.from.unwrap_or(0), edge_type, name, to }))
            }
            (edge_type, name, to) => Err(first([edge_type.err(), name.err(), to.err()])),
        }
    }

    fn end(&mut self) -> Result<Option<EdgeRow>, ReadError> {
        let (numbers, edges) = (&self.numbers, self.nodes.rows.counts.edges);
        if self.done != edges {
            let expected = format!("{edges} edges, as the header says ({} are there)", self.done);
            return Err(ReadError::at(numbers.cursor.bytes, numbers.offset() - 1, expected));
        }
        // The nodes that are left have no edges.
        while self.nodes.read()?.is_some() {}
        Ok(None)
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
    pub fn read(&mut self) -> Result<Option<LocationRow>, ReadError> {
        let mut columns = [0u64; header::COLUMNS_MAX];
        let (rows, numbers) = (self.rows, &mut self.numbers);
        let of = &rows.location_columns;
        if !numbers.row(&mut columns[..of.width])? {
            return Ok(None);
        }
        let [node, script_id, line, column] = of.pick(&columns);
        let script = rows.script_object_at.map_or(Ok(0), |at| rows.node(columns[at], numbers, at));
        let script_id = rows.short(script_id, numbers, of.at[1], "a script's number below 2^32");
        let (line, column) = (
            rows.short(line, numbers, of.at[2], "a line below 2^32"),
            rows.short(column, numbers, of.at[3], "a column below 2^32"),
        );
        match (rows.node(node, numbers, of.at[0]), script_id, script, line, column) {
            (Ok(node), Ok(script_id), Ok(script), Ok(line), Ok(column)) => {
                Ok(Some(LocationRow { node, script_id, script, line, column }))
            }
            (node, script_id, script, line, column) => {
                Err(first([node.err(), script_id.err(), script.err(), line.err(), column.err()]))
            }
        }
    }
}

/// The trace tree, step by step.
#[derive(Clone, Debug)]
pub struct TraceSteps<'a> {
    cursor: Cursor<'a>,
    columns: header::Columns<4>,
    /// How many there are to name.
    functions: u64,
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
    pub fn read(&mut self) -> Result<Option<TraceStep>, ReadError> {
        if !self.begun {
            self.begun = true;
            self.fresh = true;
            self.cursor.expect(b'[', "the allocation tree, a list")?;
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
            self.cursor.expect(b',', "a comma or `]`")?;
        }
        let mut columns = [0; header::COLUMNS_MAX];
        let function = self.columns.at[1];
        // The last field is the list of children.
        for (at, column) in columns[..self.columns.width - 1].iter_mut().enumerate() {
            self.cursor.peek();
            let from = self.cursor.at;
            *column = self.cursor.integer("an integer")?;
            if at == function && *column >= self.functions {
                return Err(ReadError::at(
                    self.cursor.bytes,
                    from,
                    format!("a function below {}", self.functions),
                ));
            }
            self.cursor.expect(b',', "a comma")?;
        }
        self.cursor.expect(b'[', "the children, a list")?;
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
    pub fn read(&mut self) -> Result<Option<&[u8]>, ReadError> {
        if !self.begun {
            self.begun = true;
            self.cursor.expect(b'[', "a list")?;
            if self.cursor.take(b']') {
                return Ok(None);
            }
        } else if !self.cursor.take(b',') {
            self.cursor.expect(b']', "a comma or `]`")?;
            return Ok(None);
        }
        let raw = self.cursor.string("a string in quotes")?;
        self.text.clear();
        self.text.extend_from_slice(&decode(raw));
        Ok(Some(&self.text))
    }
}

impl<'a> Rows<'a> {
    /// The nodes.
    pub fn nodes(&'a self) -> NodeRows<'a> {
        NodeRows { numbers: self.numbers(Section::Nodes), rows: self, done: 0, announced: 0 }
    }

    /// The edges.
    pub fn edges(&'a self) -> EdgeRows<'a> {
        EdgeRows {
            numbers: self.numbers(Section::Edges),
            nodes: self.nodes(),
            from: None,
            left: 0,
            done: 0,
        }
    }

    /// The locations.
    pub fn locations(&'a self) -> LocationRows<'a> {
        LocationRows { numbers: self.numbers(Section::Locations), rows: self }
    }

    /// The functions in which objects were allocated.
    pub fn trace_functions(&'a self) -> TraceFunctionRows<'a> {
        TraceFunctionRows {
            numbers: self.numbers(Section::TraceFunctionInfos),
            rows: self,
            done: 0,
        }
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
        TraceSteps {
            cursor: self.cursor(Section::TraceTree),
            columns: self.trace_node_columns,
            functions: self.counts.trace_functions,
            fresh: false,
            depth: 0,
            begun: false,
        }
    }

    fn numbers(&'a self, section: Section) -> Numbers<'a> {
        Numbers {
            cursor: self.cursor(section),
            begun: false,
            signed: section.is_of_scopes(),
            row_at: 0,
        }
    }

    /// At the start of a list; a list that is not there is an empty one.
    fn cursor(&'a self, section: Section) -> Cursor<'a> {
        match &self.ranges[section as usize] {
            Some(range) => Cursor::over(self.bytes, range),
            None => Cursor::new(b"[]"),
        }
    }
}

#[cfg(test)]
mod tests;
