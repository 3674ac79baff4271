//! `trim`: the part of a snapshot that a question about some objects needs, to attach to a bug
//! report.
//!
//! Kept are the named objects, all that they retain (what they dominate), and their nearest
//! retainers. Of each named object and each of these retainers, a shortest path from the roots and
//! the chain of dominators are kept; further all references between kept objects, and the root. Ids
//! stay, so a trimmed file can be compared with another.
//!
//! A named object retains in the trimmed file what it retained in the original. It may retain more:
//! objects that it shared with holders that were not kept. [`Trimmed`] counts what was left out.

use super::ids::Ids;
use super::small_lists::{Places, copy_small_lists};
use super::{FileStrings, Progress, RewriteError, Ticker};
use crate::analysis::{Analysis, NO_DISTANCE};
use crate::graph::{Node as GraphNode, Retainers};
use crate::names::{Hash, StringId, StringsStorage};
use crate::rows::Rows;
use crate::write::{Counts, EdgeName, Node, Writer, Written};
use std::io::Write;

/// The named objects, and how much around them is wanted.
#[derive(Clone, Debug)]
pub struct Trimming<'a> {
    /// The objects.
    pub objects: &'a [GraphNode],
    /// Referrers of each object that are kept with their paths, the nearest first.
    pub referrers_max: usize,
}

/// Counts of kept and left-out parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// Nodes, of so many.
    pub nodes: (u64, u64),
    /// Edges, of so many.
    pub edges: (u64, u64),
    /// The file.
    pub written: Written,
}

/// Writes the trimmed file. `analysis` must be of the same file.
pub fn trim<W: Write>(
    rows: &Rows<'_>,
    analysis: &Analysis<'_, '_>,
    trimming: &Trimming<'_>,
    sink: W,
    progress: Progress<'_>,
) -> Result<(W, Trimmed), RewriteError> {
    let graph = &analysis.snapshot().graph;
    if graph.node_count() as u64 != rows.counts.nodes
        || graph.edge_count() as u64 != rows.counts.edges
    {
        return Err(RewriteError::Asked("the analysis is that of another file".to_owned()));
    }
    if let Some(node) = trimming.objects.iter().find(|node| **node as usize >= graph.node_count()) {
        return Err(RewriteError::Asked(format!("no node {node} in this file")));
    }
    let kept = kept(analysis, trimming);
    // Old ordinal -> new.
    let mut ordinals = Vec::with_capacity(kept.len());
    let mut next = 0u32;
    for keep in &kept {
        ordinals.push(if *keep { next } else { u32::MAX });
        next += u32::from(*keep);
    }
    let new = |node: u64| ordinals[node as usize];
    let edge_counts = edge_counts(rows, &ordinals)?;
    let edge_total = edge_counts.iter().map(|count| u64::from(*count)).sum();
    let counts = Counts { nodes: u64::from(next), edges: edge_total, ..rows.counts };
    let originals = FileStrings::read(rows)?;
    let mut numbers = vec![None; originals.strings.len()];
    let mut name =
        |strings: &mut StringsStorage, name: StringId| -> Result<StringId, RewriteError> {
            let number = originals.of_file[name.0 as usize];
            if let Some(known) = numbers[number.0 as usize] {
                return Ok(known);
            }
            let given = strings.intern_bytes(originals.strings.bytes_of(number))?;
            numbers[number.0 as usize] = Some(given);
            Ok(given)
        };
    let mut writer =
        Writer::with_strings(sink, rows.layout.clone(), counts, StringsStorage::new(Hash::Mixed))?;
    let mut ticker = Ticker::new(progress, rows.counts.nodes + rows.counts.edges);
    let mut ids = Ids::of(rows);
    let mut nodes = rows.nodes();
    for (keep, edge_count) in kept.iter().zip(&edge_counts) {
        ticker.tick();
        let Some(node) = nodes.read()? else { break };
        if *keep {
            let name = name(writer.strings(), node.name)?;
            ids.write(&mut writer, Node { name, edge_count: u64::from(*edge_count), ..node })?;
        }
    }
    let mut edges = rows.edges();
    while let Some(edge) = edges.read()? {
        ticker.tick();
        let (from, to) = (new(edge.from), new(edge.to));
        if from == u32::MAX || to == u32::MAX {
            continue;
        }
        let name = match edge.name {
            EdgeName::Text(text) => EdgeName::Text(name(writer.strings(), text)?),
            index => index,
        };
        writer.edge(u64::from(from), edge.edge_type, name, u64::from(to))?;
    }
    let places = Places {
        copies: 1,
        of: |node, _| Some(new(node)).filter(|new| *new != u32::MAX).map(u64::from),
    };
    copy_small_lists(rows, &mut writer, |strings, text, _| name(strings, text), places)?;
    let (sink, written) = writer.finish()?;
    Ok((
        sink,
        Trimmed {
            nodes: (counts.nodes, rows.counts.nodes),
            edges: (counts.edges, rows.counts.edges),
            written,
        },
    ))
}

