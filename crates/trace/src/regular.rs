//! Opens files of a folder with untrusted content. Opening a pipe would wait for a writer that
//! never comes, so the file type is checked first.

use crate::TraceError;
use std::fs::{self, File};
use std::path::Path;

/// Opens `path` for reading; it must be a regular file. `action` names the failed action in the
/// error.
pub(crate) fn open(path: &Path, action: &'static str) -> Result<File, TraceError> {
    if fs::metadata(path).map_err(TraceError::io(path, action))?.is_file() {
        return File::open(path).map_err(TraceError::io(path, action));
    }
    let (place, expected) = ("its kind".into(), "a regular file".into());
    Err(TraceError::Malformed {
        path: path.into(),
        place,
        expected,
        found: "a folder, a pipe, a socket or a device".into(),
    })
}
