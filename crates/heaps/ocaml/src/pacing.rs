//! Pacing: the part of a cycle that a slice does.
//!
//! Source: `major_gc.c`, `caml_major_collection_slice`. Let H be the words of the heap, A the words
//! allocated in the major heap since the previous slice, and o the overhead in percent. A slice
//! does the part p = 3 A (100 + o) / (2 H o) of a cycle, plus the remainder of earlier slices, at
//! most 0.3; the excess is carried. H counts free words too: so o knows nothing of fragmentation. A
//! window smooths p over the next slices.
//!
//! Left out: slices on demand (`Gc.major_slice`) and their credit; dependent memory and custom
//! blocks (no workload has any, so their terms are 0); the program's global fields (it has none:
//! [`crate::program`]).

use crate::facts::{SLICE_PART_MAX, WINDOW_MAX};

/// The pacing's state.
#[derive(Debug)]
pub(crate) struct Pacing {
    /// Words allocated in the major heap since the last slice.
    pub allocated_words: usize,
    pub backlog: f64,
    /// Minor heaps allocated; at 1 the window moves on.
    pub clock: f64,
    /// Work to do in this slice and in the next ones.
    ring: [f64; WINDOW_MAX],
    at: usize,
    window: usize,
}

/// The part of a cycle for one slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// From the allocation, with the backlog, at most 0.3.
    pub raw: f64,
    /// After smoothing.
    pub filtered: f64,
}

impl Pacing {
    pub(crate) fn new(window: usize) -> Pacing {
        let ring = [0.0; WINDOW_MAX];
        Pacing { allocated_words: 0, backlog: 0.0, clock: 0.0, ring, at: 0, window }
    }

    /// Begins a slice of the collector's own. The order of the operations is the runtime's, so that
    /// results are equal to the last bit.
    pub(crate) fn begin(&mut self, heap_words: usize, overhead: usize) -> Part {
        let mut raw = self.allocated_words as f64 * 3.0 * (100 + overhead) as f64
            / heap_words as f64
            / overhead as f64
            / 2.0;
        raw += self.backlog;
        self.backlog = 0.0;
        if raw > SLICE_PART_MAX {
            self.backlog = raw - SLICE_PART_MAX;
            raw = SLICE_PART_MAX;
        }
        for bucket in &mut self.ring[..self.window] {
            *bucket += raw / self.window as f64;
        }
        if self.clock >= 1.0 {
            self.clock -= 1.0;
            self.at = (self.at + 1) % self.window;
        }
        let filtered = std::mem::replace(&mut self.ring[self.at], 0.0);
        Part { raw, filtered }
    }

    /// Returns a part to the window, if a slice did none of it.
    pub(crate) fn give_back(&mut self, part: f64) {
        let share = part / self.window as f64;
        for bucket in &mut self.ring[..self.window] {
            *bucket += share;
        }
    }
}

/// Words to mark for a part of a cycle.
pub(crate) fn mark_work(part: f64, heap_words: usize, overhead: usize) -> i64 {
    (part * (heap_words as f64 * 250.0 / (100 + overhead) as f64 + 0.0)) as i64
}

/// Words to sweep for a part of a cycle.
pub(crate) fn sweep_work(part: f64, heap_words: usize) -> i64 {
    (part * heap_words as f64 * 5.0 / 3.0) as i64
}