/// How many edges of each node lead from a node that is kept to another.
fn edge_counts(rows: &Rows<'_>, ordinals: &[u32]) -> Result<Vec<u32>, RewriteError> {
    let is_kept = |node: u64| ordinals[node as usize] != u32::MAX;
    let mut counts = vec![0u32; ordinals.len()];
    let mut edges = rows.edges();
    while let Some(edge) = edges.read()? {
        if is_kept(edge.from) && is_kept(edge.to) {
            counts[edge.from as usize] += 1;
        }
    }
    Ok(counts)
}

/// Which nodes are kept.
fn kept(analysis: &Analysis<'_, '_>, trimming: &Trimming<'_>) -> Vec<bool> {
    let graph = &analysis.snapshot().graph;
    let mut kept = retained_by(analysis, trimming.objects);
    let backward = Retainers::of(graph);
    // Ways that meet are one from there on and walked once: the elements of a long list cost its
    // length, not its square.
    let (mut paths, mut chains) = (vec![false; kept.len()], vec![false; kept.len()]);
    let mut unreached = Unreached { kept: vec![false; kept.len()], open: Vec::new() };
    let mut keep_with_way = |node: GraphNode| {
        if analysis.distance(node) == NO_DISTANCE {
            return unreached.keep(analysis, &backward, node);
        }
        let mut at = node;
        while !std::mem::replace(&mut paths[at as usize], true) {
            kept[at as usize] = true;
            let Some(step) = analysis.shortest_step(&backward, at) else { break };
            at = step.from;
        }
        let mut at = node;
        while !std::mem::replace(&mut chains[at as usize], true) {
            kept[at as usize] = true;
            at = analysis.dominator(at);
        }
    };
    for object in trimming.objects {
        keep_with_way(*object);
        for retaining in
            analysis.retainers(&backward, *object).into_iter().take(trimming.referrers_max)
        {
            keep_with_way(retaining.from);
        }
    }
    kept[graph.root() as usize] = true;
    kept.iter_mut().zip(unreached.kept).for_each(|(kept, unreached)| *kept |= unreached);
    kept
}

/// Objects that no root reaches have no path from one. All that leads to them is kept, so that
/// their dominators stay.
struct Unreached {
    kept: Vec<bool>,
    open: Vec<GraphNode>,
}

impl Unreached {
    fn keep(&mut self, analysis: &Analysis<'_, '_>, backward: &Retainers, node: GraphNode) {
        let graph = &analysis.snapshot().graph;
        self.open.push(node);
        while let Some(node) = self.open.pop() {
            if !std::mem::replace(&mut self.kept[node as usize], true) {
                self.open.extend(backward.of_node(node).iter().map(|edge| graph.source(*edge)));
            }
        }
    }
}

/// The named objects and the objects that they dominate.
fn retained_by(analysis: &Analysis<'_, '_>, objects: &[GraphNode]) -> Vec<bool> {
    let graph = &analysis.snapshot().graph;
    // None: not known yet.
    let mut retained = vec![None; graph.node_count()];
    retained[graph.root() as usize] = Some(false);
    objects.iter().for_each(|object| retained[*object as usize] = Some(true));
    let mut chain = Vec::new();
    for node in graph.nodes() {
        let mut at = node;
        let answer = loop {
            if let Some(known) = retained[at as usize] {
                break known;
            }
            chain.push(at);
            at = analysis.dominator(at);
        };
        chain.drain(..).for_each(|node| retained[node as usize] = Some(answer));
    }
    retained.into_iter().map(|retained| retained == Some(true)).collect()
}
