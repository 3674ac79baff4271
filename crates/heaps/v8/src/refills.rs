//! The source of each refill of a cycle: the document's third idea for the future ("end of cycle
//! allocation latency": "after a while, larger categories are empty, and we fall back to the slow
//! path more often").
//!
//! Refills of full collections are left out. The log is off unless asked for: a refill takes 24
//! bytes here.

/// The source of a refill's linear area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In the free list, by this step of its search.
    Step(u8),
    /// On pages that were swept for it.
    Swept,
    /// On a page that was stolen from the main space.
    Stolen,
    /// On a new page.
    New,
    /// Nowhere.
    Nowhere,
}

/// One refill.
#[derive(Clone, Copy, Debug)]
pub struct Refill {
    /// Bytes that earlier linear areas of this cycle took.
    pub taken_bytes: u64,
    /// Bytes of the linear area.
    pub area_bytes: u32,
    /// Nodes that were looked at.
    pub nodes: u32,
    /// Nanoseconds by the clock.
    pub ns: u32,
    /// The source of the area.
    pub found: Found,
}

/// Refills of each cycle: from one full collection to the next.
#[derive(Debug)]
pub struct Log {
    /// Each cycle's, the running one last.
    pub cycles: Vec<Vec<Refill>>,
    /// A full collection runs.
    pub paused: bool,
}

impl Default for Log {
    fn default() -> Log {
        Log { cycles: vec![Vec::new()], paused: false }
    }
}

impl Log {
    /// Adds a refill.
    pub fn push(&mut self, refill: Refill) {
        if let Some(cycle) = self.cycles.last_mut().filter(|_| !self.paused) {
            cycle.push(refill);
        }
    }

    /// Ends the cycle: a full collection begins.
    pub fn end_cycle(&mut self) {
        self.paused = true;
    }

    /// A full collection has ended.
    pub fn begin_cycle(&mut self) {
        self.paused = false;
        self.cycles.push(Vec::new());
    }
}
