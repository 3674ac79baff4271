//! Stacks cut to the requested depth, each once.
//!
//! The recorder keeps more frames, and not always the same number: its cut must not move with every
//! call (see its `stacks.c`). Uncut, one site below a deep recursion would become as many stacks as
//! there are places to cut. So nodes stay whole while rings are merged, because later nodes build
//! on them, and the stack of an event is its innermost `depth` frames; equal stacks become one row.
//! Only stacks of events become rows.

use super::stack_map::StackMap;
use heaplab_trace::tables::StackNode;

/// Whole stacks, and their rows in `stacks`.
#[derive(Debug)]
pub struct CutStacks {
    depth: usize,
    /// As defined by the rings; number 0 is no stack.
    whole: Vec<Whole>,
    rows: StackMap,
    path: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Whole {
    node: StackNode,
    frames: u32,
    /// Its row, once an event has named it or, if uncut, a stack built on it; 0: no row.
    row: u32,
}

impl CutStacks {
    /// Empty; stacks get `depth` frames.
    pub fn new(depth: u32) -> CutStacks {
        CutStacks {
            depth: depth as usize,
            whole: vec![Whole::default()],
            rows: StackMap::default(),
            path: Vec::new(),
        }
    }

    /// The number of the whole stack `node`, by its process's map.
    #[inline]
    pub fn define(&mut self, map: &mut StackMap, node: StackNode) -> u32 {
        let next = self.whole.len() as u32;
        let number = map.find_or(node, next);
        if number == next {
            let frames = self.whole[node.parent as usize].frames.saturating_add(1);
            self.whole.push(Whole { node, frames, row: 0 });
        }
        number
    }

    /// The row in `stacks` of the whole stack `number`; made if missing.
    #[inline]
    pub fn row_of(&mut self, number: u32, stacks: &mut Vec<StackNode>) -> u32 {
        match self.whole[number as usize].row {
            0 if number != 0 => self.make(number, stacks),
            row => row,
        }
    }

    #[cold]
    fn make(&mut self, number: u32, stacks: &mut Vec<StackNode>) -> u32 {
        let cut = self.whole[number as usize].frames as usize > self.depth;
        self.path.clear();
        let (mut at, mut row) = (number, 0);
        while at != 0 && self.path.len() < self.depth {
            let whole = self.whole[at as usize];
            // The stack under an uncut stack is uncut too: its row is the parent of this one.
            if !cut && whole.row != 0 {
                row = whole.row;
                break;
            }
            self.path.push(at);
            at = whole.node.parent;
        }
        while let Some(inner) = self.path.pop() {
            let node = StackNode { parent: row, frame: self.whole[inner as usize].node.frame };
            row = self.rows.find_or(node, stacks.len() as u32);
            if row as usize == stacks.len() {
                stacks.push(node);
            }
            if !cut {
                self.whole[inner as usize].row = row;
            }
        }
        self.whole[number as usize].row = row;
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(stacks: &[StackNode], mut row: u32) -> Vec<u32> {
        let mut frames = Vec::new();
        while row != 0 {
            frames.push(stacks[row as usize].frame);
            row = stacks[row as usize].parent;
        }
        frames
    }

    proptest! {
        /// Random walks up and down a stack: the same calls upon outer frames that the cache may or
        /// may not have dropped.
        #[test]
        fn a_row_is_the_innermost_frames_and_equal_ones_are_one(
            walks in prop::collection::vec(prop::collection::vec(0_u32..3, 1..12), 1..60), depth in 0_u32..8,
        ) {
            let (mut cut, mut map, mut stacks) = (CutStacks::new(depth), StackMap::default(), vec![StackNode::default()]);
            let mut rows = std::collections::HashMap::new();
            for walk in walks {
                let whole = walk.iter().fold(0, |parent, frame| cut.define(&mut map, StackNode { parent, frame: *frame }));
                let row = cut.row_of(whole, &mut stacks);
                let wanted: Vec<u32> = walk.iter().rev().take(depth as usize).copied().collect();
                prop_assert_eq!(frames(&stacks, row), wanted.clone());
                prop_assert_eq!(*rows.entry(wanted).or_insert(row), row);
                prop_assert_eq!(cut.row_of(whole, &mut stacks), row);
            }
            prop_assert!(stacks.iter().enumerate().skip(1).all(|(row, node)| (node.parent as usize) < row), "callers come first");
            prop_assert!((0..stacks.len()).all(|row| frames(&stacks, row as u32).len() <= depth as usize));
        }
    }
}
