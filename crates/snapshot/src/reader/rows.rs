//! Rows of `nodes` and `edges` into columns. Each row is checked as it passes: types, targets, ids,
//! and the sum of the nodes' edge counts. A violation only sets a flag in the inner loop; a second
//! look at the file finds its place.
//!
//! With two threads the second reads `edges` while the first reads `nodes`: no number has a
//! bracket, so that the end of the first list is one search away. If anything about that fails, the
//! file is read in order, so that the first error is the same however many threads there are.

use super::cursor::Cursor;
use super::ints::{self, FILL_ROOM, Ints};
use super::{Instructions, ReadOptions};
use crate::columns;
use crate::graph::Graph;
use crate::meta::{EdgeType, Header, NodeType, field};
use crate::phase::ended;
use crate::{ReadError, graph::Node};

/// Unknown, attached, detached.
const DETACHEDNESS_BELOW: u64 = 3;

/// Rows that are converted before they are distributed to columns: small enough for the first
/// cache.
const ROWS_AT_ONCE: usize = 512;

/// Largest numbers of strings, to be checked when their list has been read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Largest {
    pub node_name: Option<u32>,
    pub edge_name: Option<u32>,
}

/// Columns of edges.
#[derive(Debug, Default)]
pub(super) struct Edges {
    pub types: Vec<u8>,
    pub names: Vec<u32>,
    pub targets: Vec<Node>,
    pub largest_name: Option<u32>,
}

/// Where a field's value stands in the file.
#[cold]
pub(super) fn offset(
    bytes: &[u8],
    list_at: usize,
    row: usize,
    fields: &[String],
    name: &str,
) -> usize {
    ints::offset_of(
        bytes,
        list_at,
        row as u64 * fields.len() as u64 + field(fields, name).unwrap_or(0) as u64,
    )
}

/// A guess of how many strings there are, to make room for them; every string takes three bytes of
/// the rest of the file.
pub(super) fn strings_expected(largest: &Largest, rest: usize) -> usize {
    let named = largest.node_name.max(largest.edge_name).map_or(0, |name| name as usize + 1);
    named.min(rest / 3)
}

/// Reads a list of numbers as rows of `fields`; the header promised `count` rows. Returns the place
/// behind the list.
fn for_rows(
    bytes: &[u8],
    at: usize,
    instructions: Option<Instructions>,
    (what, fields, count): (&str, usize, usize),
    mut chunk: impl FnMut(usize, &[u64]) -> Result<(), ReadError>,
) -> Result<usize, ReadError> {
    let mut ints = Ints::new(bytes, at, instructions);
    let mut buffer = vec![0u64; fields * ROWS_AT_ONCE + FILL_ROOM];
    let (mut held, mut row) = (0, 0);
    loop {
        let filled = ints.fill(&mut buffer[held..])?;
        if filled == 0
            && let Some(end) = ints.end()
        {
            if held != 0 || row != count {
                let there = if held == 0 {
                    format!("{row} are there")
                } else {
                    format!("{row} and {held} numbers are there")
                };
                let expected =
                    format!("{count} {what} of {fields} fields, as the header says ({there})");
                return Err(ReadError::at(bytes, end - 1, expected));
            }
            return Ok(end);
        }
        held += filled;
        let rows = held / fields;
        if row + rows > count {
            let surplus = ints::offset_of(bytes, at, count as u64 * fields as u64);
            return Err(ReadError::at(
                bytes,
                surplus,
                format!("`]` behind {count} {what}, as the header says"),
            ));
        }
        chunk(row, &buffer[..rows * fields])?;
        buffer.copy_within(rows * fields..held, 0);
        held -= rows * fields;
        row += rows;
    }
}

/// Reads `nodes`; with two threads, `edges` too.
pub(super) fn nodes(
    bytes: &[u8],
    at: usize,
    header: &Header,
    options: &ReadOptions,
    graph: &mut Graph,
    largest: &mut Largest,
) -> Result<(usize, Option<(usize, Edges)>), ReadError> {
    let edges_at = if options.threads > 1 { edges_begin(bytes, at) } else { None };
    let Some(edges_at) = edges_at else {
        return Ok((read_nodes(bytes, at, header, options.instructions, graph, largest)?, None));
    };
    std::thread::scope(|scope| {
        let ahead = scope.spawn(|| edges(bytes, edges_at, header, options).ok());
        let end = read_nodes(bytes, at, header, options.instructions, graph, largest);
        let ahead = ahead.join().ok().flatten();
        Ok((end?, ahead))
    })
}

