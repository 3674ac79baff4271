//! The last step of a shortest way to each node, all found in one pass over the edges, and the
//! numbers of ways: equal numbers are ways by the same names through the same classes.
//!
//! [`Analysis::shortest_step`] finds the same for one node from its retainers. Here the pass is
//! forward, which needs no retainers, and of several steps that are as short it prefers one that
//! keeps its target and one that a program's author knows: a property rather than an internal.

use super::heads::{Heads, Realms};
use crate::analysis::{Analysis, BASE_SYSTEM_DISTANCE};
use crate::columns;
use crate::graph::{Edge, Node};
use crate::meta::{EdgeType, NodeType};
use crate::shortest_paths::is_numbered;
use hashbrown::{HashMap, HashSet};

/// No step leads to the node.
const NO_STEP: Edge = Edge::MAX;
/// Rank of a step, best bit first: the step keeps a head; its source is one step nearer to the
/// root; it keeps a node that is not a head; a program's author knows it. A reference that keeps
/// nothing (a shortcut) may still show the path to an object that another reference keeps, but is
/// never one to cut.
const KEEPS_HEAD: u8 = 16;
const NEAR: u8 = 8;
const KEEPS: u8 = 4;
const KNOWN_EDGE: u8 = 2;
const KNOWN_SOURCE: u8 = 1;
/// A step of any kind.
const ANY: u8 = 128;

/// The last steps of shortest ways.
pub struct Steps {
    last: Vec<Edge>,
}

/// Steps that lead into the realms of heads.
#[derive(Default)]
pub(super) struct Crossings {
    /// From a node that lives without heads: edge, its source, the head's place.
    pub borders: Vec<(Edge, Node, u32)>,
    /// From one realm to another, by their places.
    pub between: Vec<(u32, u32)>,
}

impl Steps {
    /// The steps to all nodes, and what crosses into the realms of heads.
    pub(super) fn with_borders(analysis: &Analysis, heads: &Heads) -> (Steps, Crossings) {
        let graph = &analysis.snapshot().graph;
        let mut last: Vec<Edge> = columns::zeroed(graph.node_count());
        last.fill(NO_STEP);
        let mut ranks: Vec<u8> = columns::zeroed(graph.node_count());
        let mut crossings = Crossings::default();
        analysis.with_essential(|essential| {
            let realms = Realms::of(essential, heads);
            for source in graph.nodes() {
                let from = essential.from(source);
                let known = known_source(graph.node_type(source));
                for edge in graph.edges(source) {
                    let target = graph.target(edge);
                    if graph.edge_type(edge) == EdgeType::Weak {
                        continue;
                    }
                    let keeps = from.keeps(edge, target);
                    if let Some(nearness) = nearness(analysis, source, target) {
                        let keeps = match (keeps, heads.place(target)) {
                            (false, _) => 0,
                            (true, None) => KEEPS,
                            (true, Some(_)) => KEEPS_HEAD,
                        };
                        let edge_known = known_edge(graph.edge_type(edge));
                        let rank = ANY | keeps | nearness | edge_known | known;
                        if rank > ranks[target as usize] {
                            ranks[target as usize] = rank;
                            last[target as usize] = edge;
                        }
                    }
                    if keeps {
                        realms.cross(analysis, (edge, source, target), &mut crossings);
                    }
                }
            }
        });
        crossings.between.sort_unstable();
        crossings.between.dedup();
        (Steps { last }, crossings)
    }

    /// The edge and its source.
    fn to(&self, analysis: &Analysis, node: Node) -> Option<(Edge, Node)> {
        let edge = self.last[node as usize];
        (edge != NO_STEP).then(|| (edge, analysis.snapshot().graph.source(edge)))
    }

    /// The object that a node belongs to: an array or an internal that one object alone keeps is
    /// that object's.
    pub(super) fn holder(&self, analysis: &Analysis, node: Node) -> Node {
        let mut at = node;
        while is_internal(analysis.snapshot().graph.node_type(at)) {
            match self.to(analysis, at) {
                Some((_, owner)) if owner == analysis.dominator(at) => at = owner,
                _ => break,
            }
        }
        at
    }

    /// The edges of the way from the root to a node.
    pub fn way(&self, analysis: &Analysis, node: Node) -> Vec<Edge> {
        let mut way = Vec::new();
        let mut at = node;
        while let Some((edge, from)) = self.to(analysis, at) {
            way.push(edge);
            at = from;
        }
        way.reverse();
        way
    }
}

/// Whether a path to the target may come from this source; `None` if the source is no nearer to the
/// root.
fn nearness(analysis: &Analysis, source: Node, target: Node) -> Option<u8> {
    let (from, to) = (analysis.distance(source), analysis.distance(target));
    let root = analysis.snapshot().graph.root();
    if target == root || to < 0 {
        return None;
    }
    // The root's own distance is that of engine internals, whatever the root holds.
    if to <= 1 || to == BASE_SYSTEM_DISTANCE + 1 {
        return (source == root).then_some(NEAR);
    }
    (0..to).contains(&from).then(|| if from + 1 == to { NEAR } else { 0 })
}

fn known_source(node_type: NodeType) -> u8 {
    if is_internal(node_type) { 0 } else { KNOWN_SOURCE }
}

fn is_internal(node_type: NodeType) -> bool {
    matches!(node_type, NodeType::Hidden | NodeType::Array | NodeType::Code | NodeType::ObjectShape)
}

fn known_edge(edge_type: EdgeType) -> u8 {
    let known = [EdgeType::Property, EdgeType::Element, EdgeType::Context, EdgeType::Shortcut];
    if known.contains(&edge_type) { KNOWN_EDGE } else { 0 }
}

