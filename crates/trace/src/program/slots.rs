//! Which slot a new object gets.
//!
//! A freed slot goes to the thread that freed it, and that thread takes the one it freed last: its
//! entry of the driver's table is then still in the cache, and in a replay with threads reusing it
//! needs no word from another thread. Only when a thread has none does it take another's, the one
//! freed longest ago, so that there are never more slots than objects were live at once and the
//! wait that this costs in a threaded replay is most likely over already.

use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Slots {
    free: Vec<VecDeque<u32>>,
    /// Threads that had a free slot when they were pushed; some may have none any more.
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
