//! The spool: all that a recording knows before it is finished, in a form that survives the death
//! of any process (docs/spool-format.md).

pub mod block;
pub mod note;
pub mod reader;
pub mod record;
pub mod widths;
pub mod writer;

use crate::error::RecordError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The file of blocks in the spool folder.
pub const EVENTS_FILE: &str = "events.spool";
/// File of marks set from outside, a line of JSON each.
pub const MARKS_FILE: &str = "marks";

/// Most bytes of a file of facts.
const FACTS_BYTES_MAX: u64 = 64 << 20;

/// Writes a recording's facts as JSON into the file `name` of the spool.
pub(crate) fn write_facts(
    spool: &Path,
    name: &str,
    facts: &impl Serialize,
) -> Result<(), RecordError> {
    let path = spool.join(name);
    let text = serde_json::to_vec(facts)
        .map_err(|error| RecordError::io("cannot write", &path)(error.into()))?;
    fs::write(&path, text).map_err(RecordError::io("cannot write", &path))
}

/// Reads them.
pub(crate) fn read_facts<T: DeserializeOwned>(spool: &Path, name: &str) -> Result<T, RecordError> {
    let path = spool.join(name);
    let mut text = Vec::new();
    let file = File::open(&path).map_err(RecordError::io("cannot open", &path))?;
    file.take(FACTS_BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(RecordError::io("cannot read", &path))?;
    serde_json::from_slice(&text).map_err(|error| RecordError::NotASpool {
        path: spool.into(),
        reason: format!("{name}: {error}"),
    })
}
