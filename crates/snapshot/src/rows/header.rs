//! The header of a file: what its columns and types are, by their names.
//!
//! A file without a list of fields (other programs leave out what they have no rows for) has V8's; one whose list lacks a field that is
//! asked for is refused, because its rows cannot be understood.

use super::cursor::Cursor;
use super::damage::Damage;
use super::find::Rows;
use crate::meta::named_twice;
use crate::write::{Counts, Layout, NodeField, Rows as LineEnds, Section};

/// More columns than any file has.
pub(super) const COLUMNS_MAX: usize = 16;

/// Where known fields stand in the rows of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns<const N: usize> {
    /// Numbers in a row.
    pub(crate) width: usize,
    /// Where each field stands.
    pub(crate) at: [usize; N],
}

impl<const N: usize> Columns<N> {
    /// By the fields' names; `None` where one is missing.
    fn of(fields: &[String], names: [&str; N]) -> Option<Columns<N>> {
        let mut at = [0; N];
        for (place, name) in at.iter_mut().zip(names) {
            *place = fields.iter().position(|field| field == name)?;
        }
        Some(Columns { width: fields.len(), at })
    }

    /// The same, where no fields are V8's.
    fn or_usual(fields: &[String], names: [&str; N]) -> Option<Columns<N>> {
        if fields.is_empty() { Some(Columns { width: N, at: std::array::from_fn(|place| place) }) } else { Columns::of(fields, names) }
    }

    /// The fields of a row, in the order of their names.
    #[inline]
    pub(crate) fn pick(&self, row: &[u64]) -> [u64; N] {
        self.at.map(|at| row[at])
    }
}

/// The columns of Chromium's three lists about scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeColumns {
    /// Script, id, depth, count of variables, count of uses.
    pub(crate) scope: Columns<5>,
    /// Name.
    pub(crate) variable: Columns<1>,
    /// Scope that declares, place in it.
    pub(crate) use_of: Columns<2>,
}

impl ScopeColumns {
    fn of(meta: &Meta) -> Option<ScopeColumns> {
        let scope = ["script_node_index", "scope_id", "depth", "scope_context_vars_count", "scope_uses_count"];
        Some(ScopeColumns {
            scope: Columns::of(meta.list("scope_fields"), scope)?,
            variable: Columns::of(meta.list("scope_context_var_fields"), ["name"])?,
            use_of: Columns::of(meta.list("scope_use_fields"), ["declaring_scope_id", "slot_index"])?,
        })
    }
}

/// Lists of names that `meta` may have.
const LISTS: [&str; 11] = [
    "node_fields",
    "node_types",
    "edge_fields",
    "edge_types",
    "trace_function_info_fields",
    "trace_node_fields",
    "sample_fields",
    "location_fields",
    "scope_fields",
    "scope_context_var_fields",
    "scope_use_fields",
];

/// V8's fields of a node of the trace tree.
const TRACE_NODE_FIELDS: [&str; 5] = ["id", "function_info_index", "count", "size", "children"];

/// What `meta` says.
#[derive(Debug, Default)]
struct Meta {
    lists: [Vec<String>; LISTS.len()],
    /// Kinds of columns behind the node types.
    node_kinds: usize,
}

impl Meta {
    fn list(&self, name: &str) -> &[String] {
        LISTS.iter().position(|known| *known == name).map_or(&[], |at| &self.lists[at])
    }

    fn read(&mut self, cursor: &mut Cursor<'_>, key: &str) -> Result<(), Damage> {
        let Some(at) = LISTS.iter().position(|known| *known == key) else { return cursor.skip_value().map(|_| ()) };
        // Types are a list within the list of the columns' kinds.
        let depth_of_names = usize::from(key.ends_with("_types"));
        cursor.strings(0, &mut |depth, name| {
            if depth == depth_of_names {
                self.lists[at].push(name);
            } else if key == "node_types" && depth == 0 {
                self.node_kinds += 1;
            }
        })
    }

    /// Columns of all lists but the nodes'.
    fn widest(&self) -> usize {
        LISTS.iter().zip(&self.lists).filter(|(name, _)| name.ends_with("_fields")).map(|(_, list)| list.len()).max().unwrap_or(0)
    }
}

