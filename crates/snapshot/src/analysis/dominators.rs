//! Dominators: the node whose death makes another node garbage. Node d dominates v if every path
//! from the root to v leads through d. The nearest such d is v's immediate dominator. It is unique,
//! so any algorithm gives DevTools' answers.
//!
//! Source: the semi-NCA algorithm (Georgiadis, Tarjan, Werneck: Finding dominators in practice,
//! 2006), as in LLVM. A depth-first walk numbers the nodes. For each node, in decreasing order, the
//! semidominator is the least number from which a path of larger numbers leads to the node, found
//! by compressing paths. The dominator is the nearest common ancestor of parent and semidominator.
//! Deviations, for memory and caches: everything is indexed by the walk's number, so neighbours in
//! the tree are neighbours in memory. References to nodes with higher numbers are folded into one
//! value at once; only the others are kept, sorted by target. Labels are the semidominators
//! themselves. And if the climb to the common ancestor takes too many steps (deep chains with an
//! index beside them would make it quadratic), it goes on by jump pointers (Myers 1983), so the
//! whole stays near-linear.
//!
//! Unreachable nodes are handled as in DevTools. A node without any essential reference hangs off
//! the root, with the nodes that it reaches. The rest (cycles) hangs off the root node by node, and
//! its references do not count.

mod walk;

use super::essential::Essential;
use crate::columns::{self, Column, Pool};
use crate::graph::{Graph, Node};
use crate::phase::{OnPhase, ended};
use walk::{Crossing, Walk};

/// Steps of climbing a node that are taken before jump pointers are built.
const CLIMB_STEPS_A_NODE: usize = 8;

/// The dominator tree by numbers of the depth-first walk: 1 is the root, and 0 is nothing.
#[derive(Clone, Debug)]
pub(crate) struct Tree<'a> {
    /// The node of each number.
    pub vertex: Column<'a, Node>,
    /// The number of each number's immediate dominator, always smaller; the root's is 0.
    pub dominator: Column<'a, u32>,
    /// The number of each node.
    pub number: Column<'a, u32>,
}

/// The dominators of all nodes. Scratch memory goes to the pool.
pub(super) fn dominators(
    essential: &Essential<'_>,
    pool: &mut Pool,
    on_phase: Option<OnPhase>,
) -> Tree<'static> {
    let graph = essential.graph;
    let mut walk = Walk::new(graph);
    walk.from(graph.root(), 0, essential);
    let reached = walk.vertex.len() - 1;
    if reached < graph.node_count() {
        walk.orphans(essential);
    }
    let Walk { number, vertex, parent, mut least, next, crossing, .. } = walk;
    let walked = vertex.len();
    ended(on_phase, "depth-first walk");
    let preds = Predecessors::sorted(&crossing, walked, next);
    ended(on_phase, "sorting references");
    let (mut dominator, links) = semidominators(parent, &preds, &mut least, crossing.targets);
    ended(on_phase, "semidominators");
    pool.give(links);
    pool.give(preds.first);
    pool.give(preds.numbers);
    climb(&mut dominator, &least, CLIMB_STEPS_A_NODE * walked + 1000);
    ended(on_phase, "dominators");
    pool.give(least);
    let mut tree =
        Tree { vertex: vertex.into(), dominator: dominator.into(), number: number.into() };
    tree.add_unreached(graph);
    tree
}

impl Tree<'_> {
    /// Hangs nodes without a number off the root.
    fn add_unreached(&mut self, graph: &Graph) {
        if self.vertex.len() > graph.node_count() {
            return;
        }
        let Tree { vertex, dominator, number } = self;
        let (vertex, dominator, number) = (vertex.to_mut(), dominator.to_mut(), number.to_mut());
        for node in graph.nodes() {
            if number[node as usize] == 0 {
                number[node as usize] = vertex.len() as u32;
                vertex.push(node);
                dominator.push(1);
            }
        }
    }
}

/// References to each number from higher numbers, grouped by target.
struct Predecessors {
    first: Vec<u32>,
    numbers: Vec<u32>,
}

