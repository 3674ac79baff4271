//! The named pipe that a JVM logs into, and its lines.
//!
//! A named one rather than an inherited descriptor: scripts and launchers between heaplab and the
//! JVM may close descriptors, and HotSpot, which opens its log by name, leaves pipes alone where it
//! would rotate or truncate files (`LogFileOutput::initialize`). Times are on CLOCK_MONOTONIC
//! (`timenanos`), which all JVMs of a recording share with heaplab's marks.

use super::keeper::Keeper;
use crate::error::RecordError;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that the kernel is asked to hold, so that the JVM seldom waits.
pub const PIPE_BYTES: usize = 1 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// Longest line that is kept; HotSpot's are under 500 bytes.
const LINE_BYTES_LIMIT: usize = 64 << 10;

/// The result of a read from the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Something; there may be more.
    Some,
    /// Nothing now, but somebody may write.
    Nothing,
    /// Nothing, and nobody has the pipe open for writing.
    NoWriter,
}

/// A named pipe in a folder of its own. Dropping it removes both, unless the program goes on
/// ([`LogPipe::leave`]).
#[derive(Debug)]
pub struct LogPipe {
    folder: PathBuf,
    descriptor: OwnedFd,
    keeper: Option<Keeper>,
    rest: Vec<u8>,
    buffer: Vec<u8>,
}

impl LogPipe {
    /// Makes the pipe and opens it for reading, so that a JVM's opening does not wait.
    pub fn create() -> Result<LogPipe, RecordError> {
        let folder = folder()?;
        let path = folder.join("log");
        let made = mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).and_then(|()| {
            open(&path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        });
        let descriptor = made.map_err(|error| {
            let _ = fs::remove_dir_all(&folder);
            RecordError::io("cannot make the pipe", &path)(error.into())
        })?;
        // A smaller pipe works, too.
        let _ = rustix::pipe::fcntl_setpipe_size(&descriptor, PIPE_BYTES);
        let keeper = Keeper::start(&folder, &descriptor);
        Ok(LogPipe { folder, descriptor, keeper, rest: Vec::new(), buffer: vec![0; READ_BYTES] })
    }

    /// The program runs on unrecorded: JVMs that it starts later write to /dev/null, with or
    /// without a keeper.
    pub fn leave(mut self) {
        let link = self.folder.join("none");
        let replaced =
            symlink("/dev/null", &link).and_then(|()| fs::rename(&link, self.folder.join("log")));
        if replaced.is_ok() {
            self.folder = PathBuf::new();
            if let Some(keeper) = self.keeper.take() {
                keeper.let_go();
            }
        }
    }

    /// What makes a JVM of 17 or later log its metaspace into the pipe.
    pub fn java_argument(&self) -> OsString {
        let mut argument = OsString::from("-Xlog:metaspace*=trace:file=");
        argument.push(self.folder.join("log"));
        argument.push(":timenanos,pid,tid:filecount=0");
        argument
    }

    /// The pipe's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// To wait on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Passes the present lines to `each`, up to a buffer's worth, without their ends. When the
    /// last writer has gone, a rest without a line feed is passed as an incomplete line.
    pub fn lines(&mut self, each: &mut dyn FnMut(&[u8], bool)) -> Taken {
        let length = match rustix::io::read(&self.descriptor, &mut self.buffer[..]) {
            Ok(0) => {
                if !self.rest.is_empty() {
                    each(&std::mem::take(&mut self.rest), false);
                }
                return Taken::NoWriter;
            }
            Ok(length) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Taken::Nothing,
            Err(_) => return Taken::NoWriter,
        };
        let mut new = &self.buffer[..length];
        while let Some(end) = new.iter().position(|byte| *byte == b'\n') {
            if self.rest.is_empty() {
                each(&new[..end], true);
            } else {
                self.rest.extend_from_slice(&new[..end]);
                each(&self.rest, true);
                self.rest.clear();
            }
            new = &new[end + 1..];
        }
        if self.rest.len() + new.len() > LINE_BYTES_LIMIT {
            each(&std::mem::take(&mut self.rest), true);
        } else {
            self.rest.extend_from_slice(new);
        }
        Taken::Some
    }
}

impl Drop for LogPipe {
    fn drop(&mut self) {
        if !self.folder.as_os_str().is_empty() {
            // What remains is an empty folder for the system to clean up.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

static NEXT_FOLDER: AtomicU32 = AtomicU32::new(0);

/// A folder that only this user can open. `-Xlog` and `JAVA_TOOL_OPTIONS` cannot split its name.
fn folder() -> Result<PathBuf, RecordError> {
    let splits =
        |path: &Path| path.to_string_lossy().contains([':', ',', ' ', '\t', '"', '\'', '%']);
    let places = [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/dev/shm")];
    let mut failed = RecordError::io("cannot make a folder in", &places[0])(
        io::ErrorKind::InvalidFilename.into(),
    );
    for place in places.iter().filter(|place| !splits(place)) {
        for _ in 0..100 {
            // No name is used twice: the keeper of an old folder would take the new one for it.
            let number = NEXT_FOLDER.fetch_add(1, Ordering::Relaxed);
            let folder = place.join(format!("heaplab-jvm-{}-{number}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(folder),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    failed = RecordError::io("cannot make the folder", &folder)(error);
                    break;
                }
            }
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Opening the pipe after heaplab has left it neither waits nor fails, and heaplab does not
    /// wait either.
    #[test]
    fn what_is_left_can_be_opened() {
        for has_keeper in [true, false] {
            let mut pipe = LogPipe::create().unwrap();
            if !has_keeper {
                std::mem::forget(pipe.keeper.take());
            }
            let folder = pipe.folder().to_owned();
            pipe.leave();
            assert_eq!(fs::read_link(folder.join("log")).unwrap(), Path::new("/dev/null"));
            let mut log = fs::OpenOptions::new().append(true).open(folder.join("log")).unwrap();
            log.write_all(b"line\n").unwrap();
            crate::jvm::keeper::remove_link(&folder);
            assert!(!folder.exists());
        }
    }

    #[test]
    fn lines_come_whole_however_they_are_written() {
        let mut pipe = LogPipe::create().unwrap();
        let path = pipe.folder.join("log");
        let mut lines = Vec::new();
        assert_eq!(pipe.lines(&mut |_, _| {}), Taken::NoWriter);
        let mut writer = fs::OpenOptions::new().write(true).open(&path).unwrap();
        assert_eq!(pipe.lines(&mut |_, _| {}), Taken::Nothing);
        for part in ["one\ntw", "o\nthr", "ee"] {
            writer.write_all(part.as_bytes()).unwrap();
            assert_eq!(
                pipe.lines(&mut |line, whole| lines
                    .push((String::from_utf8_lossy(line).into_owned(), whole))),
                Taken::Some
            );
        }
        drop(writer);
        let mut rest = || {
            pipe.lines(&mut |line, whole| {
                lines.push((String::from_utf8_lossy(line).into_owned(), whole))
            })
        };
        // A child that another test has just forked may have it open until it execs.
        while rest() == Taken::Nothing {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let expected = [("one", true), ("two", true), ("three", false)];
        assert_eq!(lines, expected.map(|(line, whole)| (line.to_string(), whole)));
        drop(pipe);
        assert!(!path.exists() && !path.parent().unwrap().exists());
    }
}