/// A step as an addition to a path: the kind of name, the name, and the target's class.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Added {
    is_indexed: bool,
    name: u32,
    class: u32,
}

/// The way of the root, before any step.
const BEGINNING: u32 = 1;
/// The group of a node that is not computed yet.
const UNKNOWN: u32 = 0;
/// The name of steps whose names do not count.
const ANY_NAME: u32 = u32::MAX;
/// So many leaked objects of a class under names of one holder are entries of a map.
const ENTRIES_MIN: u32 = 4;

/// Numbers of ways.
pub(super) struct NumberedPaths<'w, 's, 'a> {
    analysis: &'w Analysis<'s, 'a>,
    steps: &'w Steps,
    heads: &'w Heads,
    /// Of each node the number of its way.
    numbers: Vec<u32>,
    /// For each node, two more than the first leaked node on its path; 1: none.
    entries: Vec<u32>,
    /// Of each number the last step of its ways.
    last_added: Vec<Option<Added>>,
    known: HashMap<(u32, Added), u32>,
    /// Holders of many leaked objects of a class.
    maps: HashSet<(Node, u32)>,
}

impl<'w, 's, 'a> NumberedPaths<'w, 's, 'a> {
    pub fn new(analysis: &'w Analysis<'s, 'a>, steps: &'w Steps, heads: &'w Heads) -> Self {
        let nodes = analysis.snapshot().graph.node_count();
        NumberedPaths {
            analysis,
            steps,
            heads,
            numbers: columns::zeroed(nodes),
            entries: columns::zeroed(nodes),
            last_added: vec![None, None],
            known: HashMap::new(),
            maps: HashSet::new(),
        }
    }

    /// Finds holders that have many leaked objects of a class under names.
    pub fn wildcards(&mut self, crossings: &Crossings) {
        let graph = &self.analysis.snapshot().graph;
        let mut counts: HashMap<(Node, u32), u32> = HashMap::new();
        for (edge, from, place) in &crossings.borders {
            if graph.edge_type(*edge) == EdgeType::Property {
                let class = self.analysis.class_of(self.heads.nodes[*place as usize]);
                *counts.entry((*from, class)).or_default() += 1;
            }
        }
        let many = counts.into_iter().filter(|(_, count)| *count >= ENTRIES_MIN);
        self.maps = many.map(|(holder, _)| holder).collect();
    }

    /// The first leaked object on the way to a leaked one.
    pub fn entry(&mut self, node: Node) -> Node {
        let mut open = Vec::new();
        let mut at = node;
        let mut entry = loop {
            match self.entries[at as usize] {
                UNKNOWN => open.push(at),
                known => break known,
            }
            match self.steps.to(self.analysis, at) {
                Some((_, from)) => at = from,
                None => break 1,
            }
        };
        while let Some(next) = open.pop() {
            if entry == 1 && self.heads.leaked.get(next) {
                entry = next + 2;
            }
            self.entries[next as usize] = entry;
        }
        entry.checked_sub(2).unwrap_or(node)
    }

    /// The step to a node.
    pub fn step(&self, node: Node) -> Option<Edge> {
        self.steps.to(self.analysis, node).map(|(edge, _)| edge)
    }

    /// The way to an object that leaked and comes first on its way.
    pub fn of_entry(&mut self, entry: Node) -> u32 {
        match self.steps.to(self.analysis, entry) {
            Some((edge, from)) => self.of_border(edge, from, entry),
            None => BEGINNING,
        }
    }

    /// The way that goes over a border.
    pub fn of_border(&mut self, edge: Edge, from: Node, to: Node) -> u32 {
        let before = self.of_node(from);
        let mut added = self.added(edge, to);
        if self.maps.contains(&(from, added.class)) {
            added.name = ANY_NAME;
        }
        self.longer(before, added)
    }

    fn of_node(&mut self, node: Node) -> u32 {
        let mut open = Vec::new();
        let mut at = node;
        let mut number = loop {
            match (self.numbers[at as usize], self.steps.to(self.analysis, at)) {
                (UNKNOWN, Some((edge, from))) => {
                    open.push((at, edge));
                    at = from;
                }
                (UNKNOWN, None) => break BEGINNING,
                (known, _) => break known,
            }
        };
        while let Some((next, edge)) = open.pop() {
            if !self.is_chained(edge, next) {
                number = self.longer(number, self.added(edge, next));
            }
            self.numbers[next as usize] = number;
        }
        number
    }

    /// Whether the step leads from an internal to another of its kind, as in a list of reactions.
    fn is_chained(&self, edge: Edge, to: Node) -> bool {
        let graph = &self.analysis.snapshot().graph;
        let from = graph.source(edge);
        is_internal(graph.node_type(to))
            && graph.node_type(from) == graph.node_type(to)
            && graph.node_name(from) == graph.node_name(to)
    }

    /// The object that a node belongs to.
    pub fn holder(&self, node: Node) -> Node {
        self.steps.holder(self.analysis, node)
    }

    fn added(&self, edge: Edge, to: Node) -> Added {
        let graph = &self.analysis.snapshot().graph;
        Added {
            is_indexed: graph.edge_type(edge).is_indexed(),
            name: if is_numbered(self.analysis, edge) { ANY_NAME } else { graph.edge_name(edge) },
            class: self.analysis.class_of(to),
        }
    }

    /// The way that is a step longer; the same step again makes it no longer.
    fn longer(&mut self, before: u32, added: Added) -> u32 {
        if self.last_added[before as usize] == Some(added) {
            return before;
        }
        let new = self.last_added.len() as u32;
        let number = *self.known.entry((before, added)).or_insert(new);
        if number == new {
            self.last_added.push(Some(added));
        }
        number
    }
}
