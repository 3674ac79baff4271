//! What becomes of requests, and what each change assumes.

use crate::place::stacks_through;
use crate::{Place, SizeRow, WhatIfError};
use heaplab_trace::tables::Tables;

/// Default bytes of an arena's chunk.
pub const CHUNK_BYTES: u64 = 64 * 1024;

/// A change of the program: what, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Which requests.
    pub place: Place,
    /// Functions on the stack of requests that stay as they are all the same.
    pub except: Vec<String>,
    /// The change of these requests.
    pub change: Change,
}

/// What becomes of requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// They ask for other sizes.
    Sizes(Sizes),
    /// A buffer that is too small grows ahead.
    Grow(Growth),
    /// At most so many bytes are live: the oldest blocks are freed before a new one is made.
    Cap {
        /// The most.
        bytes: u64,
    },
    /// Freed blocks are kept, and reused if they are large enough.
    Reuse,
    /// They are not made.
    Drop,
    /// Requests whose blocks are never freed are not made.
    DropUnfreed,
    /// They are taken from chunks that are freed together once the last block of a thread's arena
    /// is dead.
    Arena {
        /// Bytes of a chunk.
        chunk_bytes: u64,
    },
}

/// How far a buffer that is too small grows ahead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// To this multiple of the present size, above 1, or to the requested size.
    Factor(f64),
    /// To the next power of two from the requested size on.
    PowerOfTwo,
}

impl Growth {
    /// The size to which a buffer of `has_bytes` grows when `bytes` do not fit.
    pub(crate) fn grown(self, has_bytes: u64, bytes: u64) -> u64 {
        match self {
            Growth::Factor(factor) => bytes.max((has_bytes as f64 * factor).ceil() as u64),
            Growth::PowerOfTwo => bytes.checked_next_power_of_two().unwrap_or(bytes),
        }
    }
}

/// Other sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Every request asks for this many bytes less; one that is no larger stays.
    Less(u64),
    /// Requests of these sizes ask for others.
    Table(Vec<SizeRow>),
}

impl Rule {
    /// The change in words: `read_line: buffers grow 2-fold`.
    pub fn words(&self) -> String {
        let mut place = self.place.name().to_owned();
        if !self.except.is_empty() {
            place = format!("{place} without {}", self.except.join(", "));
        }
        let what = match &self.change {
            Change::Sizes(Sizes::Less(bytes)) => format!("every request is {bytes} bytes less"),
            Change::Sizes(Sizes::Table(rows)) => {
                let words: Vec<String> = rows.iter().take(4).map(SizeRow::words).collect();
                let more = rows.len().saturating_sub(4);
                let more = if more > 0 { format!(" and {more} more sizes") } else { String::new() };
                format!("requests of {}{more}", words.join(", "))
            }
            Change::Grow(Growth::Factor(factor)) => format!("buffers grow {factor}-fold"),
            Change::Grow(Growth::PowerOfTwo) => "buffers grow to powers of two".into(),
            Change::Cap { bytes } => format!("at most {bytes} bytes are live"),
            Change::Reuse => "blocks are kept and used again".into(),
            Change::Drop => "nothing is asked for".into(),
            Change::DropUnfreed => "what is never freed is not made".into(),
            Change::Arena { chunk_bytes } => {
                format!("blocks come from an arena's chunks of {chunk_bytes} bytes")
            }
        };
        format!("{place}: {what}")
    }

    /// For each row of `stacks`, whether its requests change.
    ///
    /// # Errors
    /// No stack has a function.
    pub(crate) fn rows(&self, tables: &Tables) -> Result<Vec<bool>, WhatIfError> {
        let mut rows = self.place.rows(tables)?;
        for function in &self.except {
            let stay = stacks_through(tables, function)?;
            rows.iter_mut().zip(stay).for_each(|(row, stays)| *row &= !stays);
        }
        Ok(rows)
    }

    /// The assumption of the change, a sentence.
    pub fn assumption(&self) -> &'static str {
        match &self.change {
            Change::Sizes(Sizes::Table(rows)) if rows.iter().any(|row| row.displaces) => {
                "What was over the round size has to be somewhere: it fills further blocks of that size, which live as long as the block that fills them up."
            }
            Change::Sizes(_) => {
                "The content fits the other sizes; where it is put otherwise is not modelled."
            }
            Change::Grow(_) => {
                "A buffer that is large enough is not asked for again. A buffer that is grown by hand (allocate, copy, free) is known by its stack: soon after a block is born a smaller one of the same stack is freed, in at least four of five cases, and it is not the oldest of several that each are larger than the last (a queue's). Moves cost what the replayed heap takes for them: a step that is not made copies nothing."
            }
            Change::Cap { .. } => {
                "What is freed early is not asked for again: reading it back in is not modelled."
            }
            Change::Reuse => {
                "There are never more blocks than were live at once, and they stay to the end. The smallest kept block that is large enough is used again; if none is, the largest makes way for a new one. A block keeps its contents: clearing it is not modelled."
            }
            Change::Drop => {
                "Nothing takes the place of what is dropped: work that would be done again is not modelled."
            }
            Change::DropUnfreed => {
                "At most so much is saved: what is never freed is taken for not needed at any time."
            }
            Change::Arena { .. } => {
                "A block in an arena is not used again before the whole arena is freed; blocks over half a chunk have a chunk of their own."
            }
        }
    }

    /// As a workload is that only a program frees, in a word; `None`: any workload can be changed.
    pub(crate) fn needs_frees(&self) -> Option<&'static str> {
        match self.change {
            Change::Sizes(_) | Change::Drop | Change::DropUnfreed => None,
            Change::Grow(_) => Some("grown otherwise"),
            Change::Cap { .. } => Some("capped"),
            Change::Reuse => Some("kept and used again"),
            Change::Arena { .. } => Some("put into an arena"),
        }
    }
}
