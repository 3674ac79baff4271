//! When the old generation's size makes a full collection due: `--heap-growing-percent`, the
//! parameter `overhead`.
//!
//! Source: `MemoryController::CalculateAllocationLimit` of V8's heap-controller.cc at 7.8 to 8.4.
//! Without the flag V8 computes a factor from 1.1 to 4 from the speeds of its program and its
//! collector, so two runs differ. With the flag the factor is the flag's.
//!
//! tests/pacing_against_node.rs compares limits and beginnings with real Nodes.
//!
//! Deviations: at the limit V8 begins to mark in steps, and ends a while later; here the whole
//! collection runs at the limit. The first limit here is that of an empty heap; V8 begins with a
//! larger one and lowers it by the survival rate of scavenges.

/// `kRegularAllocationLimitGrowingStep`: a heap may grow by this much, however small it is.
const GROWING_STEP_BYTES: usize = 8 << 20;

/// The old generation's next limit.
#[derive(Clone, Copy, Debug)]
pub struct Pacing {
    /// Growth between two collections, percent; `None`: no collection is due by size.
    percent: Option<u32>,
    /// Capacity of new space (the areas of its pages), all of which may be promoted.
    new_bytes: usize,
    /// Largest size of the old generation.
    largest_bytes: usize,
    /// A collection is due above.
    limit_bytes: usize,
}

impl Pacing {
    /// Before the first collection.
    pub fn new(percent: Option<u32>, new_bytes: usize, largest_bytes: usize) -> Pacing {
        let mut pacing = Pacing { percent, new_bytes, largest_bytes, limit_bytes: usize::MAX };
        pacing.collected(0);
        pacing
    }

    /// Whether an old generation of this size must be collected.
    #[inline]
    pub fn is_due(&self, old_bytes: usize) -> bool {
        old_bytes > self.limit_bytes
    }

    /// Computes the next limit after a full collection that left `old_bytes` bytes.
    pub fn collected(&mut self, old_bytes: usize) {
        let Some(percent) = self.percent else { return };
        let grown = old_bytes as u128 * (100 + u128::from(percent)) / 100;
        let limit = grown.max((old_bytes + GROWING_STEP_BYTES) as u128) + self.new_bytes as u128;
        let halfway = (old_bytes as u128 + self.largest_bytes as u128) / 2;
        self.limit_bytes = usize::try_from(limit.min(halfway)).unwrap_or(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_v8() {
        const MIB: usize = 1 << 20;
        let mut pacing = Pacing::new(Some(50), 4 * MIB, 1 << 30);
        assert_eq!(pacing.limit_bytes, 12 * MIB, "the step and new space");
        pacing.collected(100 * MIB);
        assert_eq!(pacing.limit_bytes, 154 * MIB, "half as much again and new space");
        pacing.collected(1000 * MIB);
        assert_eq!(pacing.limit_bytes, 1012 * MIB, "half of the way to the largest");
        assert!(!pacing.is_due(1012 * MIB) && pacing.is_due(1012 * MIB + 1));
        assert!(!Pacing::new(None, 4 * MIB, 1 << 30).is_due(usize::MAX - 1));
    }
}
