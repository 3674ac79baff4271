//! Reads a `.heapsnapshot`: bytes in, columns out; strict, and bounded by the file's size in time and memory.
//!
//! Source: V8's `HeapSnapshotJSONSerializer` and DevTools' `HeapSnapshotLoader`. The order of keys is part of the format (DevTools scans
//! forward for each; a Julia release that reordered them wrote files that nothing opened), so it is checked. Deviations: a list that
//! is absent is taken for an empty one (older writers leave some out), keys that we do not know are skipped, and what DevTools takes
//! silently is refused here: numbers out of range, lists of another length than the header says, a cut end.

mod blocks;
mod cursor;
mod instructions;
mod ints;
mod lists;
mod rows;
mod strings;

pub(crate) use cursor::Cursor;
pub use instructions::Instructions;

use crate::graph::Graph;
use crate::meta::Header;
use crate::phase::{OnPhase, ended};
use crate::snapshot::Snapshot;
use crate::strings::Strings;
use crate::{EdgeType, ReadError};

/// The keys of a snapshot in their order.
const KEYS: [&[u8]; 11] = [
    b"snapshot",
    b"nodes",
    b"edges",
    b"trace_function_infos",
    b"trace_tree",
    b"samples",
    b"locations",
    b"scopes",
    b"scope_context_vars",
    b"scope_uses",
    b"strings",
];

/// How to read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Threads to use: 1, or 2 to read nodes and edges at the same time.
    pub threads: usize,
    /// Whether two nodes may have the same id. DevTools does not look; diffs of such files lie.
    pub allow_duplicate_ids: bool,
    /// Instructions to read lists with, if the processor has them; `None` takes the best.
    pub instructions: Option<Instructions>,
    /// Told of each phase's end.
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

/// What has been read so far.
#[derive(Default)]
struct Reading<'a> {
    snapshot: Snapshot<'a>,
    places: Places,
    largest: rows::Largest,
    /// Edges that another thread read while this one read nodes.
    ahead: Option<(usize, rows::Edges)>,
    has: [bool; KEYS.len()],
    trace_names: lists::Names,
}

/// Reads a file.
pub(crate) fn read<'a>(bytes: &'a [u8], options: &ReadOptions) -> Result<Snapshot<'a>, ReadError> {
    let mut cursor = Cursor::new(bytes);
    let mut reading = Reading::default();
    cursor.expect(b'{', "`{\"snapshot\":`, the beginning of a heap snapshot")?;
    let mut last_key = None;
    loop {
        if last_key.is_some() && !cursor.take(b',') {
            cursor.expect(b'}', "a comma and the next key, or `}`")?;
            break;
        }
        cursor.peek();
        let key_at = cursor.at;
        let key = cursor.string("a key in quotes")?;
        cursor.expect(b':', "a colon")?;
        let Some(place) = KEYS.iter().position(|known| *known == key) else {
            if last_key.is_none() {
                return Err(ReadError::at(bytes, key_at, "the key `snapshot`, the first of a heap snapshot"));
            }
            cursor.skip()?;
            continue;
        };
        check_order(bytes, key_at, place, last_key)?;
        last_key = Some(place);
        reading.has[place] = true;
        reading.value(place, &mut cursor, options)?;
    }
    let end = cursor.at - 1;
    if cursor.peek().is_some() {
        return Err(cursor.error("the end of the file"));
    }
    for needed in [1, 2, 10] {
        if !reading.has[needed] {
            let key = String::from_utf8_lossy(KEYS[needed]);
            return Err(ReadError::saying(end, format!("the key `{key}`"), "the end of the snapshot"));
        }
    }
    reading.finish(bytes, options)
}

/// Keys come once, in their order, and `snapshot` first.
fn check_order(bytes: &[u8], at: usize, place: usize, last: Option<usize>) -> Result<(), ReadError> {
    let name = |place: usize| String::from_utf8_lossy(KEYS[place]).into_owned();
    match last {
        None if place != 0 => Err(ReadError::at(bytes, at, "the key `snapshot`, the first of a heap snapshot")),
        Some(last) if place <= last => Err(ReadError::at(
            bytes,
            at,
            format!("a key that comes behind `{}` (`{}` must stand before it, once)", name(last), name(place)),
        )),
        Some(last) if last == 0 && place > 1 => Err(ReadError::at(bytes, at, "the key `nodes`")),
        Some(last) if last == 1 && place > 2 => Err(ReadError::at(bytes, at, "the key `edges`")),
        _ => Ok(()),
    }
}

