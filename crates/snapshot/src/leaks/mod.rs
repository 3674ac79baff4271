//! Leaks from three snapshots: objects born between the first two and alive in the third, grouped
//! by the path that holds them, with the reference to cut.
//!
//! The method is memlab's, and that of every manual hunt: take (base), act, take (target), undo the
//! act, take (final). An object that the act made and its undoing did not free has leaked. Unlike
//! memlab, no rule selects suspects: all leaked objects are suspect, and retained size orders them.
//! [`Leaks::of`] takes a filter for callers who want fewer.
//!
//! **Counting.** Only objects of the program count ([`is_of_program`]): hash tables, code and
//! shapes belong to the objects that use them, and a grown table is not the leak. Of the leaked
//! objects only the *heads* count, those that no other leaked object dominates, so no byte counts
//! twice. The retained sizes of all heads add up to the cost of all leaks.
//!
//! **Groups.** A head belongs to the first leaked object on its shortest path from the root. Paths
//! are equal if they have the same names through the same classes. Indices do not count as names. A
//! repeated step (`next`, `next`) counts once, a chain of internals not at all. If one holder has
//! many leaked objects of a class under names of their own (an object used as a map), these names
//! do not count.
//!
//! **The cut.** The last step of such a path leads from an older object to a leaked one: the
//! border. [`Leaks::cut`] gives the number of steps like it, and the bytes that cutting all of them
//! frees. The bytes are computed, not guessed. Heads are reached over borders and from each other,
//! so a walk over heads alone suffices. Objects that stay have other holders, which are named.
//!
//! **Growth.** An array of numbers that grows makes no object of the program. [`grown`] finds the
//! older objects that take more themselves.

mod born;
mod cut;
mod grown;
mod heads;
mod steps;
#[cfg(test)]
mod tests;

pub use born::{Born, BornError};
pub use cut::{Cut, Holder};
pub use grown::{Grown, OwnSizes, grown};
pub use steps::Steps;

use crate::analysis::Analysis;
use crate::graph::{Edge, Node};
use crate::meta::NodeType;
use cut::Borders;
use hashbrown::HashMap;
use heads::Heads;
use std::cmp::Reverse;
use steps::NumberedPaths;

/// Objects that leaked by one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The heads, those that retain most first.
    pub heads: Vec<Node>,
    /// Their retained bytes together.
    pub retained_bytes: u64,
    /// The leaked object at the end of the path: of this group's, the one whose head retains most.
    pub entry: Node,
    /// The step to the entry; `None` if no strong reference leads there.
    pub step: Option<Edge>,
    /// The number of the way.
    way: u32,
}

/// All leaks of a final snapshot.
pub struct Leaks<'l, 's, 'a> {
    analysis: &'l Analysis<'s, 'a>,
    /// The groups, those that retain most first.
    pub groups: Vec<Leak>,
    /// The objects that leaked, whether heads or not.
    pub objects: u64,
    steps: Steps,
    heads: Heads,
    borders: Borders,
}

/// Whether nodes of this type belong to the program, not to the engine.
fn is_objects_type(node_type: NodeType) -> bool {
    !matches!(
        node_type,
        NodeType::Hidden
            | NodeType::Array
            | NodeType::Code
            | NodeType::ObjectShape
            | NodeType::Synthetic
    )
}

/// Whether the node is an object of the program: one of such a type, and none of Blink's own.
///
/// Blink's own classes (`blink::LayoutText`) have the type of a page's elements (`<div>`,
/// `HTMLDocument`), and no program makes one: it makes the element that they belong to, and they go
/// with it.
pub fn is_of_program(analysis: &Analysis, node: Node) -> bool {
    let kind = analysis.snapshot().graph.node_type(node);
    let is_blinks = || {
        let name = analysis.name_bytes(node);
        let name = name.strip_prefix(b"Detached ").unwrap_or(&name);
        name.starts_with(b"blink::")
    };
    is_objects_type(kind) && !(kind == NodeType::Native && is_blinks())
}

