//! Opening the files of a folder that somebody else filled. A pipe among them would keep whoever
//! opens it waiting for a writer that never comes, so that the kind is asked first.

use crate::TraceError;
use std::fs::{self, File};
use std::path::Path;

/// Opens `path` for reading, which must be a file as disks have them. `action` is what is said to
/// have failed where there is none.
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
