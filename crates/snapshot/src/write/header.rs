//! What stands before the first list: the names of columns and types, and the counts.

use super::text::Output;
use super::{Counts, Layout, NodeField, WriteError};

/// Checks that readers will accept a file with this header.
pub(super) fn check_layout(layout: &Layout) -> Result<(), WriteError> {
    let fields = &layout.node_fields;
    let needed = [
        NodeField::Type,
        NodeField::Name,
        NodeField::Id,
        NodeField::SelfSize,
        NodeField::EdgeCount,
    ];
    if !needed.iter().all(|field| fields.contains(field)) {
        return Err(WriteError::Layout("lacks type, name, id, self_size or edge_count"));
    }
    if fields.iter().enumerate().any(|(at, field)| fields[..at].contains(field)) {
        return Err(WriteError::Layout("has a column twice"));
    }
    if layout.node_types.len() > 256 || layout.edge_types.len() > 256 {
        return Err(WriteError::Layout("names more than 256 types"));
    }
    if layout.node_kinds == 0 {
        return Err(WriteError::Layout("names no kind of column"));
    }
    Ok(())
}

/// The `snapshot` object, up to the first list.
pub(super) fn header(layout: &Layout, counts: Counts) -> String {
    let list = |names: &mut dyn Iterator<Item = &str>| {
        let quoted: Vec<String> = names.map(quoted).collect();
        format!("[{}]", quoted.join(","))
    };
    let node_fields = list(&mut layout.node_fields.iter().map(|field| field.name()));
    // Types stand in the place of their field.
    let mut kinds = vec!["\"number\"".to_owned(); usize::from(layout.node_kinds)];
    kinds[0] = "\"string\"".to_owned();
    let place = layout.node_fields.iter().position(|field| *field == NodeField::Type).unwrap_or(0);
    kinds.insert(place.min(kinds.len()), list(&mut layout.node_types.iter().map(String::as_str)));
    let node_types = kinds.join(",");
    let edge_types = list(&mut layout.edge_types.iter().map(String::as_str));
    let native = layout
        .extra_native_bytes
        .map_or(String::new(), |bytes| format!(",\"extra_native_bytes\":{bytes}"));
    let Counts { nodes, edges, trace_functions } = counts;
    let script_object = if layout.script_objects { "\"script_object_index\"," } else { "" };
    let scopes = if layout.scopes { SCOPE_FIELDS } else { "" };
    format!(
        "{{\"snapshot\":{{\"meta\":{{\"node_fields\":{node_fields},\
         \"node_types\":[{node_types}],\
         \"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],\
         \"edge_types\":[{edge_types},\"string_or_number\",\"node\"],\
         \"trace_function_info_fields\":[\"function_id\",\"name\",\"script_name\",\"script_id\",\"line\",\"column\"],\
         \"trace_node_fields\":[\"id\",\"function_info_index\",\"count\",\"size\",\"children\"],\
         \"sample_fields\":[\"timestamp_us\",\"last_assigned_id\"],\
         \"location_fields\":[\"object_index\",\"script_id\",{script_object}\"line\",\"column\"]{scopes}}},\
         \"node_count\":{nodes},\"edge_count\":{edges},\"trace_function_count\":{trace_functions}{native}}},\n"
    )
}

const SCOPE_FIELDS: &str = ",\"scope_fields\":[\"script_node_index\",\"scope_id\",\"depth\",\"scope_context_vars_count\",\"scope_uses_count\"],\
     \"scope_context_var_fields\":[\"name\"],\"scope_use_fields\":[\"declaring_scope_id\",\"slot_index\"]";

fn quoted(name: &str) -> String {
    let mut output = Output::new(Vec::new());
    // A vector takes everything.
    let written =
        output.string(name.as_bytes()).and_then(|()| output.into_sink()).unwrap_or_default();
    String::from_utf8(written).unwrap_or_default()
}