impl<'l, 's, 'a> Leaks<'l, 's, 'a> {
    /// The leaks in the final snapshot: the objects that were `born` and for which `keep` holds.
    pub fn of(
        analysis: &'l Analysis<'s, 'a>,
        born: &Born,
        keep: impl Fn(Node) -> bool,
    ) -> Leaks<'l, 's, 'a> {
        let graph = &analysis.snapshot().graph;
        let (heads, objects) = Heads::of(analysis, |node| {
            analysis.self_size(node) > 0
                && analysis.distance(node) >= 0
                && born.contains(graph.id(node))
                && is_of_program(analysis, node)
                && keep(node)
        });
        let (steps, edges) = Steps::with_borders(analysis, &heads);
        let mut ways = NumberedPaths::new(analysis, &steps, &heads);
        ways.wildcards(&edges);
        let borders = Borders::of(edges, &heads, &mut ways);
        let groups = groups(analysis, &heads, &mut ways);
        Leaks { analysis, groups, objects, steps, heads, borders }
    }

    /// The effect of cutting a group's steps, and the other holders of what stays.
    pub fn cut(&self, group: &Leak) -> Cut {
        self.borders.cut(self.analysis, &self.heads, group)
    }

    /// The steps that [`Leaks::cut`] cuts.
    pub fn steps_of(&self, group: &Leak) -> impl Iterator<Item = Edge> {
        self.borders.steps_of(group)
    }

    /// The edges of the way from the root to the object, and with them what leads to the border.
    pub fn way(&self, node: Node) -> Vec<Edge> {
        self.steps.way(self.analysis, node)
    }

    /// The object that a node belongs to: a table that one object alone keeps is that object's.
    pub fn holder(&self, node: Node) -> Node {
        self.steps.holder(self.analysis, node)
    }

    /// What the heads of each of the first `count` groups dominate that leaked, too: classes with
    /// their numbers of objects, outer ones first.
    pub fn inside(&self, count: usize) -> Vec<Vec<(u32, u64)>> {
        const NONE: u32 = u32::MAX;
        let mut group_of = vec![NONE; self.heads.nodes.len()];
        for (number, group) in (0..).zip(self.groups.iter().take(count)) {
            for place in group.heads.iter().filter_map(|head| self.heads.place(*head)) {
                group_of[place as usize] = number;
            }
        }
        let mut inside: Vec<HashMap<u32, (u64, u64)>> = vec![HashMap::new(); count];
        let graph = &self.analysis.snapshot().graph;
        for node in graph.nodes().filter(|node| self.heads.leaked.get(*node)) {
            let Some(place) = self.heads.owner(node) else { continue };
            let group = group_of[place as usize];
            if group != NONE && self.heads.place(node).is_none() {
                let class = inside[group as usize].entry(self.analysis.class_of(node)).or_default();
                class.0 += 1;
                class.1 = class.1.saturating_add(self.analysis.retained_size(node));
            }
        }
        // What holds others retains at least as much as these.
        let sorted = |classes: HashMap<u32, (u64, u64)>| {
            let mut classes: Vec<_> = classes.into_iter().collect();
            classes.sort_by_key(|(class, (_, retained))| (Reverse(*retained), *class));
            classes.into_iter().map(|(class, (objects, _))| (class, objects)).collect()
        };
        inside.into_iter().map(sorted).collect()
    }

    /// What all leaks retain, bytes.
    pub fn retained_bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.retained_bytes).sum()
    }
}

/// The heads by the way to the first leaked object before them.
fn groups(analysis: &Analysis, heads: &Heads, ways: &mut NumberedPaths) -> Vec<Leak> {
    let mut places: HashMap<u32, usize> = HashMap::new();
    let mut groups: Vec<Leak> = Vec::new();
    for head in &heads.nodes {
        let entry = ways.entry(*head);
        let way = ways.of_entry(entry);
        let place = *places.entry(way).or_insert_with(|| {
            groups.push(Leak { heads: Vec::new(), retained_bytes: 0, entry, step: None, way });
            groups.len() - 1
        });
        let group = &mut groups[place];
        group.heads.push(*head);
        group.retained_bytes = group.retained_bytes.saturating_add(analysis.retained_size(*head));
        if analysis.retained_size(entry) > analysis.retained_size(group.entry) {
            group.entry = entry;
        }
    }
    for group in &mut groups {
        group.heads.sort_by_key(|head| (Reverse(analysis.retained_size(*head)), *head));
        group.step = ways.step(group.entry);
    }
    groups.sort_by_key(|group| (Reverse(group.retained_bytes), group.entry));
    groups
}