/// Where the list of edges begins, if it follows directly.
fn edges_begin(bytes: &[u8], nodes_at: usize) -> Option<usize> {
    let mut cursor = Cursor::new(bytes);
    cursor.at = nodes_at + memchr::memchr(b']', &bytes[nodes_at..])? + 1;
    let begins = cursor.take(b',')
        && cursor.string("").ok()? == b"edges"
        && cursor.take(b':')
        && cursor.take(b'[');
    begins.then_some(cursor.at)
}

/// Where the fields of a node stand.
struct NodeFields {
    node_type: usize,
    name: usize,
    id: usize,
    self_size: usize,
    edge_count: usize,
    trace_node: Option<usize>,
    detachedness: Option<usize>,
}

impl NodeFields {
    fn of(header: &Header) -> NodeFields {
        let fields = &header.meta.node_fields;
        // The header's reader has checked that needed fields exist.
        let place = |name| field(fields, name).unwrap_or(0);
        NodeFields {
            node_type: place("type"),
            name: place("name"),
            id: place("id"),
            self_size: place("self_size"),
            edge_count: place("edge_count"),
            trace_node: field(fields, "trace_node_id"),
            detachedness: field(fields, "detachedness"),
        }
    }
}

/// A node's place in each column, and its ordinal.
type NodeSlots<'g> =
    (((((&'g mut u8, &'g mut u32), &'g mut u32), &'g mut u32), &'g mut u32), usize);

/// A file's numbers of types as ours.
struct Types {
    known: [u8; 256],
    count: u64,
}

impl Types {
    fn of(types: impl Iterator<Item = u8>) -> Types {
        let mut table = Types { known: [0; 256], count: 0 };
        for (slot, known) in table.known.iter_mut().zip(types) {
            *slot = known;
            table.count += 1;
        }
        table
    }

    /// Our number, and whether the file's header has this type.
    #[inline]
    fn get(&self, number: u64) -> (u8, bool) {
        (self.known[usize::from(number as u8)], number < self.count)
    }
}

fn read_nodes(
    bytes: &[u8],
    at: usize,
    header: &Header,
    instructions: Option<Instructions>,
    graph: &mut Graph,
    largest: &mut Largest,
) -> Result<usize, ReadError> {
    let fields = NodeFields::of(header);
    let count = header.node_count as usize;
    let types = Types::of(
        NodeType::table(&header.meta.node_types).into_iter().map(|node_type| node_type.0),
    );
    *graph = Graph {
        node_types: columns::zeroed(count).into(),
        node_names: columns::zeroed(count).into(),
        ids: columns::zeroed(count).into(),
        self_sizes: columns::zeroed(count).into(),
        first_edges: columns::zeroed(count + 1).into(),
        detachedness: columns::zeroed(if fields.detachedness.is_some() { count } else { 0 }).into(),
        trace_nodes: columns::zeroed(if fields.trace_node.is_some() { count } else { 0 }).into(),
        ..Graph::default()
    };
    let (mut edge, mut largest_name) = (0u64, 0u64);
    let width = header.meta.node_fields.len();
    let places = [fields.node_type, fields.name, fields.id, fields.self_size, fields.edge_count];
    let end = for_rows(bytes, at, instructions, ("nodes", width, count), |first, rows| {
        let mut wrong = false;
        let columns = graph.node_types.to_mut()[first..]
            .iter_mut()
            .zip(&mut graph.node_names.to_mut()[first..])
            .zip(&mut graph.ids.to_mut()[first..]);
        let columns = columns
            .zip(&mut graph.self_sizes.to_mut()[first..])
            .zip(&mut graph.first_edges.to_mut()[first..])
            .zip(first..);
        let large_sizes = &mut graph.large_sizes;
        let distribute = |((((((to_type, to_name), to_id), to_size), to_first), node), row): (
            NodeSlots<'_>,
            [u64; 5],
        )| {
            let [node_type, name, id, size, edges] = row;
            let (node_type, known) = types.get(node_type);
            (*to_type, *to_name, *to_id, *to_size, *to_first) =
                (node_type, name as u32, id as u32, size as u32, edge as u32);
            largest_name = largest_name.max(name);
            if size >> 32 != 0 {
                large_sizes.push((node as Node, size));
            }
            edge = edge.saturating_add(edges);
            wrong |= !known | ((name | id) >> 32 != 0) | (edge > header.edge_count);
        };
        // The layouts of V8 are worth loops without bounds to check.
        match (places == [0, 1, 2, 3, 4], width) {
            (true, 6) => columns.zip(leading_five::<6>(rows)).for_each(distribute),
            (true, 7) => columns.zip(leading_five::<7>(rows)).for_each(distribute),
            _ => columns
                .zip(rows.chunks_exact(width).map(|row| places.map(|place| row[place])))
                .for_each(distribute),
        }
        let wrong = wrong | side_columns(graph, &fields, first, rows, width);
        if wrong { Err(wrong_node(bytes, at, header, graph, first, rows)) } else { Ok(()) }
    })?;
    graph.first_edges.to_mut()[count] = edge as u32;
    if edge != header.edge_count {
        let expected = format!(
            "nodes with {} edges together, as the header says ({edge} are announced)",
            header.edge_count
        );
        return Err(ReadError::at(bytes, end - 1, expected));
    }
    largest.node_name = (count > 0).then_some(largest_name as u32);
    Ok(end)
}

/// The first five numbers of each row of `N`.
fn leading_five<const N: usize>(rows: &[u64]) -> impl Iterator<Item = [u64; 5]> + '_ {
    rows.as_chunks::<N>().0.iter().map(|row| [row[0], row[1], row[2], row[3], row[4]])
}

/// The columns that only some versions have, and whether something is wrong with them.
fn side_columns(
    graph: &mut Graph,
    fields: &NodeFields,
    first: usize,
    rows: &[u64],
    width: usize,
) -> bool {
    let mut above = 0;
    if let Some(place) = fields.trace_node {
        for (to, row) in
            graph.trace_nodes.to_mut()[first..].iter_mut().zip(rows.chunks_exact(width))
        {
            above |= row[place] >> 32;
            *to = row[place] as u32;
        }
    }
    if let Some(place) = fields.detachedness {
        for (to, row) in
            graph.detachedness.to_mut()[first..].iter_mut().zip(rows.chunks_exact(width))
        {
            above |= u64::from(row[place] >= DETACHEDNESS_BELOW);
            *to = row[place] as u8;
        }
    }
    above != 0
}

/// The error of the first wrong row of a chunk.
#[cold]
fn wrong_node(
    bytes: &[u8],
    at: usize,
    header: &Header,
    graph: &Graph,
    first: usize,
    rows: &[u64],
) -> ReadError {
    let names = &header.meta.node_fields;
    let fields = NodeFields::of(header);
    let types = header.meta.node_types.len();
    let mut edge = u64::from(graph.first_edges[first]);
    for (node, row) in (first..).zip(rows.chunks_exact(names.len())) {
        edge = edge.saturating_add(row[fields.edge_count]);
        let side = |place: Option<usize>| place.map_or(0, |place| row[place]);
        let checks = [
            ("type", row[fields.node_type] >= types as u64, format!("a node type below {types}")),
            ("name", row[fields.name] >> 32 != 0, "a string's number below 2^32".to_owned()),
            (
                "id",
                row[fields.id] >> 32 != 0,
                "an id below 2^32, as V8 and DevTools have them".to_owned(),
            ),
            (
                "edge_count",
                edge > header.edge_count,
                format!("at most {} edges together, as the header says", header.edge_count),
            ),
            (
                "trace_node_id",
                side(fields.trace_node) >> 32 != 0,
                "a trace node's id below 2^32".to_owned(),
            ),
            (
                "detachedness",
                side(fields.detachedness) >= DETACHEDNESS_BELOW,
                format!("a detachedness below {DETACHEDNESS_BELOW}"),
            ),
        ];
        if let Some((name, _, expected)) = checks.into_iter().find(|(_, wrong, _)| *wrong) {
            return ReadError::at(bytes, offset(bytes, at, node, names, name), expected);
        }
    }
    ReadError::at(bytes, at, "nodes within their bounds")
}

/// Reads `edges`.
pub(super) fn edges(
    bytes: &[u8],
    at: usize,
    header: &Header,
    options: &ReadOptions,
) -> Result<(usize, Edges), ReadError> {
    let names = &header.meta.edge_fields;
    let [node_type, name, target] =
        ["type", "name_or_index", "to_node"].map(|name| field(names, name).unwrap_or(0));
    let types = Types::of(
        EdgeType::table(&header.meta.edge_types).into_iter().map(|edge_type| edge_type.0),
    );
    let (count, width) = (header.edge_count as usize, names.len());
    let mut edges = Edges {
        types: columns::zeroed(count),
        names: columns::zeroed(count),
        targets: columns::zeroed(count),
        largest_name: None,
    };
    let node_fields = header.meta.node_fields.len() as u64;
    // The upper half of a product with this is the quotient, exactly, for every index below 2^58.
    let inverse = (1u128 << 64).div_ceil(u128::from(node_fields));
    // One more than the largest number of a name.
    let mut names_below = 0;
    let end = for_rows(bytes, at, options.instructions, ("edges", width, count), |first, rows| {
        let columns = edges.types[first..]
            .iter_mut()
            .zip(&mut edges.names[first..])
            .zip(&mut edges.targets[first..]);
        let mut wrong = false;
        let distribute = |(((to_type, to_name), to_target), row): (
            ((&mut u8, &mut u32), &mut u32),
            [u64; 3],
        )| {
            let (edge_type, known) = types.get(row[0]);
            let to = ((u128::from(row[2]) * inverse) >> 64) as u64;
            wrong |= !known
                | (row[1] >> 32 != 0)
                | (to * node_fields != row[2])
                | (to >= header.node_count);
            (*to_type, *to_name, *to_target) = (edge_type, row[1] as u32, to as u32);
            names_below = names_below.max(if EdgeType(edge_type).is_indexed() {
                0
            } else {
                row[1].saturating_add(1)
            });
        };
        // The layout that all writers have is worth a loop without bounds to check.
        if (node_type, name, target, width) == (0, 1, 2, 3) {
            columns.zip(rows.as_chunks().0.iter().copied()).for_each(distribute);
        } else {
            columns
                .zip(rows.chunks_exact(width).map(|row| [row[node_type], row[name], row[target]]))
                .for_each(distribute);
        }
        if wrong { Err(wrong_edge(bytes, at, header, first, rows)) } else { Ok(()) }
    })?;
    edges.largest_name = (names_below > 0).then(|| (names_below - 1) as u32);
    ended(options.on_phase, "edges");
    Ok((end, edges))
}

/// The error of the first wrong row of a chunk.
#[cold]
fn wrong_edge(bytes: &[u8], at: usize, header: &Header, first: usize, rows: &[u64]) -> ReadError {
    let names = &header.meta.edge_fields;
    let place = |name| field(names, name).unwrap_or(0);
    let (types, fields) = (header.meta.edge_types.len(), header.meta.node_fields.len() as u64);
    for (edge, row) in (first..).zip(rows.chunks_exact(names.len())) {
        let target = row[place("to_node")];
        let checks = [
            ("type", row[place("type")] >= types as u64, format!("an edge type below {types}")),
            (
                "name_or_index",
                row[place("name_or_index")] >> 32 != 0,
                "a string's number or an index below 2^32".to_owned(),
            ),
            (
                "to_node",
                !target.is_multiple_of(fields) || target / fields >= header.node_count,
                format!(
                    "a multiple of {fields} below {}, the index of a node",
                    header.node_count * fields
                ),
            ),
        ];
        if let Some((name, _, expected)) = checks.into_iter().find(|(_, wrong, _)| *wrong) {
            return ReadError::at(bytes, offset(bytes, at, edge, names, name), expected);
        }
    }
    ReadError::at(bytes, at, "edges within their bounds")
}

/// The second node of an id, if one has.
pub(super) fn duplicate_id(graph: &Graph) -> Option<usize> {
    // V8 counts ids up; embedders may make them of addresses. Those far out are few and are sorted
    // instead.
    let near = (graph.node_count() as u64 * 64).min(1 << 32);
    let mut seen = columns::Bits::sparse(near as usize);
    let mut far: Vec<(u32, Node)> = Vec::new();
    let mut first = None;
    for (node, id) in graph.ids.iter().enumerate() {
        if u64::from(*id) >= near {
            far.push((*id, node as Node));
        } else if seen.replace(*id) {
            first = Some(node);
            break;
        }
    }
    far.sort_unstable();
    let among_far =
        far.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1 as usize).min();
    [first, among_far].into_iter().flatten().min()
}
