//! Explains a mapped file that becomes shorter, or whose disk has no room for a page, while heaplab
//! reads it. The kernel answers with SIGBUS, for which a shell prints "Bus error" and nothing more.
//!
//! For commands whose files another program may write at the same time: a recording's spool,
//! snapshots, programs and their debug files, compiled workloads. Cells of `replay` keep the
//! signal, because it tells their parent what happened.

use memmap2::{Mmap, UncheckedAdvice};
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// Clears the line of progress that may stand there.
const CLEAR_LINE: &str = "\r\x1b[2K";
/// A sentence for each kind of mapped file, in the order of [`Mapped`].
const MESSAGES: [&str; 4] = [
    "heaplab: a mapped file became shorter while it was read, or its disk full: a\n\
     file of the spool, or of a program that ran. `heaplab recover SPOOL` finishes\n\
     what was recorded, if the spool's control file is whole\n",
    "heaplab: the snapshot or its index became shorter while it was read, or cannot\n\
     be read: let who writes it finish, and read it again\n",
    "heaplab: a program, a library or its debug file became shorter while it was\n\
     read, or cannot be read: the bundle is as it was. Once the files are whole,\n\
     symbolize it again\n",
    "heaplab: the workload as it was compiled for replay became shorter while it was\n\
     read, or cannot be read. Remove it (replay-*.program, in the bundle or the\n\
     system's folder of temporary files) and run this again\n",
];

/// The kind of mapped file.
#[derive(Clone, Copy, Debug)]
pub enum Mapped {
    /// A recording's.
    Spool,
    /// A heap snapshot, and the index beside it.
    Snapshot,
    /// Programs, libraries and debug files, of a finished recording.
    Modules,
    /// A compiled workload.
    Program,
}

static CHOSEN: AtomicUsize = AtomicUsize::new(0);
static CODE: AtomicI32 = AtomicI32::new(1);
static ON_TERMINAL: AtomicBool = AtomicBool::new(false);
static SAID: AtomicBool = AtomicBool::new(false);

/// Sets the exit code, for a command whose exit code 1 has another meaning.
pub fn exits_with(code: u8) {
    CODE.store(code.into(), Ordering::Relaxed);
}

/// The bytes of a mapped file.
#[derive(Debug)]
pub struct MappedFile(Mmap);

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl MappedFile {
    /// Gives the pages back to the system, which reads those again that are touched. A kernel that
    /// refuses leaves them where they are.
    pub fn release(&self) {
        // SAFETY: the mapping is shared and nobody writes through it ([`map`] made it), so that its
        // pages are the file's, whether they stay or are read again.
        let _ = unsafe { self.0.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

/// Maps a file for reading, after [`is_an_error`]. `None`: the file is empty.
///
/// # Errors
/// The file is not there or no regular file, or cannot be read.
pub fn map(path: &Path, mapped: Mapped) -> io::Result<Option<MappedFile>> {
    // Before the file is opened: opening a pipe waits for its writer.
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        let why = "it is a folder: name a file in it";
        return Err(io::Error::new(io::ErrorKind::IsADirectory, why));
    }
    if !metadata.is_file() {
        let why = "it is no regular file, and only those can be mapped: write it to disk first";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let file = File::open(path)?;
    is_an_error(mapped);
    // SAFETY: the mapping is only read, and heaplab changes no file in place (it renames). It is
    // the accepted risk of mapping files that another program writes other bytes under a shared
    // reference. If the file becomes shorter, heaplab ends.
    let map = unsafe { (file.metadata()?.len() > 0).then(|| Mmap::map(&file)) };
    Ok(map.transpose()?.map(MappedFile))
}

/// From here on, a mapped file that becomes shorter ends heaplab with a sentence about it. An
/// ignored SIGBUS stays ignored, because a recorded program inherits that; the kernel ends a reader
/// of such a file all the same.
pub fn is_an_error(mapped: Mapped) {
    CHOSEN.store(mapped as usize, Ordering::Relaxed);
    ON_TERMINAL.store(io::stderr().is_terminal(), Ordering::Relaxed);
    let handler: extern "C" fn(libc::c_int, *const libc::siginfo_t, *const libc::c_void) = say;
    // SAFETY: a sigaction of zeros is a valid one without flags and with an empty mask, to be read
    // into and to be filled; `say` has the type that a handler with SA_SIGINFO must have, and calls
    // only what may be called from one.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before);
        if before.sa_sigaction == libc::SIG_IGN {
            return;
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

fn print(text: &str) {
    // SAFETY: write(2) may be called from a signal handler, and the text has the given length.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

extern "C" fn say(signal: libc::c_int, info: *const libc::siginfo_t, _: *const libc::c_void) {
    // SAFETY: the kernel passes a siginfo to a handler with SA_SIGINFO, which lives while that
    // runs.
    if unsafe { (*info).si_code } != libc::BUS_ADRERR {
        // SAFETY: both may be called from a signal handler; a signal from another process ends this
        // one as it would have.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    while SAID.swap(true, Ordering::Relaxed) {
        // SAFETY: pause(2) may be called from a signal handler. Another thread prints the sentence
        // and ends them all.
        unsafe { libc::pause() };
    }
    if ON_TERMINAL.load(Ordering::Relaxed) {
        print(CLEAR_LINE);
    }
    print(MESSAGES[CHOSEN.load(Ordering::Relaxed)]);
    // SAFETY: _exit(2) may be called from a signal handler.
    unsafe { libc::_exit(CODE.load(Ordering::Relaxed)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_is_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mapped = |path: &Path| map(path, Mapped::Snapshot);
        assert_eq!(mapped(&file).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&file, "").unwrap();
        assert!(mapped(&file).unwrap().is_none());
        fs::write(&file, "text").unwrap();
        let map = mapped(&file).unwrap();
        assert_eq!(map.as_deref(), Some(&b"text"[..]));
        map.iter().for_each(MappedFile::release);
        assert_eq!(map.as_deref(), Some(&b"text"[..]));
        assert!(mapped(folder.path()).unwrap_err().to_string().contains("is a folder"));
        let device = mapped(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(device.contains("is no regular file"), "{device}");
    }

    #[test]
    fn what_is_said_fits_a_terminal() {
        for line in MESSAGES.iter().flat_map(|message| message.lines()) {
            assert!(line.len() <= 80, "{} columns: {line}", line.len());
        }
    }
}
