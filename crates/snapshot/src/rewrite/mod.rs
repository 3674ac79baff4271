//! Files made from files: other columns, fewer secrets, less of it, or more. All of them stream rows into a [`Writer`], so that what comes
//! out is a valid snapshot or an error, and memory is that of the strings and at most a few bytes a node.
//!
//! What only the latest Chromium writes, `scopes` and a location's `script_object_index`, is left out.

mod convert;
mod ladder;
mod redact;
mod trim;

pub use convert::{Target, convert};
pub use ladder::{Ladder, ladder};
pub use redact::{Identifiers, Keep, Redacted, Redaction, redact};
pub use trim::{Trimmed, Trimming, trim};

use crate::names::{Hash, StringId, StringsFull, StringsStorage};
use crate::rows::{Damage, Rows, TraceStep};
use crate::write::{Section, WriteError, Writer};
use std::io::Write;

/// Why no file came of it.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// The file is damaged.
    #[error("the snapshot is damaged at {0}; `validate` says how far it is good")]
    Damage(#[from] Damage),
    /// The new file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Too many strings.
    #[error(transparent)]
    Strings(#[from] StringsFull),
    /// What is asked for cannot be.
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
        let mut read = FileStrings { strings: StringsStorage::new(Hash::Mixed), of_file: Vec::new() };
        let mut strings = rows.strings();
        while let Some(text) = strings.read()? {
            read.of_file.push(read.strings.intern_bytes(text)?);
        }
        Ok(read)
    }
}

/// Trace functions, the trace tree, samples and locations. `name` gives strings of the file their new number; `places` gives
/// the new ordinals of a node.
fn copy_small_lists<W: Write>(
    rows: &Rows<'_>,
    writer: &mut Writer<W>,
    mut name: impl FnMut(&mut StringsStorage, StringId) -> Result<StringId, RewriteError>,
    mut places: impl FnMut(u64, &mut Vec<u64>),
) -> Result<(), RewriteError> {
    let mut infos = rows.numbers(Section::TraceFunctionInfos);
    let mut row = [0; 6];
    loop {
        let at = infos.offset();
        if !infos.row(&mut row)? {
            break;
        }
        let function = name(writer.strings(), rows.name(row[1], at)?)?;
        let script = name(writer.strings(), rows.name(row[2], at)?)?;
        writer.trace_function_info(row[0], function, script, [row[3], row[4], row[5]])?;
    }
    let mut steps = rows.trace_tree();
    while let Some(step) = steps.read()? {
        match step {
            TraceStep::Open(columns) => writer.open_trace_node(columns)?,
            TraceStep::Close => writer.close_trace_node()?,
        }
    }
    let mut samples = rows.numbers(Section::Samples);
    let mut row = [0; 2];
    while samples.row(&mut row)? {
        writer.sample(row[0], row[1])?;
    }
    let (mut locations, mut ordinals) = (rows.locations(), Vec::new());
    while let Some(location) = locations.read()? {
        ordinals.clear();
        places(location.node, &mut ordinals);
        for ordinal in &ordinals {
            writer.location(*ordinal, location.script_id, location.line, location.column)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
