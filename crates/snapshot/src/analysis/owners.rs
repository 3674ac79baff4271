//! Sizes of internals go to the object that owns them: a hidden node, an array or the data of an
//! external string that is reached from one object alone counts as that object's own. Source:
//! DevTools' `calculateShallowSizes`.
//!
//! The owner of such a node is the only node of another kind from which a path through nodes of
//! these kinds leads to it. Owners are a fixed point, so the order of visits does not matter. All
//! edges are walked once in the file's order, which is their order in memory. Only nodes found then
//! go through a stack.

use crate::columns::{Bits, Pool};
use crate::graph::{Graph, Node};
use crate::meta::EdgeType;

/// The mark of several owners. Other values are the owner plus one; 0: no owner yet.
const SEVERAL: u32 = u32::MAX;

/// For each `owned` node (of a kind that can have an owner), its only owner plus one; 0 if it has
/// none or several.
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
