//! Buffers that are grown by hand: allocate more, copy, free the old one. Told as the finding of
//! growth tells them: a larger block from the same stack and thread, and within a few rows the free
//! of the smaller one. Here the rows that follow are at hand, so that it is known at once.

use hashbrown::HashMap;
use heaplab_trace::{Event, ObjectId, Op, StackId};

/// The free of the smaller block follows within so many rows.
pub(crate) const WINDOW_ROWS: usize = 16;

/// The last birth of each stack.
#[derive(Debug, Default)]
pub(crate) struct Successors {
    last: HashMap<StackId, (ObjectId, u64, u32)>,
}

impl Successors {
    /// The block that the one born by `birth` takes the place of, by the rows that follow.
    pub(crate) fn predecessor<'a>(
        &mut self,
        birth: &Event,
        following: impl Iterator<Item = &'a Event>,
    ) -> Option<ObjectId> {
        let now = (birth.object, birth.size, birth.thread);
        let (object, ..) = self.last.insert(birth.stack, now).filter(|(_, bytes, thread)| {
            *bytes > 0 && *bytes < birth.size && *thread == birth.thread
        })?;
        let frees = |row: &&Event| {
            row.op == Op::Free && row.counts() && row.object == object && row.thread == birth.thread
        };
        following.take(WINDOW_ROWS).find(frees).map(|row| row.object)
    }
}
