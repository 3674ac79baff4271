//! Dark matter: the live blocks of a recording that no memory reporter names, and those that two
//! name.
//!
//! A program with reporters (crates/reporter), recorded with `heaplab record --dmd`, has a `report`
//! row for each block that a reporter names, between two marks ([`ASKED`], [`ANSWERED`]).
//! [`find`] takes the last time that the reporters were asked, and divides the blocks live then.
//! What a reporter names that is no live block has its own list: freed before, or never a block.
//!
//! Source: Firefox's DMD (dark matter detector), whose lists of unreported, once-reported and
//! twice-reported blocks these are. Deviations: bytes are usable bytes with slop beside them, and
//! sampling needs no correction because every block is recorded.

mod pass;
mod text;

pub use pass::{ANSWERED, ASKED, find};
pub use text::{render, section};

use serde::Serialize;

/// Why there is nothing to say.
#[derive(Debug, thiserror::Error)]
pub enum DarkMatterError {
    /// The recording has no such rows.
    #[error(
        "no memory reporter named a block during this recording: record a program that links \
         heaplab-reporter with `heaplab record --dmd`, and ask its reporters while they are there \
         (`heaplab about PID`, or HEAPLAB_MARK in the program; docs/reporters.md)"
    )]
    NeverAsked,
    /// The events cannot be read.
    #[error(transparent)]
    Unread(#[from] heaplab_trace::TraceError),
}

/// Some blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Blocks {
    /// How many.
    pub count: u64,
    /// Their usable bytes.
    pub usable_bytes: u64,
    /// Of these, what was not asked for.
    pub slop_bytes: u64,
}

/// Blocks with one history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The blocks.
    pub blocks: Blocks,
    /// Where they were allocated, innermost first.
    pub allocated_at: Vec<String>,
    /// Where reporters named them; one stack a report.
    pub reported_at: Vec<Vec<String>>,
}

/// Blocks that are alike in how often they are reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct List {
    /// All of them.
    pub blocks: Blocks,
    /// The most bytes first.
    pub groups: Vec<Group>,
}

/// The heap as the reporters see it, the last time they were asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DarkMatter {
    /// How often they were asked and named blocks.
    pub asked: u64,
    /// When that time was, since the recording began.
    pub time_ns: u64,
    /// Whether they answered to the end: the program may have ended in between.
    pub is_whole: bool,
    /// All blocks that were live then.
    pub live: Blocks,
    /// Named by no reporter.
    pub unreported: List,
    /// Named by one, once.
    pub once: List,
    /// Named more often: counted twice.
    pub twice: List,
    /// Reports that name no live block, by where they were made: a count each.
    pub of_nothing: Vec<(u64, Vec<String>)>,
    /// Reports of blocks that a forked child has from its parent, or that were made meanwhile.
    pub set_aside: u64,
}
