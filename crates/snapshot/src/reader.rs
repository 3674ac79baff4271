//! Reads a `.heapsnapshot`: bytes in, columns out; strict, and bounded by the file's size in time
//! and memory.
//!
//! Source: V8's `HeapSnapshotJSONSerializer` and DevTools' `HeapSnapshotLoader`. The order of keys
//! is part of the format, so it is checked: DevTools scans forward for each key, and no tool opened
//! the files of a Julia release that reordered them. Deviations: a missing list counts as empty
//! (older writers leave some out), unknown keys are skipped, and input that DevTools accepts
//! silently is refused: numbers out of range, lists whose length differs from the header's, a cut
//! end.

mod blocks;
mod cursor;
mod instructions;
mod ints;
mod keys;
mod rows;
mod strings;

pub(crate) use cursor::Cursor;
pub use instructions::Instructions;
pub(crate) use ints::offset_of;
pub(crate) use keys::{Key, check_order};

use crate::meta::Header;
use crate::phase::{OnPhase, ended};
use crate::rows::{BEGINNING, Ranges};
use crate::snapshot::Snapshot;
use crate::strings::Strings;
use crate::write::Section;
use crate::{EdgeType, ReadError};
use keys::KEYS;

/// How to read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Threads to use: 1, or 2 to read nodes and edges at the same time.
    pub threads: usize,
    /// Whether two nodes may have the same id. DevTools does not check; diffs of such files are
    /// wrong.
    pub allow_duplicate_ids: bool,
    /// Instructions to read lists with, if the processor has them; `None` takes the best.
    pub instructions: Option<Instructions>,
    /// Called at the end of each phase.
    pub on_phase: Option<OnPhase>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { threads: 1, allow_duplicate_ids: false, instructions: None, on_phase: None }
    }
}

/// Where the large lists begin, for messages about what stands in them.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    nodes: usize,
    edges: usize,
}

/// The parts read so far.
#[derive(Default)]
struct Reading<'a> {
    snapshot: Snapshot<'a>,
    places: Places,
    largest: rows::Largest,
    /// Edges that another thread read while this one read nodes.
    ahead: Option<(usize, rows::Edges)>,
    has: [bool; KEYS.len()],
    /// Where the small lists lie.
    small: Ranges,
}

/// Reads a file, and reports the first damage in the order of the file. The fast reader may meet a
/// later damage first, because it reads lists in large pieces, and names only once it has the
/// strings. Then [`crate::validate`] checks every number in order.
pub(crate) fn read<'a>(bytes: &'a [u8], options: &ReadOptions) -> Result<Snapshot<'a>, ReadError> {
    read_in_order(bytes, options).map_err(|error| crate::validate::first_damage(bytes, error))
}

/// Like [`read`], with the damage that the reader meets first.
pub(crate) fn read_in_order<'a>(
    bytes: &'a [u8],
    options: &ReadOptions,
) -> Result<Snapshot<'a>, ReadError> {
    let mut cursor = Cursor::new(bytes);
    let mut reading = Reading::default();
    cursor.expect(b'{', BEGINNING)?;
    let mut last = None;
    loop {
        if last.is_some() && !cursor.take(b',') {
            cursor.expect(b'}', "a comma and the next key, or `}`")?;
            break;
        }
        let Some(key) = Key::read(&mut cursor, last.is_none())? else { continue };
        check_order(bytes, &key, last, reading.snapshot.header.trace_function_count > 0)?;
        last = Some(key.place);
        reading.has[key.place] = true;
        match key.section() {
            None => reading.header(&mut cursor)?,
            Some(section) => reading.list(section, &mut cursor, options)?,
        }
    }
    let end = cursor.at - 1;
    if cursor.peek().is_some() {
        return Err(cursor.error("the end of the file"));
    }
    Key::needed(
        end,
        |section| reading.has[section as usize + 1],
        reading.snapshot.header.trace_function_count,
    )?;
    reading.finish(bytes, options)
}

/// The header alone.
pub(crate) fn header(bytes: &[u8]) -> Result<Header, ReadError> {
    let mut cursor = Cursor::new(bytes);
    cursor.expect(b'{', BEGINNING)?;
    Key::read(&mut cursor, true)?;
    Ok(Header::read(&mut cursor)?.0)
}

