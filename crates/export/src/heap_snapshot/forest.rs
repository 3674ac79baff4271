//! Trees with blocks as leaves, as an [`Embedder`]: the [`Branches`] define the nodes between the
//! root and the blocks.
//!
//! Handles are places 16 bytes apart in the order root, branches, blocks, so the generator numbers
//! them like addresses, for less than a byte each.

use heaplab_snapshot::generate::{Description, EdgeSink, Embedder, NameSink};
use heaplab_snapshot::names::StringId;
use heaplab_snapshot::write::{EdgeName, edge_type, node_type};

const HANDLE_BITS: u32 = 4;
const ROOT: u64 = 0;
const ROOT_ID: u64 = 1;
/// The most bytes of one node: DevTools keeps 32 bits.
pub(super) const NODE_BYTES_MAX: u64 = u32::MAX as u64;

/// A block, or a part of one that is too large for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leaf {
    /// Its branch.
    pub branch: u32,
    /// Number of the part in its block.
    pub part: u32,
    pub object: u64,
    pub size: u64,
}

impl Leaf {
    /// A block as nodes: one, unless it has 4 GiB or more.
    pub fn parts(branch: u32, object: u64, size: u64) -> impl Iterator<Item = Leaf> {
        (0..=size.saturating_sub(1) / NODE_BYTES_MAX).map(move |part| {
            let before = part * NODE_BYTES_MAX;
            Leaf { branch, part: part as u32, object, size: (size - before).min(NODE_BYTES_MAX) }
        })
    }
}

/// The description of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    pub node_type: u8,
    /// Even; odd ids belong to blocks.
    pub id: u64,
    pub self_size: u64,
}

/// The nodes between the root and the blocks, numbered from 0, parents before their children.
pub(super) trait Branches {
    /// Number of branches.
    fn len(&self) -> usize;
    /// The parent branch; `None`: the root.
    fn parent(&self, branch: u32) -> Option<u32>;
    /// Type, id and size.
    fn describe(&self, branch: u32) -> Branch;
    /// Its name.
    fn name(&self, branch: u32) -> String;
    /// The name of the reference to it.
    fn reference(&self, branch: u32) -> String;
    /// The index of the reference, if it has no name.
    fn index(&self, _branch: u32) -> Option<u64> {
        None
    }
    /// Branches that this one refers to weakly, without holding them.
    fn beside(&self, _branch: u32) -> &[u32] {
        &[]
    }
    /// The index by which a branch refers to its `nth` block.
    fn leaf_index(&self, _leaf: &Leaf, nth: u64) -> u64 {
        nth
    }
    /// The kind of a block; blocks of one kind have one name.
    fn leaf_kind(&self, leaf: &Leaf) -> u32;
    /// The name of blocks of this kind.
    fn leaf_name(&self, kind: u32) -> String;
    /// Whether all files of the recording give branches the same numbers.
    fn numbers_last(&self) -> bool {
        true
    }
    /// The first id not used by branches.
    fn ids_end(&self) -> u64;
}

/// Branches and blocks.
pub(super) struct Forest<B> {
    branches: B,
    root_name: String,
    /// By branch.
    leaves: Vec<Leaf>,
    /// The first leaf of each branch, and the end of all.
    leaf_starts: Vec<u32>,
    /// Branches by parent, and the first child of each: the root's first.
    children: Vec<u32>,
    child_starts: Vec<u32>,
    /// Object and part of leaves that are further parts, in order.
    parts: Vec<(u64, u32)>,
    ids_last: bool,
    /// The kind of the leaf described last, and its name.
    named: Option<(u32, StringId)>,
}

/// The node of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Root,
    Branch(u32),
    Leaf(usize),
}

impl<B: Branches> Forest<B> {
    /// Sorts the leaves. If ids do not last (with those of all `objects_born` they exceed 32 bits),
    /// nodes are numbered in this order.
    pub fn new(
        branches: B,
        mut leaves: Vec<Leaf>,
        root_name: String,
        objects_born: u64,
    ) -> Forest<B> {
        leaves.sort_unstable();
        let count = branches.len();
        let leaf_starts = (0..=count as u32)
            .map(|branch| leaves.partition_point(|leaf| leaf.branch < branch) as u32)
            .collect();
        let slot = |branch: u32| branches.parent(branch).map_or(0, |parent| parent as usize + 1);
        let mut child_starts = vec![0u32; count + 2];
        (0..count as u32).for_each(|branch| child_starts[slot(branch) + 1] += 1);
        (0..count + 1).for_each(|at| child_starts[at + 1] += child_starts[at]);
        let mut children = vec![0u32; count];
        let mut next = child_starts.clone();
        for branch in 0..count as u32 {
            let next = &mut next[slot(branch)];
            children[*next as usize] = branch;
            *next += 1;
        }
        let mut parts: Vec<(u64, u32)> = leaves
            .iter()
            .filter(|leaf| leaf.part > 0)
            .map(|leaf| (leaf.object, leaf.part))
            .collect();
        parts.sort_unstable();
        let objects = leaves.iter().map(|leaf| leaf.object.saturating_add(1));
        let born = objects.fold(objects_born, u64::max);
        let ids_end = branches.ids_end().saturating_add(2 * parts.len() as u64);
        let ids_last = branches.numbers_last() && leaf_id(born).max(ids_end) <= u64::from(u32::MAX);
        Forest {
            branches,
            root_name,
            leaves,
            leaf_starts,
            children,
            child_starts,
            parts,
            ids_last,
            named: None,
        }
    }

