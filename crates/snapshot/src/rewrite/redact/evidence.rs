//! Which names of a file are identifiers of its program's source.
//!
//! A property's name may be data (a map keyed by e-mail); a name that a compiler took from the
//! source is not. V8's snapshots have such names in four places: the text of a script (cut at 1,024
//! characters), the variables of contexts and of scopes, and the `SharedFunctionInfo` of a
//! function. A function's own name is no evidence: in another program's file it may be computed. V8
//! takes a closure's name from its `SharedFunctionInfo`, which has none for `{[user]() {}}`. So a
//! closure's name counts if its `SharedFunctionInfo`, the `code` node behind the edge `shared`, has
//! the same name.

use super::identifiers::Identifiers;
use crate::names::StringId;
use crate::rewrite::RewriteError;
use crate::rows::Rows;
use crate::write::EdgeName;

/// The facts about a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Other,
    Code,
    Closure,
    Context,
}

/// Adds the identifiers that a file has evidence of.
pub(super) fn collect_identifiers<'s>(
    rows: &Rows<'_>,
    text: impl Fn(StringId) -> &'s [u8],
    identifiers: &mut Identifiers,
) -> Result<(), RewriteError> {
    let (code, closure) = (rows.layout.node_type("code"), rows.layout.node_type("closure"));
    let mut nodes = rows.nodes();
    let (mut kinds, mut names) = (Vec::new(), Vec::new());
    while let Some(node) = nodes.read()? {
        kinds.push(match Some(node.node_type) {
            of if of == code => Kind::Code,
            of if of == closure => Kind::Closure,
            _ if text(node.name).starts_with(b"system / Context") => Kind::Context,
            _ => Kind::Other,
        });
        names.push(node.name);
    }
    let (context, internal) = (rows.layout.edge_type("context"), rows.layout.edge_type("internal"));
    let mut edges = rows.edges();
    while let Some(edge) = edges.read()? {
        let EdgeName::Text(name) = edge.name else { continue };
        let (from, to) = (edge.from as usize, edge.to as usize);
        if Some(edge.edge_type) == context && kinds[from] == Kind::Context {
            identifiers.add(text(name));
        } else if Some(edge.edge_type) == internal {
            match (kinds[from], text(name)) {
                (Kind::Code, b"source") => {
                    identifiers.add_source(text(names[to]));
                }
                (Kind::Closure, b"shared")
                    if kinds[to] == Kind::Code && text(names[from]) == text(names[to]) =>
                {
                    identifiers.add(text(names[from]));
                }
                _ => {}
            }
        }
    }
    let mut variables = rows.scope_variables();
    while let Some(name) = variables.read()? {
        identifiers.add(text(name));
    }
    Ok(())
}
