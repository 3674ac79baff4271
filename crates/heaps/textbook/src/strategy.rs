//! The choices, as plain data: which collector, and when it collects.

/// One of the two collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Mark-sweep.
    MarkSweep,
    /// Semi-space copying.
    SemiSpace,
}

impl Design {
    /// Each with its name and description.
    pub(crate) const ALL: [(Design, &str, &str); 2] = [
        (
            Design::MarkSweep,
            "mark-sweep",
            "mark-sweep with one address-ordered free list, first fit",
        ),
        (Design::SemiSpace, "semi-space", "two halves, copied breadth first (Cheney)"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Design::ALL.iter().find(|(design, ..)| *design == self).map_or("", |(_, name, _)| name)
    }
}

/// The size limit of a heap, and when it collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Addresses reserved: the most that the heap can commit.
    pub limit_bytes: usize,
    /// Bytes that may be allocated between two collections, percent of those that survived the
    /// first.
    pub overhead_percent: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { limit_bytes: 16 << 30, overhead_percent: 100 }
    }
}
