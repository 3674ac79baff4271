//! The depth-first walk that numbers the nodes and collects crossing references.
//!
//! It differs from the textbook's in two ways. When a node is met, all its references are looked at
//! together: targets with a number have a smaller one, for good. So crossing references come out
//! grouped by source, four bytes each, and the processor waits for many targets at once instead of
//! one after another. And there is no stack: a column by number holds where to go on, and the
//! parents are the way back.

use crate::analysis::essential::Essential;
use crate::columns::{self, Bits};
use crate::graph::{Graph, Node};

/// The depth-first walk.
pub(super) struct Walk<'g> {
    graph: &'g Graph<'g>,
    /// The number of each node.
    pub number: Vec<u32>,
    /// The node of each number.
    pub vertex: Vec<Node>,
    /// By number.
    pub parent: Vec<u32>,
    /// By number: the least smaller number that refers to it.
    pub least: Vec<u32>,
    /// By number, one more than the edge to go on with; 0 when all have been walked.
    pub next: Vec<u32>,
    pub crossing: Crossing,
}

/// References from higher numbers to lower ones, by their source.
pub(super) struct Crossing {
    /// The targets.
    pub targets: Vec<u32>,
    /// The number of targets of each number, from 1 on.
    counts: Vec<u8>,
    /// Counts that are `MANY` or more, in their order.
    many: Vec<u32>,
}

const MANY: u8 = u8::MAX;

impl<'g> Walk<'g> {
    pub fn new(graph: &'g Graph<'g>) -> Self {
        let numbers = graph.node_count() + 1;
        // Enough if all nodes are reached, because the walk takes one reference to each. This
        // memory later holds the links of all numbers, a pair each.
        let targets =
            column(graph.edge_count().saturating_sub(graph.node_count()).max(2 * numbers), 0);
        let counts = column(numbers, 0);
        Walk {
            graph,
            number: columns::zeroed(numbers),
            vertex: column(numbers, 1),
            parent: column(numbers, 1),
            least: column(numbers, 1),
            next: column(numbers + 1, 1),
            crossing: Crossing { targets, counts, many: Vec::new() },
        }
    }

    /// Numbers a node, and returns where to go first.
    #[inline]
    fn visit(&mut self, node: Node, parent: u32, essential: &Essential<'_>) -> Option<Node> {
        let number = self.vertex.len() as u32;
        self.number[node as usize] = number;
        self.vertex.push(node);
        self.parent.push(parent);
        self.least.push(parent);
        let (mut first, mut next) = (None, 0);
        let edges = self.graph.edges(node);
        let essential = essential.from(node);
        let before = self.crossing.targets.len();
        for (edge, target) in
            edges.clone().zip(&self.graph.edge_targets[edges.start as usize..edges.end as usize])
        {
            if !essential.keeps(edge, *target) {
                continue;
            }
            let other = self.number[*target as usize];
            if other > 1 {
                self.crossing.targets.push(other);
            } else if other == 0 {
                if first.is_none() {
                    first = Some(*target);
                } else if next == 0 {
                    next = edge + 1;
                }
            }
        }
        self.crossing.end_run(before);
        self.next.push(next);
        first
    }

    /// Where to go next from a number that has been met before.
    #[inline]
    fn resume(&mut self, number: u32, essential: &Essential<'_>) -> Option<Node> {
        let first = self.next[number as usize].checked_sub(1)?;
        let node = self.vertex[number as usize];
        let end = self.graph.first_edges[node as usize + 1];
        let essential = essential.from(node);
        for edge in first..end {
            let target = self.graph.edge_targets[edge as usize];
            if !essential.keeps(edge, target) {
                continue;
            }
            let other = self.number[target as usize];
            if other == 0 {
                self.next[number as usize] = if edge + 1 < end { edge + 2 } else { 0 };
                return Some(target);
            }
            if other > number {
                let least = &mut self.least[other as usize];
                *least = (*least).min(number);
            }
        }
        self.next[number as usize] = 0;
        None
    }

    /// Walks the unnumbered nodes that a node reaches.
    pub fn from(&mut self, node: Node, parent: u32, essential: &Essential<'_>) {
        let top = self.vertex.len() as u32;
        let mut at = top;
        let mut found = self.visit(node, parent, essential);
        loop {
            while let Some(target) = found {
                let above = at;
                at = self.vertex.len() as u32;
                found = self.visit(target, above, essential);
            }
            found = self.resume(at, essential);
            while found.is_none() {
                if at == top {
                    return;
                }
                at = self.parent[at as usize];
                found = self.resume(at, essential);
            }
        }
    }

    /// Walks from nodes that no essential edge refers to.
    pub fn orphans(&mut self, essential: &Essential<'_>) {
        let graph = self.graph;
        let mut referred = Bits::new(graph.node_count());
        // All essential targets of a numbered node have numbers.
        for node in graph.nodes().filter(|node| self.number[*node as usize] == 0) {
            for edge in graph.edges(node) {
                let target = graph.target(edge);
                if essential.from(node).keeps(edge, target) {
                    referred.set(target);
                }
            }
        }
        for node in graph.nodes() {
            if self.number[node as usize] == 0 && !referred.get(node) {
                self.from(node, 1, essential);
            }
        }
    }
}

/// Room for `capacity` values, the first `len` zeroed.
fn column<T: columns::Zero>(capacity: usize, len: usize) -> Vec<T> {
    let mut column = columns::zeroed(capacity);
    column.truncate(len);
    column
}

impl Crossing {
    /// Assigns the targets since `before` to the next number as their source.
    #[inline]
    fn end_run(&mut self, before: usize) {
        let count = self.targets.len() - before;
        if count >= usize::from(MANY) {
            self.many.push(count as u32);
        }
        self.counts.push(count.min(usize::from(MANY)) as u8);
    }

    /// Each source with its targets, the highest first.
    pub fn backwards(&self) -> impl Iterator<Item = (u32, &[u32])> {
        let (mut left, mut many) = (self.targets.as_slice(), self.many.iter().rev());
        self.counts.iter().enumerate().rev().map(move |(place, count)| {
            let count = if *count == MANY {
                many.next().copied().unwrap_or(0) as usize
            } else {
                usize::from(*count)
            };
            let (before, run) = left.split_at(left.len().saturating_sub(count));
            left = before;
            (place as u32 + 1, run)
        })
    }
}