    /// Whether ids come from the recording.
    pub fn ids_last(&self) -> bool {
        self.ids_last
    }

    fn what(&self, handle: u64) -> What {
        let index = (handle >> HANDLE_BITS) as usize;
        match index.checked_sub(1) {
            None => What::Root,
            Some(branch) if branch < self.branches.len() => What::Branch(branch as u32),
            Some(more) => What::Leaf(more - self.branches.len()),
        }
    }

    fn branch_handle(branch: u32) -> u64 {
        (u64::from(branch) + 1) << HANDLE_BITS
    }

    fn leaf_handle(&self, leaf: usize) -> u64 {
        ((leaf + self.branches.len() + 1) as u64) << HANDLE_BITS
    }

    /// The branches and leaves held by a node.
    fn held(&self, what: What) -> (&[u32], std::ops::Range<usize>) {
        let (slot, leaves) = match what {
            What::Root => (0, 0..0),
            What::Branch(branch) => {
                let at = branch as usize;
                (at + 1, self.leaf_starts[at] as usize..self.leaf_starts[at + 1] as usize)
            }
            What::Leaf(_) => return (&[], 0..0),
        };
        (
            &self.children[self.child_starts[slot] as usize..self.child_starts[slot + 1] as usize],
            leaves,
        )
    }

    /// The branches that a node refers to without holding them.
    fn beside(&self, what: What) -> &[u32] {
        if let What::Branch(branch) = what { self.branches.beside(branch) } else { &[] }
    }

    fn leaf_id(&self, index: usize) -> u64 {
        let leaf = self.leaves[index];
        if leaf.part > 0 {
            let rank = self.parts.partition_point(|part| *part < (leaf.object, leaf.part)) as u64;
            let first = if self.ids_last {
                self.branches.ids_end()
            } else {
                branch_id(self.branches.len() as u64)
            };
            return first + 2 * rank;
        }
        leaf_id(if self.ids_last { leaf.object } else { index as u64 })
    }
}

/// The id of branch `number`.
pub(super) fn branch_id(number: u64) -> u64 {
    number.saturating_mul(2).saturating_add(2)
}

/// The id of block `number`.
pub(super) fn leaf_id(number: u64) -> u64 {
    number.saturating_mul(2).saturating_add(ROOT_ID + 2)
}

impl<B: Branches> Embedder for Forest<B> {
    fn root(&mut self) -> u64 {
        ROOT
    }

    fn objects(&mut self, add: &mut dyn FnMut(u64)) {
        (0..self.branches.len() as u32).for_each(|branch| add(Self::branch_handle(branch)));
        (0..self.leaves.len()).for_each(|leaf| add(self.leaf_handle(leaf)));
    }

    fn names_all_objects(&self) -> bool {
        true
    }

    fn numbered_by_address(&self) -> bool {
        true
    }

    fn object_count_hint(&self) -> usize {
        1 + self.branches.len() + self.leaves.len()
    }

    fn targets(&mut self, object: u64, visit: &mut impl FnMut(u64)) {
        let what = self.what(object);
        let (branches, leaves) = self.held(what);
        self.beside(what).iter().for_each(|branch| visit(Self::branch_handle(*branch)));
        branches.iter().for_each(|branch| visit(Self::branch_handle(*branch)));
        leaves.for_each(|leaf| visit(self.leaf_handle(leaf)));
    }

    fn describe(&mut self, object: u64, names: &mut impl NameSink) -> Description {
        let (branch, name) = match self.what(object) {
            What::Root => (
                Branch { node_type: node_type::SYNTHETIC, id: ROOT_ID, self_size: 0 },
                names.intern(self.root_name.as_bytes()),
            ),
            What::Branch(number) => {
                let branch = self.branches.describe(number);
                let id = if self.ids_last { branch.id } else { branch_id(u64::from(number)) };
                (Branch { id, ..branch }, names.intern(self.branches.name(number).as_bytes()))
            }
            What::Leaf(index) => {
                let leaf = self.leaves[index];
                let kind = self.branches.leaf_kind(&leaf);
                let name = match self.named {
                    Some((named, name)) if named == kind => name,
                    _ => names.intern(self.branches.leaf_name(kind).as_bytes()),
                };
                self.named = Some((kind, name));
                (
                    Branch {
                        node_type: node_type::NATIVE,
                        id: self.leaf_id(index),
                        self_size: leaf.size,
                    },
                    name,
                )
            }
        };
        let Branch { node_type, id, self_size } = branch;
        Description { node_type, name, id, self_size, trace_node_id: 0, detachedness: 0 }
    }

    fn references(&mut self, object: u64, edges: &mut impl EdgeSink) {
        let what = self.what(object);
        let (branches, leaves) = self.held(what);
        for branch in self.beside(what) {
            edges.named(
                edge_type::WEAK,
                self.branches.reference(*branch).as_bytes(),
                Self::branch_handle(*branch),
            );
        }
        for branch in branches {
            let handle = Self::branch_handle(*branch);
            match self.branches.index(*branch) {
                Some(index) => edges.edge(edge_type::ELEMENT, EdgeName::Index(index), handle),
                None => edges.named(
                    edge_type::PROPERTY,
                    self.branches.reference(*branch).as_bytes(),
                    handle,
                ),
            }
        }
        for (nth, leaf) in leaves.enumerate() {
            let index = self.branches.leaf_index(&self.leaves[leaf], nth as u64);
            edges.edge(edge_type::ELEMENT, EdgeName::Index(index), self.leaf_handle(leaf));
        }
    }
}
