//! New files from old ones: other columns, fewer secrets, fewer objects, or more. All stream rows
//! into a [`crate::write::Writer`]. So the result is a valid snapshot or an error, and memory holds
//! the strings and at most a few bytes a node.

mod convert;
mod ids;
mod ladder;
mod redact;
mod repair;
mod small_lists;
mod trim;

pub use convert::{Converted, Lost, Target, convert};
pub use ladder::{Ladder, ladder};
pub use redact::{Identifiers, Keep, Key, Redacted, Redaction, redact};
pub use repair::{Repaired, is_repairable, repair};
pub use trim::{Trimmed, Trimming, trim};

use crate::ReadError;
use crate::names::{Hash, StringId, StringsFull, StringsStorage};
use crate::rows::Rows;
use crate::write::WriteError;

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// The file is damaged.
    #[error("the snapshot is damaged at {0}; `validate` names the undamaged part")]
    Damage(#[from] ReadError),
    /// The new file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Too many strings.
    #[error(transparent)]
    Strings(#[from] StringsFull),
    /// The lists of scopes do not belong together.
    #[error(
        "the snapshot is damaged: `scopes` says of more or fewer variables than `scope_context_vars` and `scope_uses` have"
    )]
    Scopes,
    /// The request is impossible.
    #[error("{0}")]
    Asked(String),
}

/// How far a rewrite has come: rows done, of so many.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Rows between two calls of a progress function.
const PROGRESS_ROWS: u64 = 1 << 18;

/// Rows counted for a progress function.
struct Ticker<'a> {
    progress: Progress<'a>,
    done: u64,
    of: u64,
}

impl Ticker<'_> {
    fn new(progress: Progress<'_>, of: u64) -> Ticker<'_> {
        Ticker { progress, done: 0, of }
    }

    #[inline]
    fn tick(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(PROGRESS_ROWS) {
            (self.progress)(self.done, self.of);
        }
    }
}

/// The strings of a file, one copy each; a file may have copies.
pub(crate) struct FileStrings {
    pub(crate) strings: StringsStorage,
    /// Number in the file -> number in `strings`.
    pub(crate) of_file: Vec<StringId>,
}

impl FileStrings {
    pub(crate) fn read(rows: &Rows<'_>) -> Result<FileStrings, RewriteError> {
        let mut read =
            FileStrings { strings: StringsStorage::new(Hash::Mixed), of_file: Vec::new() };
        let mut strings = rows.strings();
        while let Some(text) = strings.read()? {
            read.of_file.push(read.strings.intern_bytes(text)?);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
