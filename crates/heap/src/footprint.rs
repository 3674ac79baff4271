//! Where a heap's bytes are.
//!
//! Fragmentation is usually one number in which the design's policy, its headers and the system's
//! pages are mixed. Kept apart, the policy's share is what remains when implementation overheads
//! are taken off (Johnstone and Wilson, "The memory fragmentation problem: solved?", 1998). A heap
//! fills in what it knows; unknown is `None`, never zero.

use serde::{Deserialize, Serialize};

/// A heap's bytes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Requested by the program and live.
    pub requested_bytes: Option<u64>,
    /// Headers, and padding for alignment.
    pub header_bytes: Option<u64>,
    /// Rounding: usable and never requested.
    pub slop_bytes: Option<u64>,
    /// In live blocks, slop included, where the heap cannot tell the three above apart.
    pub used_bytes: Option<u64>,
    /// Free and large enough to serve requests again.
    pub free_reusable_bytes: Option<u64>,
    /// Free and too small for any request the heap serves.
    pub free_too_small_bytes: Option<u64>,
    /// In pages that hold at least one live block.
    pub active_bytes: Option<u64>,
    /// Obtained from the system and not given back.
    pub committed_bytes: Option<u64>,
    /// Of these, in physical memory.
    pub resident_bytes: Option<u64>,
}
