//! Retained sizes: of a node, the size of all nodes that it dominates; of a class, of all nodes
//! that its nodes dominate. Source: DevTools' `calculateRetainedSizes` and
//! `calculateClassesRetainedSize`.
//!
//! Both are passes over the dominator tree by the walk's numbers, in which a dominator precedes its
//! children. While the whole heap is below 4 GiB, no sum needs more than 32 bits, and the upper
//! halves are not even allocated.

use super::Analysis;
use super::classes::Class;
use super::dominators::Tree;
use super::{Node, Sizes};
use crate::columns::{self, Column, Pool};

/// Retained sizes by the tree's numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retained<'a> {
    /// Lower halves.
    pub low: Column<'a, u32>,
    /// Upper halves; empty if all are 0.
    pub high: Column<'a, u32>,
}

impl Retained<'_> {
    /// Adds sizes up; the sizes of subtrees, in nodes, go to `counts`, which must be zeros.
    pub(super) fn of(
        tree: &Tree,
        sizes: &Sizes,
        counts: &mut [u32],
        pool: &mut Pool,
    ) -> Retained<'static> {
        let len = tree.vertex.len();
        let mut retained = Retained { low: pool.take(len).into(), high: Column::default() };
        let total = sizes.low.iter().map(|low| u64::from(*low)).sum::<u64>();
        if total >> 32 == 0 && sizes.large.is_empty() {
            retained.add_narrow(tree, &sizes.low, counts);
        } else {
            retained.high = columns::zeroed(len).into();
            retained.add_wide(tree, sizes, counts);
        }
        retained
    }

    fn add_narrow(&mut self, tree: &Tree, sizes: &[u32], counts: &mut [u32]) {
        let low = self.low.to_mut();
        for (number, (node, above)) in
            tree.vertex.iter().zip(tree.dominator.iter()).enumerate().skip(1).rev()
        {
            let size = low[number] + sizes[*node as usize];
            let count = counts[number] + 1;
            (low[number], counts[number]) = (size, count);
            // Number 0 is no node; it takes the sums above the root.
            low[*above as usize] += size;
            counts[*above as usize] += count;
        }
    }

    fn add_wide(&mut self, tree: &Tree, sizes: &Sizes, counts: &mut [u32]) {
        for number in (1..tree.vertex.len()).rev() {
            let size = self.get(number as u32).saturating_add(sizes.get(tree.vertex[number]));
            self.set(number as u32, size);
            counts[number] += 1;
            let above = tree.dominator[number];
            if above != 0 {
                self.set(above, self.get(above).saturating_add(size));
                counts[above as usize] += counts[number];
            }
        }
    }

    /// Retained bytes of a number's node.
    #[inline]
    pub fn get(&self, number: u32) -> u64 {
        let high = self.high.get(number as usize).copied().unwrap_or(0);
        u64::from(high) << 32 | u64::from(self.low[number as usize])
    }

    fn set(&mut self, number: u32, size: u64) {
        self.low.to_mut()[number as usize] = size as u32;
        self.high.to_mut()[number as usize] = (size >> 32) as u32;
    }
}

/// The sizes of subtrees in nodes.
pub(super) fn counts(tree: &Tree) -> Vec<u32> {
    let mut counts: Vec<u32> = vec![1; tree.vertex.len()];
    for number in (2..tree.vertex.len()).rev() {
        counts[tree.dominator[number] as usize] += counts[number];
    }
    counts
}

/// Retained bytes of each class: a node counts unless another node of its class, with a size,
/// dominates it. Overwrites `counts` and `order`; `order` needs an entry for each number of the
/// tree, of any value.
pub(super) fn class_retained(
    tree: &Tree,
    retained: &Retained,
    counts: &mut [u32],
    order: &mut [u32],
    (size, class_of): (impl Fn(Node) -> u64, &[u32]),
    classes: &mut [Class],
) {
    stretches(tree, counts, order);
    let ends = counts;
    // Up to where a counted node of the class dominates.
    let mut until: Vec<u32> = vec![0; classes.len()];
    for (place, number) in (0u32..).zip(&order[..tree.vertex.len() - 1]) {
        let node = tree.vertex[*number as usize];
        let class = class_of[node as usize] as usize;
        if size(node) != 0 && place >= until[class] {
            until[class] = ends[*number as usize];
            let retained_size = &mut classes[class].retained_size;
            *retained_size = retained_size.saturating_add(retained.get(*number));
        }
    }
}

