//! Counts of events, under the names in `VM.metaspace` (HotSpot's `InternalStats`).

use serde::{Deserialize, Serialize};

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Requests that failed because of a limit.
    pub num_allocs_failed_limit: u64,
    /// Arenas born.
    pub num_arena_births: u64,
    /// Arenas dead.
    pub num_arena_deaths: u64,
    /// Nodes reserved.
    pub num_vsnodes_births: u64,
    /// Nodes given back; since 17 none ever is.
    pub num_vsnodes_deaths: u64,
    /// Commits.
    pub num_space_committed: u64,
    /// Uncommits.
    pub num_space_uncommitted: u64,
    /// Chunks returned.
    pub num_chunks_returned_to_freelist: u64,
    /// Chunks handed out.
    pub num_chunks_taken_from_freelist: u64,
    /// Chunks merged on their return, however far.
    pub num_chunk_merges: u64,
    /// Chunks split when handed out, however far.
    pub num_chunk_splits: u64,
    /// Chunks enlarged in place.
    pub num_chunks_enlarged: u64,
    /// Contradicting statistics: none, because here they are taken in one piece.
    pub num_inconsistent_stats: u64,
}

impl Counters {
    /// Each count with its name, in the order of `VM.metaspace`.
    pub fn each(&self) -> [(&'static str, u64); 13] {
        [
            ("num_allocs_failed_limit", self.num_allocs_failed_limit),
            ("num_arena_births", self.num_arena_births),
            ("num_arena_deaths", self.num_arena_deaths),
            ("num_vsnodes_births", self.num_vsnodes_births),
            ("num_vsnodes_deaths", self.num_vsnodes_deaths),
            ("num_space_committed", self.num_space_committed),
            ("num_space_uncommitted", self.num_space_uncommitted),
            ("num_chunks_returned_to_freelist", self.num_chunks_returned_to_freelist),
            ("num_chunks_taken_from_freelist", self.num_chunks_taken_from_freelist),
            ("num_chunk_merges", self.num_chunk_merges),
            ("num_chunk_splits", self.num_chunk_splits),
            ("num_chunks_enlarged", self.num_chunks_enlarged),
            ("num_inconsistent_stats", self.num_inconsistent_stats),
        ]
    }
}