impl<'a> Reading<'a> {
    fn header(&mut self, cursor: &mut Cursor<'a>) -> Result<(), ReadError> {
        let (header, places) = Header::read(cursor)?;
        if let Err(error) = header.check_counts(&places, cursor.bytes) {
            // A cut file has the right counts: its end is wrong, or something before.
            return Err(crate::validate::damage_but_of_counts(cursor.bytes).unwrap_or(error));
        }
        self.snapshot.header = header;
        Ok(())
    }

    fn list(
        &mut self,
        section: Section,
        cursor: &mut Cursor<'a>,
        options: &ReadOptions,
    ) -> Result<(), ReadError> {
        let header = &self.snapshot.header;
        if !matches!(section, Section::Nodes | Section::Edges | Section::Strings) {
            let rows = crate::rows::rows(cursor.bytes, header);
            self.small[section as usize] = rows.pass_small(section, cursor)?;
            return Ok(());
        }
        cursor.expect(b'[', "a list")?;
        let (bytes, at) = (cursor.bytes, cursor.at);
        let graph = &mut self.snapshot.graph;
        cursor.at = match section {
            Section::Nodes => {
                self.places.nodes = at;
                let (end, ahead) =
                    rows::nodes(bytes, at, header, options, graph, &mut self.largest)?;
                ended(options.on_phase, "nodes");
                self.ahead = ahead;
                end
            }
            Section::Edges => {
                self.places.edges = at;
                let (end, edges) = match self.ahead.take() {
                    Some(ahead) => ahead,
                    None => rows::edges(bytes, at, header, options)?,
                };
                self.largest.edge_name = edges.largest_name;
                (graph.edge_types, graph.edge_names, graph.edge_targets) =
                    (edges.types.into(), edges.names.into(), edges.targets.into());
                end
            }
            _ => {
                let found = strings::scan(
                    bytes,
                    at,
                    rows::strings_expected(&self.largest, bytes.len() - at),
                    options.instructions,
                )?;
                self.snapshot.strings = Strings::new(bytes, found.starts, found.end);
                ended(options.on_phase, "strings");
                found.end
            }
        };
        Ok(())
    }

    /// Checks that need the whole file.
    fn finish(mut self, bytes: &'a [u8], options: &ReadOptions) -> Result<Snapshot<'a>, ReadError> {
        let snapshot = &mut self.snapshot;
        let graph = &mut snapshot.graph;
        let meta = &snapshot.header.meta;
        let strings = snapshot.strings.len() as u64;
        let expected = || format!("a string's number below {strings}, the strings there are");
        if self.largest.node_name.is_some_and(|name| u64::from(name) >= strings) {
            let row =
                graph.node_names.iter().position(|name| u64::from(*name) >= strings).unwrap_or(0);
            let at = rows::offset(bytes, self.places.nodes, row, &meta.node_fields, "name");
            return Err(ReadError::at(bytes, at, expected()));
        }
        if self.largest.edge_name.is_some_and(|name| u64::from(name) >= strings) {
            let bad = |edge: usize| {
                !EdgeType(graph.edge_types[edge]).is_indexed()
                    && u64::from(graph.edge_names[edge]) >= strings
            };
            let row = (0..graph.edge_count()).find(|edge| bad(*edge)).unwrap_or(0);
            let at =
                rows::offset(bytes, self.places.edges, row, &meta.edge_fields, "name_or_index");
            return Err(ReadError::at(bytes, at, expected()));
        }
        if !options.allow_duplicate_ids
            && let Some(row) = rows::duplicate_id(graph)
        {
            let at = rows::offset(bytes, self.places.nodes, row, &meta.node_fields, "id");
            let first = graph.ids.iter().position(|id| *id == graph.ids[row]).unwrap_or(0);
            let first = rows::offset(bytes, self.places.nodes, first, &meta.node_fields, "id");
            return Err(second_id(bytes, first, at));
        }
        graph.root = (snapshot.header.root_index / meta.node_fields.len() as u64) as u32;
        crate::rows::rows(bytes, &snapshot.header).read_small(self.small, snapshot)?;
        ended(options.on_phase, "checks");
        Ok(self.snapshot)
    }
}

/// The error of a node at byte `at` whose id an earlier node has at byte `first`.
#[cold]
pub(crate) fn second_id(bytes: &[u8], first: usize, at: usize) -> ReadError {
    let expected = format!("an id that no other node has (byte {first} has it too)");
    ReadError { is_duplicate_id: true, ..ReadError::at(bytes, at, expected) }
}
