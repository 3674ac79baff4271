//! The thread that answers `heaplab about` and `heaplab pressure`.
//!
//! Only the program's own user can ask: the socket (0600) lies in a folder (0700) of that user, and
//! the kernel names the user at the other end. The thread blocks all signals, so that the program's
//! handlers run on the same threads as without the server.

use crate::entry::locked;
use crate::socket::{AT, PRESSURE, REPORT, folder, socket_path};
use crate::{answer, marks, pressure, registry};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

/// Time for an asker to send its question and to read the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a question.
const QUESTION_BYTES: u64 = (AT.len() + marks::NAME_BYTES_MAX + 1) as u64;

/// The socket to remove at exit, and the process that owns it.
static SOCKET: Mutex<Option<(u32, PathBuf)>> = Mutex::new(None);
/// The listener, which a forked child closes: else the parent's socket would outlive the parent.
static LISTENER: AtomicI32 = AtomicI32::new(-1);

/// A running server; dropping it ends the server and removes the socket.
#[must_use = "dropping it ends the server"]
#[derive(Debug)]
pub struct Serving {
    pid: u32,
    path: PathBuf,
    stops: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Starts the thread that answers `heaplab about PID`.
///
/// # Errors
/// The process has a server already; the folder of sockets belongs to another user, or others may
/// enter it; the system has no sockets or threads.
pub fn serve() -> io::Result<Serving> {
    let pid = std::process::id();
    let path = socket_path(Path::new("/"), effective_user(), pid);
    let mut socket = locked(&SOCKET);
    if socket.as_ref().is_some_and(|(owner, _)| *owner == pid) {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "this process has a server already"));
    }
    let folder = own_folder()?;
    remove_stale(&folder);
    if UnixStream::connect(&path).is_ok() {
        let why = format!("{} is another process's", path.display());
        return Err(io::Error::new(ErrorKind::AddrInUse, why));
    }
    // Left by an earlier process with this number.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    *socket = Some((pid, path.clone()));
    drop(socket);
    watch_exit_and_fork();
    LISTENER.store(listener.as_raw_fd(), Ordering::Release);
    let stops = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&stops);
    let thread = with_signals_blocked(|| {
        std::thread::Builder::new()
            .name("heaplab-about".into())
            .spawn(move || run(&listener, &ends))
    });
    let thread = thread.inspect_err(|_| remove_socket())?;
    Ok(Serving { pid, path, stops, thread: Some(thread) })
}

impl Serving {
    /// Serves until the program ends.
    pub fn forever(mut self) {
        self.thread = None;
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // A forked child only holds a copy of its parent's handle.
        let Some(thread) = self.thread.take().filter(|_| self.pid == std::process::id()) else {
            return;
        };
        self.stops.store(true, Ordering::Release);
        // Wakes the thread.
        drop(UnixStream::connect(&self.path));
        remove_socket();
        // The thread never panics, and nobody would read an error.
        let _ = thread.join();
    }
}

