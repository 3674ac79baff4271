//! One snapshot, from a target to a file.
//!
//! Every chunk is written as it arrives and then freed. The received text stands under `NAME.part`.
//! The file gets its own name when the target has confirmed the end and the text ends like a
//! snapshot. So a target that dies leaves the part that it sent, and never a file that only looks
//! whole.

use crate::CaptureError;
use crate::protocol::{Connection, Event};
use serde_json::json;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What to ask for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Numbers as nodes of their own (`captureNumericValue`).
    pub numbers: bool,
}

/// Progress of the snapshot.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// The target walks its heap.
    Walking {
        /// Objects visited, in V8's own count.
        done: u64,
        /// Objects to visit, an estimate.
        total: u64,
    },
    /// The text comes.
    Receiving {
        /// Bytes on disk.
        bytes: u64,
    },
}

/// A snapshot that is complete.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The finished file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Time until the first chunk: the target collects garbage and walks its heap.
    pub walking: Duration,
    /// Time from the first chunk until the file is finished.
    pub receiving: Duration,
}

/// The path of an incomplete snapshot.
pub fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".part");
    path.with_file_name(name)
}

/// Takes a snapshot of the target into `path`, which is replaced when the new one is complete.
///
/// # Errors
/// [`CaptureError::Cut`] where the target died on the way, [`CaptureError::Write`] where the disk
/// filled or the file cannot be written, and before anything came those of [`Connection::call`].
pub fn take(
    connection: &mut Connection,
    path: &Path,
    request: Request,
    progress: &mut dyn FnMut(Progress),
) -> Result<Taken, CaptureError> {
    let mut sink = Sink::create(path)?;
    let began = Instant::now();
    let mut first = None;
    let parameters = json!({"reportProgress": true, "captureNumericValue": request.numbers});
    let answer = connection.ask("HeapProfiler.enable", &json!({})).and_then(|_| {
        connection.call_stopping("HeapProfiler.takeHeapSnapshot", &parameters, &mut |event| {
            match event {
                Event::Walked { done, total } => progress(Progress::Walking { done, total }),
                Event::WalkFinished => {}
                Event::Chunk(text) => {
                    first.get_or_insert_with(Instant::now);
                    sink.write(&text)?;
                    progress(Progress::Receiving { bytes: sink.bytes });
                }
            }
            Ok(())
        })
    });
    match answer {
        Ok(_) => {}
        Err(error) => return Err(sink.abandon(error)),
    }
    let first = first.unwrap_or_else(Instant::now);
    let bytes = sink.finish()?;
    Ok(Taken { path: path.into(), bytes, walking: first - began, receiving: first.elapsed() })
}

/// The file while it grows.
struct Sink {
    file: File,
    path: PathBuf,
    part: PathBuf,
    bytes: u64,
    /// The last byte that is no white space.
    last: u8,
}

impl Sink {
    fn create(path: &Path) -> Result<Sink, CaptureError> {
        let part = part_of(path);
        let failed = |source| CaptureError::Write {
            path: part.clone(),
            source,
            kept: "nothing was taken".into(),
        };
        if fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(failed(io::Error::new(
                io::ErrorKind::IsADirectory,
                "the snapshot's name is that of a folder",
            )));
        }
        // A heap holds secrets, so only the owner may read the file, as with Node's own snapshots.
        // An older file of this name would keep its mode, and a link would lead elsewhere, so
        // remove it. Removing fails if there is none, which is fine.
        let _ = fs::remove_file(&part);
        let file =
            File::options().write(true).create_new(true).mode(0o600).open(&part).map_err(failed)?;
        Ok(Sink { file, path: path.into(), part, bytes: 0, last: 0 })
    }

    fn write(&mut self, text: &str) -> Result<(), CaptureError> {
        self.file.write_all(text.as_bytes()).map_err(|error| self.failed(error))?;
        self.bytes += text.len() as u64;
        self.last =
            text.bytes().rev().find(|byte| !byte.is_ascii_whitespace()).unwrap_or(self.last);
        Ok(())
    }

    /// The error of a failed write, with the bytes that are kept: a full disk may have taken a part
    /// of the last chunk.
    fn failed(&self, source: io::Error) -> CaptureError {
        let kept = match self.on_disk() {
            0 => "nothing is kept".into(),
            bytes => format!("its first {bytes} bytes are kept"),
        };
        CaptureError::Write { path: self.part.clone(), source, kept }
    }

    fn on_disk(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Keeps what came, if anything did.
    fn abandon(self, error: CaptureError) -> CaptureError {
        if self.on_disk() == 0 {
            let _ = fs::remove_file(&self.part);
            return error;
        }
        match error {
            error @ CaptureError::Write { .. } => error,
            error => {
                CaptureError::Cut { part: self.part, bytes: self.bytes, why: error.to_string() }
            }
        }
    }

    fn finish(self) -> Result<u64, CaptureError> {
        if self.last != b'}' {
            let error = CaptureError::Protocol(
                "the target said that all was sent, and the text has no end".into(),
            );
            return Err(self.abandon(error));
        }
        self.file.sync_all().map_err(|error| self.failed(error))?;
        fs::rename(&self.part, &self.path).map_err(|error| self.failed(error))?;
        // The name too is on disk then: a machine that goes down leaves the old file or the new
        // one. Folders that may not be read and file systems that write no folders cannot do that,
        // and the snapshot is complete without.
        let folder = self
            .path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_snapshot_goes_into_no_file_that_somebody_put_there() {
        let folder = tempfile::tempdir().unwrap();
        let (path, theirs) = (folder.path().join("a.heapsnapshot"), folder.path().join("theirs"));
        let take = || {
            let mut sink = Sink::create(&path).unwrap();
            sink.write("{}").unwrap();
            sink.finish().unwrap();
            assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        };
        fs::write(&theirs, "").unwrap();
        symlink(&theirs, part_of(&path)).unwrap();
        take();
        assert!(fs::read(&theirs).unwrap().is_empty());
        fs::write(part_of(&path), "left from before").unwrap();
        fs::set_permissions(part_of(&path), fs::Permissions::from_mode(0o644)).unwrap();
        take();
        assert_eq!(fs::read(&path).unwrap(), b"{}");
    }

    #[test]
    fn a_full_disk_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.heapsnapshot");
        let mut sink = Sink::create(&path).unwrap();
        // It takes nothing.
        sink.file = File::options().write(true).open("/dev/full").unwrap();
        let error = sink.write("{}").unwrap_err();
        let error = sink.abandon(error).to_string();
        assert!(error.contains("No space left") && error.contains("nothing is kept"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no empty part is left");
    }
}
