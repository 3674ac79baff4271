//! Work of allocations in old space so far, counted for studies.
//!
//! The document explains times by work: refills, nodes that a search looks at, pages that the
//! collector steals, bytes that compaction moves. Counts repeat in every run; times do not.

use std::ops::{Add, AddAssign, Sub};

/// Work in old space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Linear areas requested.
    pub refills: u64,
    /// Searches of a free list.
    pub searches: u64,
    /// Searches that found a node.
    pub found: u64,
    /// Nodes that searches looked at.
    pub nodes: u64,
    /// Searches in the last category by the node that they found: the first, second, third or
    /// fourth one that they looked at, or a later one.
    pub largest_found: [u64; 5],
    /// Pages swept.
    pub swept_pages: u64,
    /// Pages that compaction spaces took from the main space.
    pub stolen_pages: u64,
    /// Pages added to a space.
    pub new_pages: u64,
    /// Pages that a full collection emptied.
    pub evacuated_pages: u64,
    /// Live bytes moved off these pages.
    pub evacuated_bytes: u64,
}

impl Counts {
    /// Combines both field by field with `each`.
    fn zip(self, other: Counts, each: impl Fn(u64, u64) -> u64) -> Counts {
        let mut largest_found = self.largest_found;
        largest_found
            .iter_mut()
            .zip(other.largest_found)
            .for_each(|(mine, theirs)| *mine = each(*mine, theirs));
        Counts {
            refills: each(self.refills, other.refills),
            searches: each(self.searches, other.searches),
            found: each(self.found, other.found),
            nodes: each(self.nodes, other.nodes),
            largest_found,
            swept_pages: each(self.swept_pages, other.swept_pages),
            stolen_pages: each(self.stolen_pages, other.stolen_pages),
            new_pages: each(self.new_pages, other.new_pages),
            evacuated_pages: each(self.evacuated_pages, other.evacuated_pages),
            evacuated_bytes: each(self.evacuated_bytes, other.evacuated_bytes),
        }
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        self.zip(other, |mine, theirs| mine + theirs)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        *self = *self + other;
    }
}

impl Sub for Counts {
    type Output = Counts;

    /// The counts since `earlier`.
    fn sub(self, earlier: Counts) -> Counts {
        self.zip(earlier, |now, then| now - then)
    }
}

/// The work by source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountsBy {
    /// The program, between collections.
    pub program: Counts,
    /// Scavenges.
    pub scavenges: Counts,
    /// Full collections.
    pub full: Counts,
}