/// The `snapshot` object.
pub(super) fn header<'a>(cursor: &mut Cursor<'a>) -> Result<Rows<'a>, Damage> {
    let start = cursor.at;
    let (mut meta, mut nodes, mut edges, mut counts, mut native) = (Meta::default(), None, None, Counts::default(), None);
    cursor.object(&mut |cursor, key| match key {
        "meta" => cursor.object(&mut |cursor, key| meta.read(cursor, key)),
        "node_count" => cursor.number().map(|count| nodes = Some(count)),
        "edge_count" => cursor.number().map(|count| edges = Some(count)),
        "trace_function_count" => cursor.number().map(|count| counts.trace_functions = count),
        "root_index" => match cursor.number()? {
            0 => Ok(()),
            _ => Err(cursor.damage("a root that is the first node")),
        },
        "extra_native_bytes" => cursor.number().map(|count| native = Some(count)),
        _ => cursor.skip_value().map(|_| ()),
    })?;
    let missing = |expected| Damage::at(cursor.bytes, start, expected);
    counts.nodes = nodes.ok_or_else(|| missing("a header with node_count"))?;
    counts.edges = edges.ok_or_else(|| missing("a header with edge_count"))?;
    rows(cursor.bytes, &meta, counts, native).map_err(missing)
}

/// What the header says, or what it should have said.
fn rows<'a>(bytes: &'a [u8], meta: &Meta, counts: Counts, extra_native_bytes: Option<u64>) -> Result<Rows<'a>, &'static str> {
    let (node_types, edge_types) = (meta.list("node_types"), meta.list("edge_types"));
    if meta.widest() > COLUMNS_MAX || node_types.len() > 256 || edge_types.len() > 256 {
        return Err("a header with at most 16 columns and 256 types");
    }
    if [node_types, edge_types].into_iter().any(|names| named_twice(names).is_some()) {
        return Err("a header that names each type once");
    }
    let columns = node_columns(meta.list("node_fields")).ok_or("a header with the node_fields type, name, id, self_size and edge_count")?;
    let usual = TRACE_NODE_FIELDS.map(str::to_owned);
    let trace_node_fields = Some(meta.list("trace_node_fields")).filter(|fields| !fields.is_empty()).unwrap_or(&usual);
    if trace_node_fields.last().is_some_and(|last| last != "children") {
        return Err("trace_node_fields whose last is children");
    }
    let location_fields = meta.list("location_fields");
    let script_object_at = location_fields.iter().position(|field| field == "script_object_index");
    let scope_columns = ScopeColumns::of(meta);
    let layout = Layout {
        node_fields: columns.iter().flatten().copied().collect(),
        node_types: node_types.to_vec(),
        edge_types: edge_types.to_vec(),
        rows: LineEnds::OneLine,
        extra_native_bytes,
        // A file that names none was not written by V8.
        node_kinds: if meta.node_kinds == 0 { 6 } else { meta.node_kinds.min(COLUMNS_MAX) as u8 },
        script_objects: script_object_at.is_some(),
        scopes: scope_columns.is_some(),
    };
    let function_names = ["function_id", "name", "script_name", "script_id", "line", "column"];
    Ok(Rows {
        bytes,
        indexed: indexed(&layout),
        layout,
        counts,
        columns,
        edge_columns: Columns::of(meta.list("edge_fields"), ["type", "name_or_index", "to_node"])
            .ok_or("edge_fields type, name_or_index and to_node")?,
        trace_function_columns: Columns::or_usual(meta.list("trace_function_info_fields"), function_names)
            .ok_or("trace_function_info_fields function_id, name, script_name, script_id, line and column")?,
        trace_node_columns: Columns::of(trace_node_fields, ["id", "function_info_index", "count", "size"])
            .ok_or("trace_node_fields id, function_info_index, count, size and children")?,
        sample_columns: Columns::or_usual(meta.list("sample_fields"), ["timestamp_us", "last_assigned_id"])
            .ok_or("sample_fields timestamp_us and last_assigned_id")?,
        location_columns: Columns::or_usual(location_fields, ["object_index", "script_id", "line", "column"])
            .ok_or("location_fields object_index, script_id, line and column")?,
        script_object_at,
        scope_columns,
        ranges: [const { None }; Section::ALL.len()],
        string_count: 0,
    })
}

/// Which edge types have an index for a name.
fn indexed(layout: &Layout) -> [bool; 256] {
    let mut indexed = [false; 256];
    ["element", "hidden"].into_iter().filter_map(|name| layout.edge_type(name)).for_each(|number| indexed[usize::from(number)] = true);
    indexed
}

/// Columns by name; those that every file needs must be there once.
fn node_columns(names: &[String]) -> Option<Vec<Option<NodeField>>> {
    let columns: Vec<Option<NodeField>> = names.iter().map(|name| NodeField::of_name(name)).collect();
    let needed = [NodeField::Type, NodeField::Name, NodeField::Id, NodeField::SelfSize, NodeField::EdgeCount];
    let once = |field| columns.iter().filter(|column| **column == Some(field)).count() == 1;
    let twice = NodeField::ALL.into_iter().any(|field| columns.iter().filter(|column| **column == Some(field)).count() > 1);
    (!twice && needed.into_iter().all(once)).then_some(columns)
}
