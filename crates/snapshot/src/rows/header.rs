//! A header as the places of known fields in the rows of each list.

use crate::ReadError;
use crate::meta::{
    CountPlaces, FIELDS_MAX, Header, LOCATION_FIELDS, Meta, SAMPLE_FIELDS, TRACE_FUNCTION_FIELDS,
    TRACE_NODE_FIELDS, field,
};
use crate::reader::Cursor;
use crate::rows::Rows;
use crate::write::{Counts, Layout, NodeField, Rows as LineEnds, Section};

/// More columns than any file has.
pub(super) const COLUMNS_MAX: usize = FIELDS_MAX;

const SCOPE_FIELDS: [&str; 5] =
    ["script_node_index", "scope_id", "depth", "scope_context_vars_count", "scope_uses_count"];
const SCOPE_VARIABLE_FIELDS: [&str; 1] = ["name"];
const SCOPE_USE_FIELDS: [&str; 2] = ["declaring_scope_id", "slot_index"];

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
            *place = field(fields, name)?;
        }
        Some(Columns { width: fields.len(), at })
    }

    /// The same of fields that the header's reader has made sure of.
    fn known(fields: &[String], names: [&str; N]) -> Columns<N> {
        Columns { width: fields.len(), at: names.map(|name| field(fields, name).unwrap_or(0)) }
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
        Some(ScopeColumns {
            scope: Columns::of(&meta.scope_fields, SCOPE_FIELDS)?,
            variable: Columns::of(&meta.scope_context_var_fields, SCOPE_VARIABLE_FIELDS)?,
            use_of: Columns::of(&meta.scope_use_fields, SCOPE_USE_FIELDS)?,
        })
    }
}

/// The `snapshot` object.
pub(super) fn header<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<(Rows<'a>, Header, CountPlaces), ReadError> {
    let (header, places) = Header::read(cursor)?;
    Ok((rows(cursor.bytes, &header), header, places))
}

/// The layout that the header declares. The header's reader has checked that needed fields exist.
pub(crate) fn rows<'a>(bytes: &'a [u8], header: &Header) -> Rows<'a> {
    let meta = &header.meta;
    let columns: Vec<Option<NodeField>> =
        meta.node_fields.iter().map(|name| NodeField::of_name(name)).collect();
    let script_object_at = field(&meta.location_fields, "script_object_index");
    let scope_columns = ScopeColumns::of(meta);
    let layout = Layout {
        node_fields: columns.iter().flatten().copied().collect(),
        node_types: meta.node_types.clone(),
        edge_types: meta.edge_types.clone(),
        rows: LineEnds::OneLine,
        extra_native_bytes: header.extra_native_bytes,
        // A file that names none was not written by V8.
        node_kinds: if meta.node_kinds == 0 { 6 } else { meta.node_kinds.min(COLUMNS_MAX) as u8 },
        script_objects: script_object_at.is_some(),
        scopes: scope_columns.is_some(),
    };
    let [id, function, count, size, _] = TRACE_NODE_FIELDS;
    Rows {
        bytes,
        indexed: indexed(&layout),
        layout,
        counts: Counts {
            nodes: header.node_count,
            edges: header.edge_count,
            trace_functions: header.trace_function_count,
        },
        root_index: header.root_index,
        columns,
        edge_columns: Columns::known(&meta.edge_fields, ["type", "name_or_index", "to_node"]),
        trace_function_columns: Columns::known(
            &meta.trace_function_info_fields,
            TRACE_FUNCTION_FIELDS,
        ),
        trace_node_columns: Columns::known(&meta.trace_node_fields, [id, function, count, size]),
        sample_columns: Columns::known(&meta.sample_fields, SAMPLE_FIELDS),
        location_columns: Columns::known(&meta.location_fields, LOCATION_FIELDS),
        script_object_at,
        scope_columns,
        ranges: [const { None }; Section::ALL.len()],
        string_count: 0,
        unknown: unknown_fields(meta),
        duplicate_ids: false,
    }
}

/// Unknown columns, by list and name. A list of scopes that lacks a column is unknown as a whole.
fn unknown_fields(meta: &Meta) -> Vec<String> {
    let node_fields = NodeField::ALL.map(NodeField::name);
    let location_fields = [&LOCATION_FIELDS[..], &["script_object_index"]].concat();
    let scopes_known = ScopeColumns::of(meta).is_some();
    let lists: [(Section, &[String], &[&str]); 9] = [
        (Section::Nodes, &meta.node_fields, &node_fields),
        (Section::Edges, &meta.edge_fields, &["type", "name_or_index", "to_node"]),
        (Section::TraceFunctionInfos, &meta.trace_function_info_fields, &TRACE_FUNCTION_FIELDS),
        (Section::TraceTree, &meta.trace_node_fields, &TRACE_NODE_FIELDS),
        (Section::Samples, &meta.sample_fields, &SAMPLE_FIELDS),
        (Section::Locations, &meta.location_fields, &location_fields),
        (Section::Scopes, &meta.scope_fields, &SCOPE_FIELDS),
        (Section::ScopeContextVars, &meta.scope_context_var_fields, &SCOPE_VARIABLE_FIELDS),
        (Section::ScopeUses, &meta.scope_use_fields, &SCOPE_USE_FIELDS),
    ];
    let unknown = |(section, fields, known): (Section, &[String], &[&str])| -> Vec<String> {
        let fields = fields.iter().filter(|field| !known.contains(&field.as_str()));
        fields.map(|field| format!("{}.{field}", section.key())).collect()
    };
    lists
        .into_iter()
        .filter(|(section, ..)| scopes_known || !section.is_of_scopes())
        .flat_map(unknown)
        .collect()
}

/// Which edge types have an index for a name.
fn indexed(layout: &Layout) -> [bool; 256] {
    let mut indexed = [false; 256];
    ["element", "hidden"]
        .into_iter()
        .filter_map(|name| layout.edge_type(name))
        .for_each(|number| indexed[usize::from(number)] = true);
    indexed
}