/// The nodes in the order of [`stretches`], kept for many questions.
#[derive(Debug)]
pub(super) struct Subtrees {
    nodes: Vec<Node>,
    /// Of each place, the place behind its node's subtree.
    ends: Vec<u32>,
}

impl Subtrees {
    pub fn of(tree: &Tree) -> Subtrees {
        let (mut counts, mut order) = (counts(tree), vec![0; tree.vertex.len()]);
        stretches(tree, &mut counts, &mut order);
        order.pop();
        let ends = order.iter().map(|number| counts[*number as usize]).collect();
        order.iter_mut().for_each(|number| *number = tree.vertex[*number as usize]);
        Subtrees { nodes: order, ends }
    }
}

impl Analysis<'_, '_> {
    /// Retained bytes of each of `groups` groups of nodes: the retained sizes of the nodes that no
    /// other of their group dominates. Nodes for which `group_of` is `None` are in no group. One
    /// walk serves all groups.
    pub fn retained_by_groups(
        &self,
        group_of: impl Fn(Node) -> Option<u32>,
        groups: usize,
    ) -> Vec<u64> {
        let mut sums = vec![0u64; groups];
        // Up to where a node of the group dominates.
        let mut until = vec![0u32; groups];
        let Subtrees { nodes, ends } = self.subtrees();
        for ((place, node), end) in (0u32..).zip(nodes).zip(ends) {
            let Some(group) = group_of(*node) else { continue };
            let group = group as usize;
            if place >= until[group] {
                until[group] = *end;
                sums[group] = sums[group].saturating_add(self.retained_size(*node));
            }
        }
        sums
    }
}

/// The tree's numbers in an order in which every subtree is one stretch: a node, then its subtrees.
/// The sizes of subtrees become the ends of their stretches: until a number is reached its size is
/// needed, then where its next subtree begins, and that is the end when the last is reached.
fn stretches(tree: &Tree, counts: &mut [u32], order: &mut [u32]) {
    counts[0] = 0;
    for number in 1..tree.vertex.len() {
        let count = counts[number];
        let above = &mut counts[tree.dominator[number] as usize];
        let place = *above;
        *above += count;
        order[place as usize] = number as u32;
        counts[number] = place + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hashbrown::HashMap;

    fn both(low: Vec<u32>, large: HashMap<Node, u64>) -> (Vec<u64>, Vec<u64>) {
        // A chain of four under the root, numbers 1 to 5.
        let tree = Tree {
            vertex: vec![0, 0, 1, 2, 3, 4].into(),
            dominator: vec![0, 0, 1, 2, 3, 4].into(),
            number: vec![1, 2, 3, 4, 5].into(),
        };
        let sizes = Sizes { low: low.into(), large };
        let mut wide = Retained { low: vec![0; 6].into(), high: vec![0; 6].into() };
        wide.add_wide(&tree, &sizes, &mut [0; 6]);
        let mut counts = [0; 6];
        let either = Retained::of(&tree, &sizes, &mut counts, &mut Pool::default());
        assert_eq!(counts[1..], [5, 4, 3, 2, 1]);
        let all = |retained: &Retained| (1..6).map(|number| retained.get(number)).collect();
        (all(&either), all(&wide))
    }

    #[test]
    fn sums_below_and_above_32_bits_are_the_same() {
        let (narrow, wide) = both(vec![1, 2, 3, 4, u32::MAX - 10], HashMap::new());
        assert_eq!(narrow, [u64::from(u32::MAX), 4294967294, 4294967292, 4294967289, 4294967285]);
        assert_eq!(narrow, wide);
        let (carried, wide) = both(vec![1, 2, 3, u32::MAX, u32::MAX], HashMap::new());
        assert_eq!(carried, wide);
        assert_eq!(carried[0], 2 * u64::from(u32::MAX) + 6);
        let (large, wide) = both(vec![1, 0, 3, 4, 5], HashMap::from_iter([(1, u64::MAX)]));
        assert_eq!(large, wide);
        assert_eq!(large, [u64::MAX, u64::MAX, 12, 9, 5]);
    }
}
