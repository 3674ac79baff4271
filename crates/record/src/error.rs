//! The errors of a recording, as sentences that say what to do next.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No file matches the program's name.
    #[error("there is no program {0}: check its name and PATH")]
    NotFound(String),
    /// The file cannot be executed.
    #[error("{path} cannot be executed: {reason}")]
    NotExecutable {
        /// The program's file.
        path: PathBuf,
        /// Why it cannot be executed.
        reason: String,
    },
    /// The output's place is taken.
    #[error("{0} exists already: choose another name with -o, or replace it with --force")]
    Exists(PathBuf),
    /// The output's place is taken by something that is no bundle, and is not removed.
    #[error("{0} is no bundle, and is not replaced: choose another name with -o")]
    NotABundle(PathBuf),
    /// No recording lies at the place that was named.
    #[error("{0}: there is no such recording (No such file or directory)")]
    NoRecording(PathBuf),
    /// The recording will be there when its program has ended.
    #[error("{0} is still being recorded: it is there when its program has ended")]
    StillRecording(PathBuf),
    /// The recording's spool exists, and nobody works on it.
    #[error(
        "{bundle}: its recording was not finished; `heaplab recover {spool}` makes {bundle} of the recorded part"
    )]
    Unfinished {
        /// The place that was named.
        bundle: PathBuf,
        /// Its spool.
        spool: PathBuf,
    },
    /// An unfinished recording left its spool.
    #[error(
        "{0} holds an unfinished recording: finish it with `heaplab recover`, or replace it with --force"
    )]
    SpoolExists(PathBuf),
    /// An OCaml program's recording was not finished.
    #[error(
        "{0}: a recording that was not finished lies here; `heaplab import` makes it a bundle, or remove it"
    )]
    StreamExists(PathBuf),
    /// An OCaml program's recording did not become a bundle.
    #[error(
        "{reason}; the recording is kept in {}: `heaplab import` makes it a bundle, on another disk if this one is full",
        stream.display()
    )]
    StreamKept {
        /// The recording.
        stream: PathBuf,
        /// Why there is no bundle, in words.
        reason: String,
    },
    /// An OCaml program lacks the recorder.
    #[error(
        "{program} wrote no recording ({status}): link heaplab's recorder into it (ocamlfind ocamlopt -package heaplab.auto -linkpkg ...; OCaml 4.11 to 4.14 or 5.3; docs/recording-ocaml.md)"
    )]
    NotLinked {
        /// The program's file.
        program: PathBuf,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// Another heaplab is using this spool.
    #[error("{0} belongs to a recording that is still running")]
    SpoolInUse(PathBuf),
    /// Too little space to begin.
    #[error(
        "only {free_bytes} bytes are free on the disk of {path}, and a recording needs at least {needed_bytes}: free some, or choose another place with -o"
    )]
    NoSpace {
        /// The output's folder.
        path: PathBuf,
        /// Free bytes.
        free_bytes: u64,
        /// Needed bytes.
        needed_bytes: u64,
    },
    /// Nothing was recorded; holds the reason.
    #[error("nothing was recorded: {0}")]
    Nothing(String),
    /// The JVM's log lacks the needed lines.
    #[error(
        "{path} is a Java of version {version}: the log of its metaspace can be recorded from JDK 17 on"
    )]
    JavaTooOld {
        /// The program's file.
        path: PathBuf,
        /// Its version, as its `release` file has it.
        version: String,
    },
    /// Only an argument of Node's sets this granularity, and the program is not Node.
    #[error(
        "--granularity above 1M is an argument of Node's, and {path} is not node itself: use `node {path}` if it is a script for Node, or leave it out"
    )]
    GranularityOfOther {
        /// The program's file.
        path: PathBuf,
    },
    /// Node's options forbid addons.
    #[error(
        "{option} keeps Node from loading the addon that records it: leave it out, or with --permission add --allow-addons"
    )]
    NoAddons {
        /// The option that forbids them.
        option: String,
    },
    /// The folder is no spool.
    #[error("{path} is not the spool of a recording: {reason}")]
    NotASpool {
        /// The folder.
        path: PathBuf,
        /// The missing or wrong part.
        reason: String,
    },
    /// `heaplab mark` found no recording, or several.
    #[error("{0}")]
    NoSuchRecording(String),
    /// A file could not be read or written.
    #[error("{what} {path}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The bundle could not be written; the spool is still there.
    #[error(
        "the bundle could not be written ({source}); the recording is still in {spool}: finish it with `heaplab recover {spool}`, or elsewhere with -o"
    )]
    Finish {
        /// The spool.
        spool: PathBuf,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The bundle's events could not be written.
    #[error(transparent)]
    Trace(#[from] heaplab_trace::TraceError),
}

impl RecordError {
    /// Builds an I/O error for `map_err`.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
        let path = path.to_owned();
        move |source| RecordError::Io { what, path, source }
    }
}
