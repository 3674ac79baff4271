//! The shortest ways to many objects, equal ones together, in time and memory of the graph's size:
//! chains and lists make each way as long as the heap is deep, so a way is never kept. Of each
//! object that a way goes through only its last step is, and the group of its way: that of the
//! object before it, and what this step adds.

use crate::analysis::Analysis;
use crate::{Edge, EdgeType, Node, Retainers};
use std::collections::HashMap;

/// Objects with the same way.
pub struct Group {
    /// The one that came first.
    pub example: Node,
    /// How many.
    pub count: u64,
    /// The sum of their retained sizes.
    pub retained_bytes: u64,
}

/// A path from the root; the middle of a long path is left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The edges from the root's side, where steps are left out.
    pub head: Vec<Edge>,
    /// Steps between.
    pub left_out: u64,
    /// The edges to the object.
    pub tail: Vec<Edge>,
}

/// A step as an addition to a path: the kind of name, the name, and the target's class.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Added {
    /// The group of the way to where the step comes from.
    before: u32,
    is_indexed: bool,
    name: u32,
    class: u32,
}

/// A group of ways before any step.
const BEGINNING: u32 = 1;
/// A node whose path is not known yet.
const UNKNOWN: u32 = 0;

/// Shortest ways.
pub struct ShortestPaths<'w, 's, 'a> {
    /// Of this heap.
    pub analysis: &'w Analysis<'s, 'a>,
    retainers: &'w Retainers,
    /// Of each node the group of its way.
    group_of: Vec<u32>,
    /// The last step of each node whose group is known; none at the beginning.
    last_step: Vec<Edge>,
    /// For each node, the last node of its path's shown beginning, so that nobody walks the whole
    /// path to show it.
    head_ends: Vec<Node>,
    /// Of a way at most so many steps are shown; 0: all.
    steps_max: usize,
    /// Of each group the steps of its ways.
    lengths: Vec<u32>,
    known: HashMap<Added, u32>,
}

impl<'w, 's, 'a> ShortestPaths<'w, 's, 'a> {
    /// No path is known yet. At most `steps_max` steps of a path are returned, half of them from
    /// the root's side; 0: all.
    pub fn new(
        analysis: &'w Analysis<'s, 'a>,
        retainers: &'w Retainers,
        steps_max: usize,
    ) -> ShortestPaths<'w, 's, 'a> {
        let nodes = analysis.snapshot().graph.node_count();
        let (group_of, last_step, head_ends) =
            (vec![UNKNOWN; nodes], vec![0; nodes], vec![0; nodes]);
        ShortestPaths {
            analysis,
            retainers,
            group_of,
            last_step,
            head_ends,
            steps_max,
            lengths: vec![0, 0],
            known: HashMap::new(),
        }
    }

    /// The objects by their ways, those with most objects first. Ways are equal if they go by the
    /// same names through the same classes; indices in arrays and tables are not names.
    pub fn groups(&mut self, nodes: &[Node]) -> Vec<Group> {
        let mut places: HashMap<u32, usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        for node in nodes {
            let place = *places.entry(self.group(*node)).or_insert_with(|| {
                groups.push(Group { example: *node, count: 0, retained_bytes: 0 });
                groups.len() - 1
            });
            groups[place].count += 1;
            groups[place].retained_bytes += self.analysis.retained_size(*node);
        }
        groups.sort_by_key(|group| std::cmp::Reverse((group.count, group.retained_bytes)));
        groups
    }

    /// The group of a node's shortest path. Each node's last step is searched once, even if many
    /// paths use it.
    fn group(&mut self, node: Node) -> u32 {
        let mut open = Vec::new();
        let mut at = node;
        while self.group_of[at as usize] == UNKNOWN {
            let Some(step) = self.analysis.shortest_step(self.retainers, at) else {
                self.group_of[at as usize] = BEGINNING;
                self.head_ends[at as usize] = at;
                break;
            };
            self.last_step[at as usize] = step.edge;
            open.push(at);
            at = step.from;
        }
        let mut group = self.group_of[at as usize];
        while let Some(next) = open.pop() {
            let added = self.added(group, self.last_step[next as usize], next);
            let (length, number) = (self.lengths[group as usize] + 1, self.lengths.len() as u32);
            group = *self.known.entry(added).or_insert(number);
            if group == number {
                self.lengths.push(length);
            }
            self.group_of[next as usize] = group;
            let is_head = length as usize <= self.head_max();
            let before = self.analysis.snapshot().graph.source(self.last_step[next as usize]);
            self.head_ends[next as usize] =
                if is_head { next } else { self.head_ends[before as usize] };
        }
        group
    }

    fn added(&self, before: u32, edge: Edge, to: Node) -> Added {
        let graph = &self.analysis.snapshot().graph;
        let name = if is_numbered(self.analysis, edge) { u32::MAX } else { graph.edge_name(edge) };
        Added {
            before,
            is_indexed: graph.edge_type(edge).is_indexed(),
            name,
            class: self.analysis.class_of(to),
        }
    }

    /// The path to an object of [`ShortestPaths::groups`]; the middle of a long path is left out.
    pub fn way(&self, node: Node) -> Way {
        let length = self.lengths[self.group_of[node as usize] as usize] as usize;
        let first = self.head_max();
        if self.steps_max == 0 || length <= self.steps_max {
            return Way { tail: self.last_steps(node, length), ..Way::default() };
        }
        let last = self.steps_max - first;
        let head = self.last_steps(self.head_ends[node as usize], first);
        Way { head, left_out: (length - self.steps_max) as u64, tail: self.last_steps(node, last) }
    }

    /// So many steps that lead to a node.
    fn last_steps(&self, node: Node, count: usize) -> Vec<Edge> {
        let graph = &self.analysis.snapshot().graph;
        let mut at = node;
        let mut steps: Vec<Edge> = Vec::with_capacity(count);
        for _ in 0..count {
            let edge = self.last_step[at as usize];
            steps.push(edge);
            at = graph.source(edge);
        }
        steps.reverse();
        steps
    }

    fn head_max(&self) -> usize {
        self.steps_max / 2
    }
}

/// Whether the reference is one of many alike: an element, or an internal reference with a number
/// in its name.
pub fn is_numbered(analysis: &Analysis, edge: Edge) -> bool {
    let kind = analysis.snapshot().graph.edge_type(edge);
    kind.is_indexed()
        || (kind == EdgeType::Internal
            && analysis.edge_name(edge).starts_with(|first: char| first.is_ascii_digit()))
}
