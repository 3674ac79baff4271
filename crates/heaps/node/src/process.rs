//! Runs a program to its end or its time limit. Bounds the output, measures the CPU time, and
//! leaves no process behind.

use crate::NodeError;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The descriptor to which the driver writes its results.
const RESULTS: i32 = 3;
/// Bytes kept of standard error: its end says why.
const ERROR_BYTES: usize = 64 << 10;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Limits of a program.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time.
    pub timeout: Duration,
    /// Bytes of results.
    pub results_bytes: usize,
    /// Bytes of standard output.
    pub output_bytes: usize,
    /// Collections in the workload, for the message about a hung program.
    pub expected: usize,
}

/// A program's end and its output.
#[derive(Debug)]
pub struct Ended {
    /// The status from wait4.
    status: i32,
    /// User and system time, ns.
    pub cpu_ns: u64,
    /// Bytes from the results' pipe.
    pub results: Vec<u8>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// The end of standard error.
    pub stderr: String,
    /// Whether it was killed at the limit.
    pub timed_out: bool,
}

impl Ended {
    /// Exit status 0.
    pub fn succeeded(&self) -> bool {
        self.exit_status() == Some(0)
    }

    /// The exit status, if it exited.
    pub fn exit_status(&self) -> Option<i32> {
        libc::WIFEXITED(self.status).then(|| libc::WEXITSTATUS(self.status))
    }

    /// In words.
    pub fn how(&self) -> String {
        match self.exit_status() {
            Some(status) => format!("exit status {status}"),
            None => format!("signal {}", libc::WTERMSIG(self.status)),
        }
    }
}

/// A callback that runs repeatedly while the program runs, with its process and its results so far.
pub type Watch<'a> = &'a mut dyn FnMut(libc::pid_t, &[u8]);

/// Runs `command`, whose program is at `path`, with `input` as standard input.
///
/// # Errors
/// The program cannot be started.
pub fn run(
    mut command: Command,
    path: &Path,
    input: Stdio,
    limits: &Limits,
    watch: Watch<'_>,
) -> Result<Ended, NodeError> {
    let failed = |action| move |source| NodeError::Start { path: path.into(), action, source };
    let (results, theirs) = std::io::pipe().map_err(failed("make a pipe for"))?;
    let theirs: OwnedFd = theirs.into();
    let number = theirs.as_raw_fd();
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    let parent = std::process::id() as i32;
    // SAFETY: between fork and exec the closure makes only async-signal-safe calls, on integers.
    unsafe {
        command.pre_exec(move || {
            // A descriptor duplicated onto itself keeps its close-on-exec flag: exec would close
            // it.
            let ready = if number == RESULTS {
                libc::fcntl(RESULTS, libc::F_SETFD, 0)
            } else {
                libc::dup2(number, RESULTS)
            };
            if ready < 0 || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            // A parent that died before the call above sends no signal any more.
            if libc::getppid() == parent {
                Ok(())
            } else {
                Err(std::io::ErrorKind::Interrupted.into())
            }
        });
    }
    let mut child = command.spawn().map_err(failed("start"))?;
    drop(theirs);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let so_far = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let results = scope.spawn(|| read_first(results, limits.results_bytes, &so_far));
        let said = Mutex::new(Vec::new());
        let stdout = scope.spawn(move || {
            stdout.map_or_else(Vec::new, |stdout| read_first(stdout, limits.output_bytes, &said))
        });
        let stderr = scope.spawn(move || stderr.map_or_else(Vec::new, read_last));
        let (status, cpu_ns, timed_out) =
            wait(child.id() as libc::pid_t, limits.timeout, &mut |pid| {
                watch(pid, &so_far.lock().unwrap_or_else(PoisonError::into_inner));
            })
            .map_err(failed("wait for"))?;
        let joined =
            |thread: std::thread::ScopedJoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
        let (results, stdout, stderr) = (joined(results), joined(stdout), joined(stderr));
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Ok(Ended { status, cpu_ns, results, stdout, stderr, timed_out })
    })
}

/// Reads the first `most` bytes; `so_far` shows them to others meanwhile. A writer of more gets a
/// broken pipe.
fn read_first(from: impl Read, most: usize, so_far: &Mutex<Vec<u8>>) -> Vec<u8> {
    let mut from = from.take(most as u64);
    let mut piece = vec![0; PIECE_BYTES];
    let lock = || so_far.lock().unwrap_or_else(PoisonError::into_inner);
    // Bytes before a read error stay. The parser refuses results that are too short.
    while let Ok(read @ 1..) = from.read(&mut piece) {
        lock().extend_from_slice(&piece[..read]);
    }
    std::mem::take(&mut lock())
}

/// The last bytes.
fn read_last(mut from: impl Read) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        kept.extend_from_slice(&piece[..read]);
        if kept.len() > 2 * ERROR_BYTES {
            kept.drain(..kept.len() - ERROR_BYTES);
        }
    }
    kept.drain(..kept.len().saturating_sub(ERROR_BYTES));
    kept
}

/// Waits for the child, and kills it at the limit. Returns its status, its CPU time in ns, and
/// whether it was killed.
fn wait(
    pid: libc::pid_t,
    timeout: Duration,
    watch: &mut dyn FnMut(libc::pid_t),
) -> std::io::Result<(i32, u64, bool)> {
    let deadline = Instant::now() + timeout;
    let mut pause = Duration::from_micros(500);
    let mut killed = false;
    loop {
        let mut status = 0;
        // SAFETY: all-zero bytes are a valid `rusage`; the call may write both; the child is ours
        // and not yet waited for.
        let (waited, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (
                libc::wait4(pid, &mut status, if killed { 0 } else { libc::WNOHANG }, &mut usage),
                usage,
            )
        };
        if waited == pid {
            let ns = |time: libc::timeval| {
                time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
            };
            return Ok((status, ns(usage.ru_utime) + ns(usage.ru_stime), killed));
        }
        if waited < 0 {
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error);
            }
        } else if Instant::now() >= deadline {
            // SAFETY: a system call on integers. Nobody has waited for the child, so its number is
            // still its own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            killed = true;
        } else {
            watch(pid);
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration, bytes: usize) -> Ended {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(
            command,
            Path::new("/bin/sh"),
            Stdio::null(),
            &Limits { timeout, results_bytes: bytes, output_bytes: bytes, expected: 0 },
            &mut |_, _| (),
        )
        .unwrap()
    }

    #[test]
    fn output_is_bounded_and_ends_are_told() {
        let minute = Duration::from_secs(60);
        let ended = shell("echo result >&3; echo out; echo why >&2; exit 7", minute, 100);
        assert_eq!(
            (ended.results.as_slice(), ended.stdout.as_slice(), ended.stderr.as_str()),
            (&b"result\n"[..], &b"out\n"[..], "why\n")
        );
        assert_eq!(
            (ended.exit_status(), ended.how().as_str(), ended.timed_out),
            (Some(7), "exit status 7", false)
        );
        assert_eq!(shell("kill -9 $$", minute, 100).how(), "signal 9");
        let endless = shell("yes >&3; yes; true", minute, 1000);
        assert_eq!(
            (endless.results.len(), endless.stdout.len(), endless.succeeded()),
            (1000, 1000, true)
        );
        let loud = shell("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo end >&2", minute, 10);
        assert!(loud.stderr.len() == ERROR_BYTES && loud.stderr.ends_with("xend\n"));
    }

    #[test]
    fn who_takes_too_long_is_killed() {
        let hung = shell("exec sleep 600", Duration::from_millis(100), 10);
        assert!(hung.timed_out && hung.how() == "signal 9");
    }
}
