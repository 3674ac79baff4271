//! A hash map from (caller's number, row of `frames`) to a stack's number: linear probing, no
//! removal.
//!
//! A ring defines about a tenth as many nodes as it has events, and each definition is looked up
//! here. A compiler has 700,000 entries: a lookup must be one cache line, not two or three.

use heaplab_trace::tables::StackNode;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    parent: u32,
    frame: u32,
    /// 0: empty.
    row: u32,
}

/// Numbers of stacks by caller and frame. 0: none.
#[derive(Debug, Default)]
pub struct StackMap {
    slots: Vec<Slot>,
    length: usize,
}

impl StackMap {
    /// The number of `node`; `next` becomes its number if it has none.
    #[inline]
    pub fn find_or(&mut self, node: StackNode, next: u32) -> u32 {
        if (self.length + 1) * 3 > self.slots.len() * 2 {
            self.grow();
        }
        let at = self.find(node.parent, node.frame);
        let slot = &mut self.slots[at];
        if slot.row == 0 {
            *slot = Slot { parent: node.parent, frame: node.frame, row: next };
            self.length += 1;
        }
        slot.row
    }

    /// The slot of this node, or the empty slot to insert it into. The table must have an empty
    /// slot.
    #[inline]
    fn find(&self, parent: u32, frame: u32) -> usize {
        let key = u64::from(parent) << 32 | u64::from(frame);
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & mask;
        while self.slots[at].row != 0
            && (self.slots[at].parent, self.slots[at].frame) != (parent, frame)
        {
            at = (at + 1) & mask;
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(64);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        for slot in old.into_iter().filter(|slot| slot.row != 0) {
            let at = self.find(slot.parent, slot.frame);
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_nodes_are_one_number(nodes in prop::collection::vec((0_u32..40, 0_u32..40), 0..1000)) {
            let (mut map, mut stacks) = (StackMap::default(), vec![StackNode::default()]);
            for (parent, frame) in nodes {
                let before = stacks.clone();
                let row = map.find_or(StackNode { parent, frame }, stacks.len() as u32);
                if row as usize == stacks.len() {
                    stacks.push(StackNode { parent, frame });
                }
                prop_assert_eq!(stacks[row as usize], StackNode { parent, frame });
                let known = before[1..].iter().position(|known| *known == StackNode { parent, frame });
                prop_assert_eq!(known.map_or(before.len(), |place| place + 1), row as usize);
            }
        }
    }
}
