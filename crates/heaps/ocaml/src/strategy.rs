//! The differences between the runtime's versions, as data.
//!
//! Source: the differences between the branches 4.12, 4.13 and 4.14 of `runtime/*.c`.

use crate::spec::Policy;
use serde::Serialize;

/// A version of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Version {
    /// 4.12.
    #[serde(rename = "4.12")]
    V4_12,
    /// 4.13, Debian 12's.
    #[serde(rename = "4.13")]
    V4_13,
    /// 4.14.0 and 4.14.1.
    #[serde(rename = "4.14")]
    V4_14,
    /// 4.14.2, the last one before OCaml 5.
    #[serde(rename = "4.14.2")]
    V4_14_2,
}

/// The rule that starts a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionRule {
    /// The free list's size when the sweep began and now, extrapolated (4.12).
    FreeList,
    /// The words marked in the last cycle, against the heap when that cycle began (4.13 on).
    Marked,
}

/// The way of marking from block to block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// A stack of blocks; marking colours a block when it finds it (up to 4.13).
    Stack,
    /// A stack of ranges of fields behind a ring of prefetched blocks; a block gets its colour when
    /// it leaves the ring (4.14).
    Prefetch,
}

/// The chunk from which the compactor looks for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionFit {
    /// The first chunk with room for more than four words, or the chunk before it (4.12).
    FourWords,
    /// The first chunk with room for the smallest block (4.13.0 to 4.14.1).
    TwoWords,
    /// The chunk of the last block of the same kind; the kinds are blocks of at most eleven words
    /// and larger ones (4.14.2).
    LastOfKind,
}

/// The choices of a version.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// The version.
    pub version: Version,
    /// Its name on the command line.
    pub name: &'static str,
    /// Default of `a`.
    pub policy: Policy,
    /// Default of `o`.
    pub space_overhead: usize,
    /// The rule that starts a compaction.
    pub compaction: CompactionRule,
    /// The way of marking.
    pub marking: Marking,
    /// The chunk from which the compactor looks for room.
    pub compaction_fit: CompactionFit,
    /// Whether a compaction moves fragments, headers without fields, as if they lived (4.12).
    pub moves_fragments: bool,
    /// Whether marking a block without values costs all of its words; false: only the header
    /// (4.12).
    pub charges_unscanned: bool,
    /// Bytes in malloc when the runtime makes its page table: malloc's own, the runtime's state,
    /// its parameters.
    pub before_bytes: usize,
    /// Bytes of the runtime's header in front of a chunk (`caml/major_gc.h`, `heap_chunk_head`).
    pub chunk_header_bytes: usize,
    /// The stack for signals comes from malloc (4.13 on), not from static data.
    pub allocates_signal_stack: bool,
    /// Compiled loops check whether the collector wants to run (4.13 on: safepoints); before, only
    /// allocations do.
    pub polls: bool,
}

/// All versions.
pub const VERSIONS: [Strategy; 4] = [
    Strategy {
        version: Version::V4_12,
        name: "4.12",
        policy: Policy::NextFit,
        space_overhead: 80,
        compaction: CompactionRule::FreeList,
        marking: Marking::Stack,
        compaction_fit: CompactionFit::FourWords,
        moves_fragments: true,
        charges_unscanned: false,
        before_bytes: 0x6f0,
        chunk_header_bytes: 48,
        allocates_signal_stack: false,
        polls: false,
    },
    Strategy {
        version: Version::V4_13,
        name: "4.13",
        policy: Policy::BestFit,
        space_overhead: 120,
        compaction: CompactionRule::Marked,
        marking: Marking::Stack,
        compaction_fit: CompactionFit::TwoWords,
        moves_fragments: false,
        charges_unscanned: true,
        before_bytes: 0x7f0,
        chunk_header_bytes: 48,
        allocates_signal_stack: true,
        polls: true,
    },
    Strategy {
        version: Version::V4_14,
        name: "4.14",
        policy: Policy::BestFit,
        space_overhead: 120,
        compaction: CompactionRule::Marked,
        marking: Marking::Prefetch,
        compaction_fit: CompactionFit::TwoWords,
        moves_fragments: false,
        charges_unscanned: true,
        before_bytes: 0x9f0,
        chunk_header_bytes: 56,
        allocates_signal_stack: true,
        polls: true,
    },
    Strategy {
        version: Version::V4_14_2,
        name: "4.14.2",
        policy: Policy::BestFit,
        space_overhead: 120,
        compaction: CompactionRule::Marked,
        marking: Marking::Prefetch,
        compaction_fit: CompactionFit::LastOfKind,
        moves_fragments: false,
        charges_unscanned: true,
        before_bytes: 0x9f0,
        chunk_header_bytes: 56,
        allocates_signal_stack: true,
        polls: true,
    },
];

impl Version {
    /// The version's choices.
    pub fn strategy(self) -> &'static Strategy {
        match self {
            Version::V4_12 => &VERSIONS[0],
            Version::V4_13 => &VERSIONS[1],
            Version::V4_14 => &VERSIONS[2],
            Version::V4_14_2 => &VERSIONS[3],
        }
    }

    /// The version of a runtime's own number (4.13.1) or a branch (4.13).
    pub fn named(number: &str) -> Option<Version> {
        let branch = || number.match_indices('.').nth(1).map_or(number, |(at, _)| &number[..at]);
        let find = |name: &str| VERSIONS.iter().find(|strategy| strategy.name == name);
        find(number).or_else(|| find(branch())).map(|strategy| strategy.version)
    }
}
