//! The process that replaces the pipe's reader if heaplab dies.
//!
//! The pipe's name is in the program's environment, and a JVM that opens a pipe for writing waits
//! until somebody reads it. So a small process beside heaplab keeps the pipe open for reading. It
//! is a shell that waits for the end of a descriptor that only heaplab holds. When heaplab is gone
//! and the pipe is still there, the shell puts a link to /dev/null in its place. JVMs that start
//! later write there. JVMs with the pipe open go on with writes that fail, and HotSpot ignores
//! that. The shell has its own process group, so signals to heaplab's group do not reach it.
//! Without it (killed too, or no shell), a JVM that opens the pipe later waits.

use rustix::fd::OwnedFd;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Standard input ends when heaplab is gone, or has put the link there itself. A second later every
/// JVM that had found the pipe has opened it.
const SCRIPT: &str = "trap '' HUP INT QUIT TERM
while read -r _; do :; done
[ -L log ] && exec sleep 1
[ -p log ] || exit 0
ln -s /dev/null none && mv -f none log && sleep 1";

/// Removes what a recording or its keeper left in `folder`, and nothing else, once no JVM can come
/// that looks for it.
pub fn remove_link(folder: &Path) {
    // A spool that does not say where its pipe was: no name relative to this process is meant.
    if folder.as_os_str().is_empty() {
        return;
    }
    let log = folder.join("log");
    let is_link = std::fs::read_link(&log).is_ok_and(|target| target == Path::new("/dev/null"));
    // The keeper is a moment behind, or was killed too. Then the pipe is still there, and the
    // keeper ignores a missing pipe.
    let is_pipe = std::fs::symlink_metadata(&log).is_ok_and(|data| data.file_type().is_fifo());
    if is_link || is_pipe {
        // What remains is a link in a folder for temporary files.
        let _ = std::fs::remove_file(&log).and_then(|()| std::fs::remove_dir(folder));
    }
}

/// The process.
#[derive(Debug)]
pub struct Keeper {
    child: Child,
    /// Its standard input.
    alive: Option<OwnedFd>,
    /// Whether its end is waited for.
    waits: bool,
}

impl Keeper {
    /// Starts it for the pipe `log` in `folder`, which `reader` has open; `None` where that cannot
    /// be done.
    pub fn start(folder: &Path, reader: &OwnedFd) -> Option<Keeper> {
        let (input, alive) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
        let reader = reader.as_fd().try_clone_to_owned().ok()?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "heaplab-keeper"])
            .arg(folder)
            .current_dir(folder)
            .process_group(0);
        // The shell works in the folder itself, so a later folder of the same name is safe. Its
        // standard output holds the open pipe, so it must write nothing there.
        let child = command
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(reader))
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(Keeper { child, alive: Some(alive), waits: true })
    }

    /// heaplab has replaced the pipe and does not wait: the keeper has it open for a second more,
    /// for a JVM that had found it.
    pub fn let_go(mut self) {
        drop(self.alive.take());
        self.waits = false;
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.alive.take());
        if self.waits {
            let _ = self.child.wait();
        }
    }
}
