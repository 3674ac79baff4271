//! What can go wrong, with what to do.

use std::path::PathBuf;
use std::time::Duration;

/// Why there is no reading.
#[derive(Debug, thiserror::Error)]
pub enum AboutError {
    /// No process has this number.
    #[error("{0} is larger than the number of any process; ./{0} names a file")]
    TooLarge(String),
    /// A process was to be named.
    #[error("{0}: expected the number of a running process")]
    NoNumber(String),
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The process is somebody else's.
    #[error(
        "process {pid} belongs to user {owner}, who alone may ask it: run heaplab as this user"
    )]
    OfAnotherUser {
        /// The process.
        pid: u32,
        /// Its user.
        owner: u32,
    },
    /// The kernel does not let this process look where the process's socket is.
    #[error(
        "process {0}: its files cannot be seen (/proc/{0}/root: permission denied), because it runs \
         in a container, or with rights that heaplab does not have: run heaplab inside the same \
         container and as the same user, or, to look from outside, with CAP_SYS_PTRACE"
    )]
    NotPermitted(u32),
    /// Nobody listens.
    #[error(
        "process {0} has no memory reporters: a program links heaplab-reporter, registers reporters \
         and calls serve() (docs/reporters.md)"
    )]
    NoReporters(u32),
    /// Another process listens where this one should.
    #[error(
        "process {listener} of user {user} listens where process {pid} should: it is not asked"
    )]
    Impostor {
        /// Who was to be asked.
        pid: u32,
        /// Who listens.
        listener: u32,
        /// As which user.
        user: u32,
    },
    /// The socket does not work.
    #[error("cannot ask process {pid}")]
    Asking {
        /// The process.
        pid: u32,
        /// Why.
        source: std::io::Error,
    },
    /// The process ended meanwhile.
    #[error("process {pid} stopped in the middle of its answer, after {bytes} bytes: did it end?")]
    Died {
        /// The process.
        pid: u32,
        /// Of its answer.
        bytes: usize,
    },
    /// The process takes too long.
    #[error(
        "process {pid} has not answered within {} s: a reporter waits for a lock or takes long; \
         --timeout SECONDS waits longer", .after.as_secs_f64()
    )]
    TimeOut {
        /// The process.
        pid: u32,
        /// How long was waited.
        after: Duration,
    },
    /// The process refused.
    #[error("process {pid} refuses: {why}")]
    Refused {
        /// The process.
        pid: u32,
        /// What it says.
        why: String,
    },
    /// Not JSON, or not of this form.
    #[error("these are no memory reports as about:memory saves them")]
    Json(#[from] serde_json::Error),
    /// Compressed data that are damaged.
    #[error("the compressed reports are damaged")]
    Gzip(#[source] std::io::Error),
    /// JSON of this form with something impossible.
    #[error("these are no memory reports as about:memory saves them: {0}")]
    Form(String),
    /// More than is read.
    #[error("the reports are longer than {0} bytes, which is more than heaplab reads")]
    TooLong(u64),
    /// A saved file is no reading.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<AboutError>,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Unreadable(std::io::Error),
}