fn run(listener: &UnixListener, stops: &AtomicBool) {
    for connection in listener.incoming() {
        if stops.load(Ordering::Acquire) {
            break;
        }
        match connection {
            // A broken connection affects only its own asker.
            Ok(connection) => drop(answer_one(connection)),
            // For example out of file descriptors: the program may close some.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    LISTENER.store(-1, Ordering::Release);
}

fn answer_one(mut connection: UnixStream) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    if !may_ask(peer(&connection)?.user, effective_user()) {
        return refuse(&mut connection, "another user's process answers nobody else");
    }
    let question = read_line(&connection)?;
    if let Some(name) = question.strip_prefix(AT) {
        return match marks::at(name) {
            Some(then) => {
                connection.write_all(answer::json(&then, None, &marks::kept()).as_bytes())
            }
            None => refuse(&mut connection, &no_mark(name)),
        };
    }
    let (callbacks, mut errors) = match question.as_str() {
        REPORT => (None, Vec::new()),
        PRESSURE => {
            let (callbacks, errors) = pressure::relieve();
            (Some(callbacks), errors)
        }
        _ => return refuse(&mut connection, "this question is not known: report, pressure, at"),
    };
    let mut collected = registry::collect();
    errors.append(&mut collected.errors);
    collected.errors = errors;
    connection.write_all(answer::json(&collected, callbacks, &marks::kept()).as_bytes())
}

fn refuse(connection: &mut UnixStream, why: &str) -> io::Result<()> {
    connection.write_all(answer::refusal(why).as_bytes())
}

fn no_mark(name: &str) -> String {
    let kept: Vec<String> = marks::kept().into_iter().map(|(name, _)| name).collect();
    if kept.is_empty() {
        return format!("it has set no mark, so none is called {name} (heaplab_reporter::mark)");
    }
    format!("no mark is called {name}; it has {}", kept.join(", "))
}

/// Reads a line, at most [`QUESTION_BYTES`] of it.
fn read_line(connection: &UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    BufReader::new(connection.take(QUESTION_BYTES)).read_until(b'\n', &mut line)?;
    line.pop_if(|last| *last == b'\n');
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Whether user `peer` may ask a process of user `own`.
fn may_ask(peer: u32, own: u32) -> bool {
    peer == own
}

fn effective_user() -> u32 {
    // SAFETY: asks a number.
    unsafe { libc::geteuid() }
}

/// The process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number, as this process sees it; for a listener: the process that began to listen.
    pub pid: u32,
    /// Its user.
    pub user: u32,
}

/// The process at the other end, by the kernel's account.
///
/// # Errors
/// The kernel does not know.
pub fn peer(connection: &UnixStream) -> io::Result<Peer> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the option's value is a ucred, and there is room for it.
    let result = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut found).cast(),
            &mut bytes,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { pid: u32::try_from(found.pid).unwrap_or(0), user: found.uid })
}

/// The folder of this user's sockets; makes it if missing.
fn own_folder() -> io::Result<PathBuf> {
    let user = effective_user();
    let folder = folder(Path::new("/"), user);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(&folder)?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        let why = format!("{} is no folder that user {user} alone may enter", folder.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok(folder)
}

/// Removes sockets of processes that were killed.
fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("reporters-")?.parse().ok());
        // SAFETY: signal 0 only asks whether the process exists.
        let is_gone = |pid: i32| unsafe { libc::kill(pid, 0) } != 0;
        let refuses = || {
            let answer = UnixStream::connect(entry.path());
            answer.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        if pid.is_some_and(|pid| pid > 0 && is_gone(pid)) && refuses() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn remove_socket() {
    if let Some((_, path)) = locked(&SOCKET).take_if(|(pid, _)| *pid == std::process::id()) {
        let _ = fs::remove_file(path);
    }
}

fn watch_exit_and_fork() {
    static WATCHES: Once = Once::new();
    extern "C" fn at_exit() {
        // If the lock is held at this moment (an exit within `serve`), the socket stays behind.
        if let Ok(mut socket) = SOCKET.try_lock()
            && let Some((_, path)) = socket.take_if(|(pid, _)| *pid == std::process::id())
        {
            let _ = fs::remove_file(path);
        }
    }
    unsafe extern "C" fn in_child() {
        let listener: RawFd = LISTENER.swap(-1, Ordering::AcqRel);
        if listener >= 0 {
            // SAFETY: this is the child's copy of the listener, and the child lacks the listener's
            // thread.
            unsafe { libc::close(listener) };
        }
    }
    WATCHES.call_once(|| {
        // SAFETY: both functions may run at any time: one waits for no lock, the other closes a
        // file.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
}

/// Runs `start` with every signal blocked on this thread; threads that it starts inherit that.
fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals, which sigfillset and pthread_sigmask fill.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: both are this function's own.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let started = start();
    // SAFETY: the set that was there before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    started
}

#[cfg(test)]
mod tests {
    use super::may_ask;

    #[test]
    fn the_same_user_alone_may_ask() {
        assert!(may_ask(1000, 1000));
        assert!(!may_ask(0, 1000) && !may_ask(1000, 0));
    }
}
