//! The parts of resident memory.

use serde::Serialize;

/// Resident memory over time and at its largest reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Resident {
    /// Times of the readings, ns since the recording began.
    pub time_ns: Vec<u64>,
    /// Kinds of parts that had bytes in some reading, the lowest area first.
    pub kinds: Vec<ResidentKindRow>,
    /// When the largest reading was.
    pub at_ns: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Its parts, the largest first; together `bytes`.
    pub parts: Vec<ResidentPartRow>,
}

/// A kind of part over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResidentKindRow {
    /// Its name as in `resident.parquet`.
    pub kind: &'static str,
    /// Resident bytes at each reading.
    pub bytes: Vec<u64>,
}

/// A part at the largest reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResidentPartRow {
    /// The part's name.
    pub label: String,
    /// Resident bytes.
    pub bytes: u64,
    /// Of these, bytes in huge pages.
    pub huge_bytes: u64,
    /// Mappings, or pieces of mappings.
    pub mappings: u64,
    /// The stack that mapped most of it, innermost first; empty: not recorded.
    pub frames: Vec<u32>,
}
