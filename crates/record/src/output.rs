//! Where a recording goes, and what may be replaced there.

use crate::control::{self, CONTROL_FILE};
use crate::error::RecordError;
use crate::mark::spool_of;
use heaplab_trace::bundle::META_FILE;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The bundle that a recording of `program` makes when nothing else is said: its name in the working folder.
pub fn default_output(program: &OsStr) -> PathBuf {
    let mut name = Path::new(program).file_name().unwrap_or(OsStr::new("recording")).to_owned();
    name.push(".heaplab");
    PathBuf::from(name)
}

/// The bundle that the spool will become: its name without ".spool".
pub fn output_of(spool: &Path) -> PathBuf {
    if spool.extension() == Some(OsStr::new("spool")) { spool.with_extension("") } else { spool.with_extension("heaplab") }
}

/// Makes sure that nothing stands at `output` or at its spool; with `force` what a recording left there is removed, and
/// nothing else ever is.
pub fn clear(output: &Path, force: bool) -> Result<(), RecordError> {
    let spool = spool_of(output);
    if control::is_running(&spool) {
        return Err(RecordError::SpoolInUse(spool));
    }
    if spool.symlink_metadata().is_ok() {
        if !(force && (spool.join(CONTROL_FILE).exists() || is_empty(&spool))) {
            return Err(RecordError::SpoolExists(spool));
        }
        fs::remove_dir_all(&spool).map_err(RecordError::io("cannot replace", &spool))?;
    }
    clear_bundle(output, force)
}

/// The same for the bundle alone.
pub fn clear_bundle(output: &Path, force: bool) -> Result<(), RecordError> {
    if output.symlink_metadata().is_err() {
        return Ok(());
    }
    if !force {
        return Err(RecordError::Exists(output.to_owned()));
    }
    if !(output.join(META_FILE).exists() || is_empty(output)) {
        return Err(RecordError::NotABundle(output.to_owned()));
    }
    fs::remove_dir_all(output).map_err(RecordError::io("cannot replace", output))
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes a spool that has become a bundle, or of which nothing came.
pub fn discard_spool(spool: &Path) -> Result<(), RecordError> {
    fs::remove_dir_all(spool).map_err(RecordError::io("cannot remove the spool", spool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_each_other() {
        assert_eq!(default_output(OsStr::new("/usr/bin/sqlite3")), Path::new("sqlite3.heaplab"));
        assert_eq!(output_of(&spool_of(Path::new("a/b.heaplab"))), Path::new("a/b.heaplab"));
        assert_eq!(spool_of(Path::new("a/b.heaplab/")), Path::new("a/b.heaplab.spool"));
        assert_eq!(output_of(Path::new("a/left")), Path::new("a/left.heaplab"));
    }

    #[test]
    fn only_what_a_recording_left_is_ever_removed() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("x.heaplab");
        assert!(clear(&output, false).is_ok());
        fs::create_dir(&output).unwrap();
        fs::write(output.join("thesis.txt"), b"precious").unwrap();
        assert!(matches!(clear(&output, false), Err(RecordError::Exists(_))));
        assert!(matches!(clear(&output, true), Err(RecordError::NotABundle(_))));
        fs::write(output.join("meta.json"), b"{}").unwrap();
        assert!(clear(&output, true).is_ok() && !output.exists());
        let spool = spool_of(&output);
        fs::create_dir(&spool).unwrap();
        fs::write(spool.join(CONTROL_FILE), b"").unwrap();
        assert!(matches!(clear(&output, false), Err(RecordError::SpoolExists(_))));
        assert!(clear(&output, true).is_ok() && !spool.exists());
    }
}
