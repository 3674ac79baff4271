//! Buffers that are grown by hand: allocate more, copy, free the old one. The rule is
//! [`Successors`], which tells a step at its end, when the smaller block is freed. A change has to
//! know it when the larger one is born, so the rule runs as many rows ahead as it may look back.

use hashbrown::HashMap;
use heaplab_trace::successors::{Block, ROWS, Successors};
use heaplab_trace::{Event, ObjectId, Op, StackId};
use std::collections::VecDeque;

/// The rule over rows, with the live blocks of the stacks whose buffers are looked for.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    successors: Successors,
    row: u64,
    live: HashMap<ObjectId, Block>,
}

/// A step of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    stack: StackId,
    larger: ObjectId,
    smaller: ObjectId,
}

impl Buffers {
    /// Takes the next row. `is_request`: one of the changed process; `is_of_place`: by a stack
    /// whose buffers are looked for.
    pub(crate) fn look(
        &mut self,
        event: &Event,
        is_request: bool,
        is_of_place: bool,
    ) -> Option<Step> {
        self.row += 1;
        let Event { object, size, stack, thread, .. } = *event;
        match event.op {
            Op::Alloc | Op::Realloc if is_request => {
                let now = Block { object, size, stack };
                if event.op == Op::Alloc {
                    self.successors.born(self.row, thread, now);
                } else {
                    let before = self.live.remove(&object).unwrap_or_default();
                    self.successors.resized(self.row, thread, before);
                }
                if is_of_place {
                    self.live.insert(object, now);
                }
                None
            }
            Op::Free if is_request => {
                let block = self.live.remove(&object).unwrap_or_default();
                let next = self.successors.died(self.row, thread, block)?;
                Some(Step { stack: block.stack, larger: next.object, smaller: object })
            }
            _ => None,
        }
    }
}

/// Rows on their way, with the buffers among the blocks that they make.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    following: VecDeque<Event>,
    buffers: Buffers,
    /// The smaller block by the larger.
    steps: HashMap<ObjectId, ObjectId>,
    /// What the whole workload says of its stacks; without it all may grow.
    whole: Option<Successors>,
}

impl Ahead {
    /// Judges stacks by a whole workload that was read before.
    pub(crate) fn judge_by(&mut self, whole: Buffers) {
        self.whole = Some(whole.successors);
    }

    /// Takes a row as [`Buffers::look`] does, and gives the one whose turn it is.
    pub(crate) fn push(
        &mut self,
        event: &Event,
        is_request: bool,
        is_of_place: bool,
    ) -> Option<Event> {
        let grows = |stack| self.whole.as_ref().is_none_or(|whole| whole.grows(stack));
        if let Some(step) = self.buffers.look(event, is_request, is_of_place)
            && grows(step.stack)
        {
            self.steps.insert(step.larger, step.smaller);
        }
        self.following.push_back(*event);
        if self.following.len() as u64 > ROWS { self.pop() } else { None }
    }

    /// The next row, with none to follow the last one.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.following.pop_front()
    }

    /// The block whose place the one that is now born takes.
    pub(crate) fn predecessor(&mut self, born: ObjectId) -> Option<ObjectId> {
        self.steps.remove(&born)
    }
}
