//! What can go wrong with a recording, as sentences that say what to do next.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program's name leads to no file.
    #[error("there is no program {0}: check its name and PATH")]
    NotFound(String),
    /// The file cannot be executed.
    #[error("{path} cannot be executed: {reason}")]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something stands where the result would go.
    #[error("{0} exists already: choose another name with -o, or replace it with --force")]
    Exists(PathBuf),
    /// What stands where the result would go is no bundle, and is not removed.
    #[error("{0} is no bundle, and is not replaced: choose another name with -o")]
    NotABundle(PathBuf),
    /// A spool is left from a recording that was never finished.
    #[error(
        "{0} holds an unfinished recording: finish it with `heaplab recover`, or replace it with --force"
    )]
    SpoolExists(PathBuf),
    /// A heaplab is using this spool now.
    #[error("{0} belongs to a recording that is still running")]
    SpoolInUse(PathBuf),
    /// Too little space to begin.
    #[error(
        "only {free_bytes} bytes are free where {path} lies, and a recording needs at least {needed_bytes}: free some, or choose another place with -o"
    )]
    NoSpace {
        /// The folder of the result.
        path: PathBuf,
        /// What is free.
        free_bytes: u64,
        /// What is needed.
        needed_bytes: u64,
    },
    /// Nothing was recorded, and this is why.
    #[error("nothing was recorded: {0}")]
    Nothing(String),
    /// The JVM's log does not say enough.
    #[error(
        "{path} is a Java of version {version}: the log of its metaspace can be recorded from JDK 17 on"
    )]
    JavaTooOld {
        /// The program.
        path: PathBuf,
        /// Its version, as its `release` file has it.
        version: String,
    },
    /// A granularity that only an argument of Node's sets, and the program is another.
    #[error(
        "--granularity above 1M is an argument of Node's, and {path} is not node itself: use `node {path}` if it is a script for Node, or leave it out"
    )]
    GranularityOfOther {
        /// The program.
        path: PathBuf,
    },
    /// Node is told to load no addons.
    #[error(
        "{option} keeps Node from loading the addon that records it: leave it out, or with --permission add --allow-addons"
    )]
    NoAddons {
        /// The option that tells it.
        option: String,
    },
    /// A folder that is no spool.
    #[error("{path} is no spool of a recording: {reason}")]
    NotASpool {
        /// The folder.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },
    /// `heaplab mark` found no recording, or several.
    #[error("{0}")]
    NoSuchRecording(String),
    /// A file could not be read or written.
    #[error("{what} {path}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bundle could not be written; the spool is still there.
    #[error(
        "the bundle could not be written ({source}); what was recorded is still in {spool}: finish it with `heaplab recover {spool}`, or elsewhere with -o"
    )]
    Finish {
        /// The spool.
        spool: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The bundle's events could not be written.
    #[error(transparent)]
    Trace(#[from] heaplab_trace::TraceError),
}

impl RecordError {
    /// For `map_err` on I/O.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
        let path = path.to_owned();
        move |source| RecordError::Io { what, path, source }
    }
}
