//! Checks columns so that nobody looks beyond their ends or walks in circles: the invariants that
//! the reader and the analysis establish.

use crate::analysis::Answers;
use crate::meta::EdgeType;
use crate::snapshot::Snapshot;
use std::ops::Deref;

/// The error is the expectation that the columns break.
pub fn check(
    snapshot: &Snapshot,
    answers: &Answers,
    file_bytes: usize,
) -> Result<(), &'static str> {
    lengths(snapshot, answers)?;
    graph(snapshot)?;
    strings(snapshot, file_bytes)?;
    tree(answers)?;
    let (nodes, classes) = (snapshot.graph.node_count(), answers.classes.len());
    held(all_below(&answers.class_of, classes), "classes of the list")?;
    let renamed = answers.renamed.iter().all(|(node, _)| (*node as usize) < nodes);
    let large = answers.large_sizes.iter().all(|(node, _)| (*node as usize) < nodes);
    held(renamed && large, "nodes of the snapshot")
}

fn held(holds: bool, expected: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(expected) }
}

fn all_below(column: &[u32], bound: usize) -> bool {
    column.iter().copied().max().is_none_or(|largest| (largest as usize) < bound)
}

fn lengths(snapshot: &Snapshot, answers: &Answers) -> Result<(), &'static str> {
    let (graph, header) = (&snapshot.graph, &snapshot.header);
    let (nodes, edges) = (graph.node_count(), graph.edge_count());
    let Answers { tree, retained, .. } = answers;
    let by_node = [
        graph.node_names.len(),
        graph.ids.len(),
        graph.self_sizes.len(),
        graph.first_edges.len().wrapping_sub(1),
        answers.sizes.len(),
        answers.distances.len(),
        answers.class_of.len(),
        tree.vertex.len().wrapping_sub(1),
        tree.dominator.len().wrapping_sub(1),
        tree.number.len().wrapping_sub(1),
        retained.low.len().wrapping_sub(1),
    ];
    let may_be_empty = [
        graph.detachedness.len(),
        graph.trace_nodes.len(),
        answers.states.len(),
        retained.high.len().saturating_sub(1),
    ];
    held(
        nodes as u64 == header.node_count
            && edges as u64 == header.edge_count
            && by_node.iter().all(|length| *length == nodes)
            && may_be_empty.iter().all(|length| *length == 0 || *length == nodes)
            && [graph.edge_names.len(), graph.edge_targets.len()] == [edges; 2],
        "as many nodes and edges as the snapshot has",
    )
}

fn graph(snapshot: &Snapshot) -> Result<(), &'static str> {
    let (graph, strings) = (&snapshot.graph, snapshot.strings.len());
    let first = &graph.first_edges;
    held(
        first.first() == Some(&0)
            && first.last().map(|last| *last as usize) == Some(graph.edge_count())
            && rises(first),
        "edges that begin where those of the node before end",
    )?;
    let nodes = graph.node_count();
    held((graph.root as usize) < nodes, "a root among the nodes")?;
    held(all_below(&graph.edge_targets, nodes), "edges to nodes")?;
    let largest = graph
        .edge_types
        .iter()
        .zip(graph.edge_names.deref())
        .map(|(edge_type, name)| if EdgeType(*edge_type).is_indexed() { 0 } else { *name })
        .max();
    let largest = largest.unwrap_or(0).max(graph.node_names.iter().copied().max().unwrap_or(0));
    held((largest as usize) < strings, "names among the strings")?;
    let places = snapshot.locations.iter().all(|place| (place.node as usize) < nodes);
    let large = graph.large_sizes.iter().all(|(node, _)| (*node as usize) < nodes);
    held(places && large, "nodes of the snapshot")?;
    let traces = &snapshot.traces;
    let mut trace_nodes = (0u32..).zip(&traces.nodes);
    held(
        traces.functions.iter().all(|function| {
            (function.name as usize) < strings && (function.script_name as usize) < strings
        }) && trace_nodes.all(|(place, node)| {
            (node.function as usize) < traces.functions.len()
                && node.parent.is_none_or(|parent| parent < place)
        }),
        "functions that allocated and calls of them",
    )
}

fn rises<T: Ord>(column: &[T]) -> bool {
    // No way out of the loop, so that many are compared at once.
    column.windows(2).fold(true, |rises, pair| rises & (pair[0] <= pair[1]))
}

/// A string begins behind the quote that opens it, and that stands behind the one that closes the
/// string before.
fn strings(snapshot: &Snapshot, file_bytes: usize) -> Result<(), &'static str> {
    let starts = snapshot.strings.starts();
    let Some((end, starts)) = starts.split_last() else {
        return Err("the end of the list of strings");
    };
    let within = starts.first().is_none_or(|first| *first > 0)
        && starts.last().is_none_or(|last| last < end)
        && *end <= file_bytes as u64
        && starts.windows(2).fold(true, |within, pair| within & (pair[0] < pair[1]));
    held(within, "strings that begin in the file, one behind the other")
}

/// A dominator precedes its children, and each node has a number of its own. So no way upwards is
/// longer than the tree is high.
fn tree(answers: &Answers) -> Result<(), &'static str> {
    let tree = &answers.tree;
    let nodes = tree.number.len() - 1;
    let above = tree.dominator.iter().zip(0u32..).skip(2);
    held(
        tree.dominator.first() == Some(&0)
            && tree.dominator.get(1).is_none_or(|above| *above == 0)
            && above.fold(true, |holds, (above, number)| holds & (*above >= 1 && *above < number)),
        "dominators above what they dominate",
    )?;
    held(
        tree.number[..nodes]
            .iter()
            .zip(0u32..)
            .all(|(number, node)| *number > 0 && tree.vertex.get(*number as usize) == Some(&node)),
        "a number for each node",
    )
}
