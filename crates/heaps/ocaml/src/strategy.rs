//! What differs between the runtime's versions, as data.
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
    /// 4.14.0 and 4.14.1, the last ones before OCaml 5.
    #[serde(rename = "4.14")]
    V4_14,
}

/// When a compaction starts by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionRule {
    /// By the free list's size when the sweep began and now, extrapolated (4.12).
    FreeList,
    /// By the words marked in the cycle that has ended, against the heap when the cycle began (4.13
    /// on).
    Marked,
}

/// How marking goes from block to block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// A stack of blocks; a block is coloured when it is found (up to 4.13).
    Stack,
    /// A stack of ranges of fields behind a ring of prefetched blocks; a block is coloured when it
    /// leaves the ring (4.14).
    Prefetch,
}

/// Where the compactor looks for room: from which chunk on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionFit {
    /// The first one with room for more than four words, or before such a one (4.12).
    FourWords,
    /// The first one with room for the smallest block (4.13 on).
    TwoWords,
}

/// The choices of a version.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// Which version.
    pub version: Version,
    /// As it is named on the command line.
    pub name: &'static str,
    /// Default of `a`.
    pub policy: Policy,
    /// Default of `o`.
    pub space_overhead: usize,
    /// When a compaction starts by itself.
    pub compaction: CompactionRule,
    /// How marking goes.
    pub marking: Marking,
    /// Where the compactor looks for room.
    pub compaction_fit: CompactionFit,
    /// A compaction moves fragments, headers without fields, as if they lived (4.12).
    pub moves_fragments: bool,
    /// Words that marking a block without values is charged beside its header: all of them, or none
    /// (4.12).
    pub charges_unscanned: bool,
    /// Compiled loops look whether the collector wants to run (4.13 on: safepoints); before,
    /// allocations alone do.
    pub polls: bool,
}

/// All versions.
pub const VERSIONS: [Strategy; 3] = [
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
        }
    }
}
