//! Copies the lists behind nodes and edges from one file into another: allocation sites, allocation
//! times, and places in the source.

use super::RewriteError;
use crate::names::{StringId, StringsStorage};
use crate::rows::{Rows, TraceStep};
use crate::write::{Scope, Writer};
use std::io::Write;

/// The role of a string in these lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A function's name.
    Function,
    /// A script's.
    Script,
    /// A variable's.
    Variable,
}

/// Nodes in the new file: the new ordinal of a node in each copy (by number); `None` if the copy
/// lacks the node.
pub(super) struct Places<F> {
    pub(super) copies: u64,
    pub(super) of: F,
}

/// Copies them. `name` gives strings of the file their new number.
pub(super) fn copy_small_lists<W: Write>(
    rows: &Rows<'_>,
    writer: &mut Writer<W>,
    mut name: impl FnMut(&mut StringsStorage, StringId, Use) -> Result<StringId, RewriteError>,
    places: Places<impl Fn(u64, u64) -> Option<u64>>,
) -> Result<(), RewriteError> {
    copy_traces(rows, writer, &mut name)?;
    let mut samples = rows.samples();
    while let Some([timestamp_us, last_id]) = samples.read()? {
        writer.sample(timestamp_us, last_id)?;
    }
    let mut locations = rows.locations();
    while let Some(location) = locations.read()? {
        for copy in 0..places.copies {
            if let Some(node) = (places.of)(location.node, copy) {
                // A missing script is named by its number alone.
                let script = (places.of)(location.script, copy).unwrap_or(0);
                writer.location_in(
                    node,
                    (location.script_id, script),
                    location.line,
                    location.column,
                )?;
            }
        }
    }
    if writer.layout().scopes {
        copy_scopes(rows, writer, name, places)?;
    }
    Ok(())
}

/// Copies the allocation tree.
pub(super) fn copy_traces<W: Write>(
    rows: &Rows<'_>,
    writer: &mut Writer<W>,
    mut name: impl FnMut(&mut StringsStorage, StringId, Use) -> Result<StringId, RewriteError>,
) -> Result<(), RewriteError> {
    let mut functions = rows.trace_functions();
    while let Some(row) = functions.read()? {
        let function = name(writer.strings(), row.name, Use::Function)?;
        let script = name(writer.strings(), row.script_name, Use::Script)?;
        writer.trace_function_info(row.id, function, script, row.place)?;
    }
    let mut steps = rows.trace_tree();
    while let Some(step) = steps.read()? {
        match step {
            TraceStep::Open(columns) => writer.open_trace_node(columns)?,
            TraceStep::Close => writer.close_trace_node()?,
        }
    }
    Ok(())
}

/// Copies scopes whose script remains. Each list is copied for one copy of the file after the
/// other, because a script's scopes must stay together.
pub(super) fn copy_scopes<W: Write>(
    rows: &Rows<'_>,
    writer: &mut Writer<W>,
    mut name: impl FnMut(&mut StringsStorage, StringId, Use) -> Result<StringId, RewriteError>,
    places: Places<impl Fn(u64, u64) -> Option<u64>>,
) -> Result<(), RewriteError> {
    let place = |scope: &Scope, copy: u64| (places.of)(scope.script, copy);
    for copy in 0..places.copies {
        let mut scopes = rows.scopes();
        while let Some(scope) = scopes.read()? {
            if let Some(script) = place(&scope, copy) {
                writer.scope(Scope { script, ..scope })?;
            }
        }
    }
    for copy in 0..places.copies {
        let (mut scopes, mut variables) = (rows.scopes(), rows.scope_variables());
        while let Some(scope) = scopes.read()? {
            for _ in 0..scope.context_vars {
                let variable = variables.read()?.ok_or(RewriteError::Scopes)?;
                if place(&scope, copy).is_some() {
                    let variable = name(writer.strings(), variable, Use::Variable)?;
                    writer.scope_context_var(variable)?;
                }
            }
        }
        variables.read()?.map_or(Ok(()), |_| Err(RewriteError::Scopes))?;
    }
    for copy in 0..places.copies {
        let (mut scopes, mut uses) = (rows.scopes(), rows.scope_uses());
        while let Some(scope) = scopes.read()? {
            for _ in 0..scope.uses {
                let (declaring, slot) = uses.read()?.ok_or(RewriteError::Scopes)?;
                if place(&scope, copy).is_some() {
                    writer.scope_use(declaring, slot)?;
                }
            }
        }
        uses.read()?.map_or(Ok(()), |_| Err(RewriteError::Scopes))?;
    }
    Ok(())
}
