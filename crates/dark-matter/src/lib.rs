//! Dark matter: the live blocks of a recording that no memory reporter names, and those that two
//! reporters name.
//!
//! A program with reporters (crates/reporter), recorded with `heaplab record --dmd`, has a `report`
//! row for each block that a reporter names, between two marks ([`ASKED`], [`ANSWERED`]). [`find`]
//! takes the last pass over the reporters and divides the blocks live at that moment. Reported
//! addresses without a live block have their own list: the block was freed before, or never
//! existed.
//!
//! Source: Firefox's DMD (dark matter detector), whose lists of unreported, once-reported and
//! twice-reported blocks these are. Deviations: bytes are usable bytes with slop beside them, and
//! sampling needs no correction because every block is recorded.

mod difference;
mod order;
mod pass;
mod recording;
mod text;

pub use order::SortBy;
pub use pass::{ANSWERED, ASKED, find, find_at};
pub use recording::{find_in, subject};
pub use text::{FRAMES, render, section};

use serde::Serialize;
use std::collections::BTreeMap;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum DarkMatterError {
    /// The recording has no question to reporters.
    #[error(
        "no memory reporter was asked: record a program that links heaplab-reporter with \
         `heaplab record --dmd`, and ask its reporters while they are there (`heaplab about PID`, \
         or HEAPLAB_MARK in the program); of Firefox import a file of DMD=--mode=dark-matter \
         (docs/reporters.md)"
    )]
    NeverAsked,
    /// The program set no such mark.
    #[error("{mark:?} is no mark of this recording; there are: {there}")]
    NoMark {
        /// The name.
        mark: String,
        /// The names of the recording's marks.
        there: String,
    },
    /// The events cannot be read.
    #[error(transparent)]
    Unread(#[from] heaplab_trace::TraceError),
}

/// Some blocks; in a difference, how many more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Blocks {
    /// Number of blocks.
    pub count: i64,
    /// Their usable bytes.
    pub usable_bytes: i64,
    /// Usable bytes beyond the requested ones.
    pub slop_bytes: i64,
}

/// Blocks with one history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The blocks.
    pub blocks: Blocks,
    /// The stack of their allocation, innermost frame first.
    pub allocated_at: Vec<String>,
    /// The stacks of their reports, one a report.
    pub reported_at: Vec<Vec<String>>,
}

/// Blocks reported equally often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct List {
    /// All of them.
    pub blocks: Blocks,
    /// The most bytes first.
    pub groups: Vec<Group>,
}

/// The heap as the reporters saw it when they were asked, the last time or at a mark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DarkMatter {
    /// The recording that this is the difference to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Number of passes in which reporters named blocks; 0: the shown one named none.
    pub asked: u64,
    /// The mark at which the shown pass was made, if one was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// Time of the shown pass, since the recording began.
    pub time_ns: u64,
    /// Whether the reporters answered to the end: the program may have ended before.
    pub is_whole: bool,
    /// All blocks live at that time.
    pub live: Blocks,
    /// Named by no reporter.
    pub unreported: List,
    /// Named by one, once.
    pub once: List,
    /// Named more than once, so counted twice.
    pub twice: List,
    /// Reports without a live block: their number, and the stack that made them.
    pub of_nothing: Vec<(i64, Vec<String>)>,
    /// Reports of blocks that a forked child got from its parent, or of blocks born during the
    /// pass.
    pub set_aside: u64,
}

impl DarkMatter {
    /// Puts groups together whose stacks agree in their innermost `frames` frames: one cause has
    /// many stacks where it is reached in many ways.
    #[must_use]
    pub fn with_frames(mut self, frames: usize) -> DarkMatter {
        for list in [&mut self.unreported, &mut self.once, &mut self.twice] {
            let mut together: BTreeMap<(Vec<String>, Vec<Vec<String>>), Blocks> = BTreeMap::new();
            for Group { blocks, mut allocated_at, mut reported_at } in list.groups.drain(..) {
                allocated_at.truncate(frames);
                reported_at.iter_mut().for_each(|stack| stack.truncate(frames));
                together.entry((allocated_at, reported_at)).or_default().add(blocks);
            }
            list.groups = together
                .into_iter()
                .map(|((allocated_at, reported_at), blocks)| Group {
                    blocks,
                    allocated_at,
                    reported_at,
                })
                .collect();
        }
        let mut of_nothing: BTreeMap<Vec<String>, i64> = BTreeMap::new();
        for (times, mut stack) in self.of_nothing {
            stack.truncate(frames);
            *of_nothing.entry(stack).or_default() += times;
        }
        self.of_nothing = of_nothing.into_iter().map(|(stack, times)| (times, stack)).collect();
        self.sorted_by(SortBy::Usable)
    }
}

impl Blocks {
    fn add(&mut self, more: Blocks) {
        self.count += more.count;
        self.usable_bytes = self.usable_bytes.saturating_add(more.usable_bytes);
        self.slop_bytes = self.slop_bytes.saturating_add(more.slop_bytes);
    }
}
