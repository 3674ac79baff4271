//! The place of a recording, and the files that it may replace.

use crate::control::{self, CONTROL_FILE};
use crate::error::RecordError;
use crate::mark::spool_of;
use heaplab_trace::bundle::{Bundle, may_be_replaced};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The default bundle of a recording of `program`: the program's name in the working folder.
pub fn default_output(program: &OsStr) -> PathBuf {
    let mut name = Path::new(program).file_name().unwrap_or(OsStr::new("recording")).to_owned();
    name.push(".heaplab");
    PathBuf::from(name)
}

/// The recording at `path`.
///
/// # Errors
/// The recording does not exist, is not finished (the error says what to do), or is not a bundle.
pub fn open(path: &Path) -> Result<Bundle, RecordError> {
    // Only a folder that certainly does not exist is missing: opening explains other failures.
    if !matches!(path.try_exists(), Ok(false)) {
        return Ok(Bundle::open(path)?);
    }
    let spool = spool_of(path);
    Err(match spool.exists() {
        false => RecordError::NoRecording(path.into()),
        true if control::is_running(&spool) => RecordError::StillRecording(path.into()),
        true => RecordError::Unfinished { bundle: path.into(), spool },
    })
}

/// The bundle that the spool will become: its name without ".spool".
pub fn output_of(spool: &Path) -> PathBuf {
    if spool.extension() == Some(OsStr::new("spool")) {
        spool.with_extension("")
    } else {
        spool.with_extension("heaplab")
    }
}

/// How long to wait for another recording that is about to begin in the same folder.
const CLAIM_WAIT: Duration = Duration::from_secs(5);

/// A folder with a recording about to begin: until the claim is dropped no other recording clears
/// anything there. Keep the claim until the spool exists and its control page is locked.
#[derive(Debug)]
pub struct Claim {
    _locked: Option<File>,
}

impl Claim {
    /// Claims the folder of `output`. Goes on without a claim if the lock fails: file systems may
    /// have no locks, and the holder of the lock may be stopped.
    fn of(output: &Path) -> Claim {
        let parent = output
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let begun = Instant::now();
        let folder = File::open(parent).ok();
        while let Some(folder) = &folder
            && rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive)
                == Err(Errno::WOULDBLOCK)
            && begun.elapsed() < CLAIM_WAIT
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        Claim { _locked: folder }
    }
}

/// Ensures that `output` and its spool are free. With `force` it removes an unfinished recording's
/// spool. A bundle stays, to be replaced when the new one is whole; nothing else is ever replaced.
/// Two recordings of one name that begin together do not take each other's spool for an abandoned
/// one: the second waits until the first has locked its own.
pub fn clear(output: &Path, force: bool) -> Result<Claim, RecordError> {
    let spool = spool_of(output);
    let claim = Claim::of(&spool);
    if control::is_running(&spool) {
        return Err(RecordError::SpoolInUse(spool));
    }
    let unfinished = spool.symlink_metadata().is_ok();
    if unfinished && !(force && (spool.join(CONTROL_FILE).exists() || is_empty(&spool))) {
        return Err(RecordError::SpoolExists(spool));
    }
    check_bundle(output, force)?;
    if unfinished {
        fs::remove_dir_all(&spool).map_err(RecordError::io("cannot replace", &spool))?;
    }
    Ok(claim)
}

/// Whether a bundle may be written at `output`: the place is free, or with `force` holds a bundle
/// or an empty folder.
pub fn check_bundle(output: &Path, force: bool) -> Result<(), RecordError> {
    if output.symlink_metadata().is_err() {
        return Ok(());
    }
    if !force {
        return Err(RecordError::Exists(output.to_owned()));
    }
    if !may_be_replaced(output) {
        return Err(RecordError::NotABundle(output.to_owned()));
    }
    Ok(())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Makes the spool of `output`, for this user alone, and lets `record` fill it. The spool goes
/// unless the recording waits in it to be finished.
pub(crate) fn with_spool<T>(
    output: &Path,
    record: impl FnOnce(&Path) -> Result<T, RecordError>,
) -> Result<T, RecordError> {
    let output = std::path::absolute(output).map_err(RecordError::io("cannot find", output))?;
    let spool = spool_of(&output);
    let made = fs::DirBuilder::new().mode(0o700).create(&spool);
    made.map_err(RecordError::io("cannot make the folder", &spool))?;
    let recorded = record(&spool);
    if !matches!(recorded, Err(RecordError::Finish { .. })) {
        discard_spool(&spool)?;
    }
    recorded
}

/// Removes a spool that has become a bundle, or that holds nothing.
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
        assert!(
            clear(&output, true).is_ok() && output.join("thesis.txt").exists(),
            "it is replaced when the new one is whole"
        );
        let spool = spool_of(&output);
        fs::create_dir(&spool).unwrap();
        fs::write(spool.join(CONTROL_FILE), b"").unwrap();
        assert!(matches!(clear(&output, false), Err(RecordError::SpoolExists(_))));
        fs::remove_file(output.join("meta.json")).unwrap();
        assert!(clear(&output, true).is_err() && spool.exists(), "a refusal removes nothing");
        fs::write(output.join("meta.json"), b"{}").unwrap();
        assert!(clear(&output, true).is_ok() && !spool.exists());
    }
}