impl<'a> Reading<'a> {
    fn value(&mut self, place: usize, cursor: &mut Cursor<'a>, options: &ReadOptions) -> Result<(), ReadError> {
        if place == 0 {
            cursor.peek();
            let from = cursor.at;
            self.snapshot.header = Header::read(cursor)?;
            return rows::check_counts(&self.snapshot.header, cursor.bytes, from);
        }
        let header = &self.snapshot.header;
        if place == 4 {
            return lists::trace_tree(cursor, header, &mut self.snapshot.traces);
        }
        // Lists that nothing here needs; Chromium's scopes have negative numbers.
        if (7..10).contains(&place) {
            return cursor.skip();
        }
        cursor.expect(b'[', "a list")?;
        let (bytes, at) = (cursor.bytes, cursor.at);
        let list = lists::List { bytes, at, instructions: options.instructions };
        let graph = &mut self.snapshot.graph;
        cursor.at = match place {
            1 => {
                self.places.nodes = at;
                let (end, ahead) = rows::nodes(bytes, at, header, options, graph, &mut self.largest)?;
                ended(options.on_phase, "nodes");
                self.ahead = ahead;
                end
            }
            2 => {
                self.places.edges = at;
                let (end, edges) = match self.ahead.take() {
                    Some(ahead) => ahead,
                    None => rows::edges(bytes, at, header, options)?,
                };
                self.largest.edge_name = edges.largest_name;
                (graph.edge_types, graph.edge_names, graph.edge_targets) = (edges.types, edges.names, edges.targets);
                end
            }
            3 => lists::trace_functions(&list, header, &mut self.snapshot.traces, &mut self.trace_names)?,
            5 => lists::samples(&list, header, &mut self.snapshot.samples)?,
            6 => lists::locations(&list, header, &mut self.snapshot.locations)?,
            _ => {
                let found = strings::scan(bytes, at, rows::strings_expected(&self.largest, bytes.len() - at), options.instructions)?;
                self.snapshot.strings = Strings::new(bytes, found.starts, found.end);
                ended(options.on_phase, "strings");
                found.end
            }
        };
        Ok(())
    }

    /// What can only be checked once everything is there.
    fn finish(mut self, bytes: &'a [u8], options: &ReadOptions) -> Result<Snapshot<'a>, ReadError> {
        let snapshot = &mut self.snapshot;
        let graph = &mut snapshot.graph;
        let meta = &snapshot.header.meta;
        let strings = snapshot.strings.len() as u64;
        let expected = || format!("a string's number below {strings}, the strings there are");
        if self.largest.node_name.is_some_and(|name| u64::from(name) >= strings) {
            let row = graph.node_names.iter().position(|name| u64::from(*name) >= strings).unwrap_or(0);
            let at = rows::offset(bytes, self.places.nodes, row, &meta.node_fields, "name");
            return Err(ReadError::at(bytes, at, expected()));
        }
        if self.largest.edge_name.is_some_and(|name| u64::from(name) >= strings) {
            let bad = |edge: usize| !EdgeType(graph.edge_types[edge]).is_indexed() && u64::from(graph.edge_names[edge]) >= strings;
            let row = (0..graph.edge_count()).find(|edge| bad(*edge)).unwrap_or(0);
            let at = rows::offset(bytes, self.places.edges, row, &meta.edge_fields, "name_or_index");
            return Err(ReadError::at(bytes, at, expected()));
        }
        if let Some(at) = self.trace_names.beyond(strings) {
            return Err(ReadError::at(bytes, at, expected()));
        }
        if !options.allow_duplicate_ids
            && let Some(row) = rows::duplicate_id(graph)
        {
            let at = rows::offset(bytes, self.places.nodes, row, &meta.node_fields, "id");
            return Err(ReadError::at(bytes, at, "an id that no other node has"));
        }
        self.set_root(bytes)?;
        ended(options.on_phase, "checks");
        Ok(self.snapshot)
    }

    fn set_root(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        let graph: &mut Graph = &mut self.snapshot.graph;
        let header = &self.snapshot.header;
        let fields = header.meta.node_fields.len() as u64;
        let root = header.root_index / fields;
        if graph.node_count() == 0 {
            return Err(ReadError::at(bytes, self.places.nodes, "at least one node, the root"));
        }
        if !header.root_index.is_multiple_of(fields) || root >= graph.node_count() as u64 {
            let expected = format!("`root_index` to be a multiple of {fields} within the nodes");
            return Err(ReadError::saying(0, expected, header.root_index.to_string()));
        }
        graph.root = root as u32;
        Ok(())
    }
}
