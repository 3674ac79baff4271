//! Heads: leaked objects that no other leaked object dominates. Also the head that dominates each
//! node, and the realm of nodes that several heads hold together.

use super::steps::Crossings;
use crate::analysis::{Analysis, Essential};
use crate::columns::{self, Bits};
use crate::graph::{Edge, Node};
use hashbrown::HashMap;

/// No head dominates the node.
const NOBODY: u32 = 0;

/// The heads of a heap.
pub(super) struct Heads {
    /// In the order of the dominator tree.
    pub nodes: Vec<Node>,
    /// Which nodes leaked.
    pub leaked: Bits,
    /// For each node, one more than the place of its dominating head, which may be the node itself.
    owner: Vec<u32>,
}

impl Heads {
    /// The heads among the nodes that leaked, and how many of these there are.
    pub fn of(analysis: &Analysis, is_leaked: impl Fn(Node) -> bool) -> (Heads, u64) {
        let count = analysis.snapshot().graph.node_count();
        let mut heads =
            Heads { nodes: Vec::new(), leaked: Bits::new(count), owner: columns::zeroed(count) };
        let mut leaked = 0;
        for (node, above) in analysis.root_first() {
            let is_leaked = is_leaked(node);
            if is_leaked {
                leaked += 1;
                heads.leaked.set(node);
            }
            let owner = above.map_or(NOBODY, |above| heads.owner[above as usize]);
            heads.owner[node as usize] = if owner == NOBODY && is_leaked {
                heads.nodes.push(node);
                heads.nodes.len() as u32
            } else {
                owner
            };
        }
        (heads, leaked)
    }

    /// The place of the head that dominates the node or is the node.
    #[inline]
    pub fn owner(&self, node: Node) -> Option<u32> {
        self.owner[node as usize].checked_sub(1)
    }

    /// The place of the node, if the node is a head.
    #[inline]
    pub fn place(&self, node: Node) -> Option<u32> {
        self.owner(node).filter(|place| self.nodes[*place as usize] == node)
    }
}

/// Assigns each node to its head, to a group of heads that hold it together, or to none.
pub(super) struct Realms<'h> {
    heads: &'h Heads,
    /// Nodes that a walk from the root reaches without a head.
    free: Bits,
    /// Nodes that only several heads hold together: each is a realm behind those of the heads.
    shared: HashMap<Node, u32>,
}

impl Realms<'_> {
    pub fn of<'h>(essential: &Essential, heads: &'h Heads) -> Realms<'h> {
        let graph = essential.graph;
        let mut free = Bits::new(graph.node_count());
        free.set(graph.root());
        let mut open = vec![graph.root()];
        while let Some(node) = open.pop() {
            let from = essential.from(node);
            for edge in graph.edges(node) {
                let target = graph.target(edge);
                if heads.owner(target).is_none() && !free.get(target) && from.keeps(edge, target) {
                    free.set(target);
                    open.push(target);
                }
            }
        }
        let mut realms = Realms { heads, free, shared: HashMap::new() };
        let mut open: Vec<Node> =
            graph.nodes().filter(|node| heads.owner(*node).is_some()).collect();
        while let Some(node) = open.pop() {
            let from = essential.from(node);
            for edge in graph.edges(node) {
                let target = graph.target(edge);
                if heads.owner(target).is_none()
                    && !realms.free.get(target)
                    && !realms.shared.contains_key(&target)
                    && from.keeps(edge, target)
                {
                    let place = (heads.nodes.len() + realms.shared.len()) as u32;
                    realms.shared.insert(target, place);
                    open.push(target);
                }
            }
        }
        realms
    }

    /// The place of the node's realm; `None` for a node that lives without heads or is unreachable.
    fn place(&self, node: Node) -> Option<u32> {
        self.heads.owner(node).or_else(|| self.shared.get(&node).copied())
    }

    /// Notes a reference that leads into a realm.
    #[inline]
    pub fn cross(
        &self,
        analysis: &Analysis,
        (edge, source, target): (Edge, Node, Node),
        crossings: &mut Crossings,
    ) {
        if self.free.get(target) {
            return;
        }
        let Some(place) = self.place(target) else { return };
        match self.place(source) {
            Some(other) if other != place => crossings.between.push((other, place)),
            None if analysis.distance(source) >= 0 && self.heads.place(target).is_some() => {
                crossings.borders.push((edge, source, place))
            }
            _ => {}
        }
    }
}
