//! Errors of a store, a repository or a command.

use std::path::{Path, PathBuf};

/// Why something is not done.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    /// The store's files.
    #[error("{path}: cannot {what}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The failed step.
        what: &'static str,
        /// The system's reason.
        error: std::io::Error,
    },
    /// A file that is none of a store, or of a newer version.
    #[error("{path}: {reason}")]
    Misread {
        /// Which.
        path: PathBuf,
        /// The expectation, and the remedy.
        reason: String,
    },
    /// The store is of something else.
    #[error(
        "{path} holds runs of another {what}: {stored}\nand this is {asked}\nWhat is measured otherwise is no history: choose another --store, or ask as before"
    )]
    Differs {
        /// The store.
        path: PathBuf,
        /// "command", "build", "project".
        what: &'static str,
        /// The store's content.
        stored: String,
        /// The request.
        asked: String,
    },
    /// Two at once.
    #[error(
        "{0}: another heaplab track measures into this store; wait for it, or choose another --store"
    )]
    Busy(PathBuf),
    /// A store that is not there, or empty.
    #[error("{0}: no store of heaplab track is there; heaplab track run makes one")]
    Absent(PathBuf),
    /// git refuses.
    #[error("{0}")]
    Git(String),
    /// Somebody interrupted the measurement.
    #[error("interrupted; what was measured is kept, and asking again goes on")]
    Interrupted,
    /// The history lacks the requested item.
    #[error("{0}")]
    NotThere(String),
}

impl TrackError {
    /// Whether asking differently helps.
    pub fn is_misasked(&self) -> bool {
        matches!(self, TrackError::Differs { .. } | TrackError::Absent(_) | TrackError::NotThere(_))
    }

    /// Turns the system's error into one with the file and the failed step.
    pub(crate) fn io(path: &Path, what: &'static str) -> impl FnOnce(std::io::Error) -> TrackError {
        let path = path.to_owned();
        move |error| TrackError::Io { path, what, error }
    }
}