impl Predecessors {
    /// By counting: ends of the groups first, moved to their beginnings while they fill. `first` is
    /// only memory, with room for one more than numbers.
    fn sorted(crossing: &Crossing, numbers: usize, mut first: Vec<u32>) -> Self {
        first.clear();
        first.resize(numbers + 1, 0);
        for target in &crossing.targets {
            first[*target as usize] += 1;
        }
        let mut end = 0;
        for slot in &mut first {
            end += *slot;
            *slot = end;
        }
        let mut sorted: Vec<u32> = columns::zeroed(crossing.targets.len());
        for (source, targets) in crossing.backwards() {
            for target in targets {
                let slot = &mut first[*target as usize];
                *slot -= 1;
                sorted[*slot as usize] = source;
            }
        }
        Predecessors { first, numbers: sorted }
    }

    fn of(&self, number: usize) -> &[u32] {
        &self.numbers[self.first[number] as usize..self.first[number + 1] as usize]
    }
}

/// For each number, an ancestor and the least semidominator on the way there; side by side, because
/// they are read together.
type Link = [u32; 2];

/// Turns `least` into semidominators. Gives the parents back.
/// `column` is only memory and comes back, too.
fn semidominators(
    parent: Vec<u32>,
    preds: &Predecessors,
    least: &mut [u32],
    mut column: Vec<u32>,
) -> (Vec<u32>, Vec<u32>) {
    column.clear();
    parent.iter().for_each(|parent| column.extend_from_slice(&[*parent, 0]));
    let (links, _) = column.as_chunks_mut::<2>();
    let mut path = Vec::new();
    for number in (2..parent.len()).rev() {
        let mut semi = least[number];
        for from in preds.of(number) {
            if semi == 1 {
                break;
            }
            semi = semi.min(label(links, *from, number as u32, &mut path));
        }
        least[number] = semi;
        links[number][1] = semi;
    }
    (parent, column)
}

/// The least semidominator among a number's ancestors above `until`, itself included. Paths are
/// compressed.
#[inline]
fn label(links: &mut [Link], from: u32, until: u32, path: &mut Vec<u32>) -> u32 {
    let [above, label] = links[from as usize];
    if above <= until {
        return label;
    }
    let mut number = from;
    while links[number as usize][0] > until {
        path.push(number);
        number = links[number as usize][0];
    }
    let [top, mut least] = links[number as usize];
    while let Some(number) = path.pop() {
        let link = &mut links[number as usize];
        least = least.min(link[1]);
        *link = [top, least];
    }
    least
}

/// Turns parents into dominators: the nearest ancestor in the dominator tree that is at most the
/// semidominator.
fn climb(dominator: &mut [u32], semi: &[u32], steps: usize) {
    let mut left = steps;
    for number in 2..dominator.len() {
        let mut candidate = dominator[number];
        while candidate > semi[number] {
            candidate = dominator[candidate as usize];
            left = left.saturating_sub(1);
        }
        dominator[number] = candidate;
        if left == 0 {
            return climb_by_jumps(dominator, semi, number + 1);
        }
    }
}

/// The same for numbers from `from` on, in logarithmic time each.
fn climb_by_jumps(dominator: &mut [u32], semi: &[u32], from: usize) {
    let mut depth: Vec<u32> = columns::zeroed(dominator.len());
    let mut jump: Vec<u32> = columns::zeroed(dominator.len());
    jump[1] = 1;
    for number in 2..dominator.len() {
        if number >= from {
            let mut candidate = dominator[number] as usize;
            while candidate as u32 > semi[number] {
                let far = jump[candidate];
                candidate = if far > semi[number] { far } else { dominator[candidate] } as usize;
            }
            dominator[number] = candidate as u32;
        }
        let above = dominator[number] as usize;
        depth[number] = depth[above] + 1;
        let (near, far) = (jump[above] as usize, jump[jump[above] as usize] as usize);
        jump[number] = if depth[above] - depth[near] == depth[near] - depth[far] {
            far as u32
        } else {
            above as u32
        };
    }
}
