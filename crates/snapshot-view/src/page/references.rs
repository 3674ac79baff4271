//! An object's references (Containment) and its retainers (Retainers).

use super::parameters::{Asked, Problem};
use super::rows::{self, Column, Order};
use heaplab_snapshot::analysis::{Analysis, Retaining};
use heaplab_snapshot::{Edge, EdgeType};
use serde_json::Value;

/// An object's references. DevTools hides invisible ones, and so does this list.
pub(super) fn references(analysis: &Analysis, asked: &Asked) -> Result<Value, Problem> {
    let graph = &analysis.snapshot().graph;
    let order = Order::of(asked)?;
    let edges: Vec<Edge> = graph
        .edges(asked.node(analysis)?)
        .filter(|edge| graph.edge_type(*edge) != EdgeType::Invisible)
        .collect();
    let total = edges.len();
    let window = asked.window()?;
    let edges = match order.column {
        Column::Name => {
            let name = |edge: &Edge| {
                let is_indexed = graph.edge_type(*edge).is_indexed();
                let name = analysis.edge_name(*edge).into_owned();
                (is_indexed, if is_indexed { graph.edge_name(*edge) } else { 0 }, name)
            };
            let mut edges = edges;
            edges.sort_by_cached_key(name);
            if order.is_descending {
                edges.reverse();
            }
            edges.into_iter().skip(window.0).take(window.1).collect()
        }
        _ => rows::window(edges, window, |edge| order.key(analysis, graph.target(*edge))),
    };
    let row = |edge: Edge| rows::referred(analysis, edge, graph.target(edge));
    Ok(rows::answer(total, edges.into_iter().map(row).collect()))
}

/// Referrers of an object, by default the nearest to a root first.
pub(super) fn retainers(analysis: &Analysis, asked: &Asked) -> Result<Value, Problem> {
    let mut retainers = analysis.retainers(analysis.backward(), asked.node(analysis)?);
    let total = retainers.len();
    let window = asked.window()?;
    let shown: Vec<Retaining> = match asked.text("sort") {
        "" | "distance" if asked.text("descending") != "1" => {
            let until = window.0.saturating_add(window.1);
            analysis.first_by_edge_name(&mut retainers, until);
            retainers.into_iter().skip(window.0).take(window.1).collect()
        }
        _ => {
            let order = Order::of(asked)?;
            rows::window(retainers, window, |retaining| order.key(analysis, retaining.from))
        }
    };
    let row = |retaining: Retaining| rows::referred(analysis, retaining.edge, retaining.from);
    Ok(rows::answer(total, shown.into_iter().map(row).collect()))
}
