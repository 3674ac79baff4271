//! Where a heap's bytes are.
//!
//! Fragmentation is usually one number that mixes the design's policy, its headers and the system's
//! pages. Kept apart, the policy's share remains after taking off implementation overheads
//! (Johnstone and Wilson, "The memory fragmentation problem: solved?", 1998). A heap fills in the
//! figures that it knows; an unknown figure is `None`, never zero.

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
    /// In live blocks, slop included, for heaps that cannot tell the three above apart.
    pub used_bytes: Option<u64>,
    /// Free and large enough to serve requests again.
    pub free_reusable_bytes: Option<u64>,
    /// Free and too small for any request that the heap serves.
    pub free_too_small_bytes: Option<u64>,
    /// In pages that hold at least one live block.
    pub active_bytes: Option<u64>,
    /// Obtained from the system and not given back.
    pub committed_bytes: Option<u64>,
    /// Committed bytes that are in physical memory.
    pub resident_bytes: Option<u64>,
}
