//! Leaks of three snapshots: what was born between the first two and is alive in the third, by the
//! way that holds it, with the reference to cut.
//!
//! The method is that of memlab and of every manual hunt: take (base), act, take (target), undo
//! the act, take (final). What the act made and undoing it did not free has leaked. Unlike memlab
//! no rule says which objects are suspect: all are, and what they retain orders them.
//! [`Leaks::of`] takes a filter for who wants fewer.
//!
//! **What counts.** An object of the program ([`is_of_program`]): hash tables, code and shapes
//! belong to whom they serve, and a table that grew is not what leaked. Of the objects that leaked
//! only the *heads* are counted, those that no other one dominates, so that no byte is counted
//! twice. The retained sizes of all heads are what all leaks together cost.
//!
//! **Groups.** A head belongs to the first leaked object on its shortest way from the root; ways
//! are equal if they go by the same names through the same classes. Indices are no names; a step
//! that repeats (`next`, `next`) counts once, and a chain of internals none; where one holder has
//! many leaked objects of a class under names of their own (an object used as a map), these names
//! do not count.
//!
//! **The cut.** The last step of such a way leads from an object that was there before to one that
//! leaked: the border. [`Leaks::cut`] says how many steps like it there are and what goes when all
//! of them are cut, which is computed and not guessed: heads are reached over borders and from each
//! other, so that it takes a walk over heads alone. What stays has other holders, and they are
//! named.

mod born;
mod cut;
mod heads;
mod steps;
#[cfg(test)]
mod tests;

pub use born::{Born, BornError};
pub use cut::{Cut, Holder};
pub use steps::Steps;

use crate::analysis::Analysis;
use crate::graph::{Edge, Node};
use crate::meta::NodeType;
use cut::Borders;
use hashbrown::HashMap;
use heads::Heads;
use std::cmp::Reverse;
use steps::Ways;

/// Objects that leaked by one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The heads, those that retain most first.
    pub heads: Vec<Node>,
    /// What they retain together, bytes.
    pub retained_bytes: u64,
    /// The leaked object at the end of the way, of those of this group the one whose own head
    /// retains most.
    pub entry: Node,
    /// The step to it; none where nothing strong leads there.
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

/// Whether nodes of that type are objects of the program and not what the engine keeps for them.
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

/// How the names of Blink's tables begin: of vectors and hash tables on its own heap, and of what
/// holds their elements. Source: Blink's `platform/heap/collection_support`.
const BLINK_TABLES: [&[u8]; 3] =
    [b"blink::HeapVectorBacking<", b"blink::HeapHashTableBacking<", b"blink::BasicHeapVector<"];

/// Whether the node is an object of the program: one of such a type, and no table of Blink's, which
/// has the type of a page's elements.
pub fn is_of_program(analysis: &Analysis, node: Node) -> bool {
    let kind = analysis.snapshot().graph.node_type(node);
    let is_blinks = || {
        let name = analysis.name_bytes(node);
        BLINK_TABLES.iter().any(|start| name.starts_with(start))
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
        let mut ways = Ways::new(analysis, &steps, &heads);
        ways.wildcards(&edges);
        let borders = Borders::of(edges, &heads, &mut ways);
        let groups = groups(analysis, &heads, &mut ways);
        Leaks { analysis, groups, objects, steps, heads, borders }
    }

    /// What goes when the steps of a group are cut, and who else holds what stays.
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

    /// What all leaks retain, bytes.
    pub fn retained_bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.retained_bytes).sum()
    }
}

/// The heads by the way to the first leaked object before them.
fn groups(analysis: &Analysis, heads: &Heads, ways: &mut Ways) -> Vec<Leak> {
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
