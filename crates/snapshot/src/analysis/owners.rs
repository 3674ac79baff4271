//! Sizes of internals go to the object that owns them: a hidden node, an array or the data of an
//! external string that is reached from one object alone counts as that object's own. Source:
//! DevTools' `calculateShallowSizes`.
//!
//! The owner of such a node is the one node of another kind from which a path through nodes of
//! these kinds leads to it. That is a fixed point, so that the order of visits does not matter: all
//! edges are walked once in the file's order, which is how they lie in memory, and only what was
//! found then goes through a stack.

use crate::columns::{Bits, Pool};
use crate::graph::{Graph, Node};
use crate::meta::EdgeType;

/// The owner plus one; 0 is nobody yet.
const SEVERAL: u32 = u32::MAX;

/// For each node of the kinds that can be owned (`owned`), its only owner plus one, 0 if nobody or
/// several own it.
pub(crate) fn owners(graph: &Graph, owned: &Bits, pool: &mut Pool) -> Vec<u32> {
    let mut owners = pool.take_for_a_while(graph.node_count());
    let mut stack: Vec<Node> = Vec::new();
    for node in graph.nodes() {
        if !owned.get(node) {
            visit(graph, owned, node, node + 1, &mut owners, &mut stack);
        }
    }
    while let Some(node) = stack.pop() {
        let owner = owners[node as usize];
        visit(graph, owned, node, owner, &mut owners, &mut stack);
    }
    owners.iter_mut().filter(|owner| **owner == SEVERAL).for_each(|owner| *owner = 0);
    owners
}

#[inline]
fn visit(
    graph: &Graph,
    owned: &Bits,
    node: Node,
    owner: u32,
    owners: &mut [u32],
    stack: &mut Vec<Node>,
) {
    let edges = graph.edges(node);
    let edges = edges.start as usize..edges.end as usize;
    for (target, edge_type) in
        graph.edge_targets[edges.clone()].iter().zip(&graph.edge_types[edges])
    {
        if !owned.get(*target) || *edge_type == EdgeType::Weak.0 {
            continue;
        }
        let slot = &mut owners[*target as usize];
        if *slot == 0 {
            *slot = owner;
            stack.push(*target);
        } else if *slot != owner && *slot != SEVERAL {
            *slot = SEVERAL;
            stack.push(*target);
        }
    }
}
