//! The choice of a new object's slot.
//!
//! A freed slot goes to the thread that freed it, and this thread takes the slot it freed last. The
//! slot's entry in the driver's table is then still in the cache, and in a replay with threads the
//! reuse needs no word from another thread. A thread without a free slot takes another thread's,
//! the one freed longest ago. So there are never more slots than objects live at once, and the wait
//! in a threaded replay is most likely over already.

use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Slots {
    free: Vec<VecDeque<u32>>,
    /// Threads that had a free slot when pushed; some may have none any more.
    with_free: Vec<u32>,
    made: u32,
}

impl Slots {
    /// Slots made so far.
    pub(super) fn made(&self) -> u32 {
        self.made
    }

    pub(super) fn take(&mut self, thread: u32) -> u32 {
        if let Some(slot) = self.free.get_mut(thread as usize).and_then(VecDeque::pop_back) {
            return slot;
        }
        while let Some(other) = self.with_free.last() {
            if let Some(slot) = self.free[*other as usize].pop_front() {
                return slot;
            }
            self.with_free.pop();
        }
        self.made += 1;
        self.made - 1
    }

    pub(super) fn give(&mut self, slot: u32, thread: u32) {
        let index = thread as usize;
        if self.free.len() <= index {
            self.free.resize_with(index + 1, VecDeque::new);
        }
        if self.free[index].is_empty() {
            self.with_free.push(thread);
        }
        self.free[index].push_back(slot);
    }
}
