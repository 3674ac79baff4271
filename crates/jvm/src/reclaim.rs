//! The reclaim policy that a JVM names in its log.

use serde::{Deserialize, Serialize};

/// HotSpot's reclaim policy (`-XX:MetaspaceReclaimPolicy`), as the address of a row
/// `ChunkOp::Granule` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reclaim {
    /// The recording does not say.
    #[default]
    Unknown,
    /// The default.
    Balanced,
    /// Granules of 16 KB.
    Aggressive,
    /// Nothing is uncommitted.
    None,
    /// The JVM has no such setting: JDK 21 removed it.
    Removed,
}

impl Reclaim {
    const ALL: [Reclaim; 5] =
        [Reclaim::Unknown, Reclaim::Balanced, Reclaim::Aggressive, Reclaim::None, Reclaim::Removed];

    /// As the row has it.
    pub fn code(self) -> u64 {
        self as u64
    }

    /// From a row.
    pub fn from_code(code: u64) -> Reclaim {
        usize::try_from(code)
            .ok()
            .and_then(|code| Reclaim::ALL.get(code).copied())
            .unwrap_or_default()
    }
}
