//! What can go wrong with a store, a repository or a command.

use std::path::{Path, PathBuf};

/// Why something is not done.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    /// The store's files.
    #[error("{path}: cannot {what}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        error: std::io::Error,
    },
    /// A file that is none of a store, or of a newer version.
    #[error("{path}: {reason}")]
    Misread {
        /// Which.
        path: PathBuf,
        /// What was expected, and what to do.
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
        /// What the store has.
        stored: String,
        /// What was asked for.
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
    /// git says no.
    #[error("{0}")]
    Git(String),
    /// Somebody interrupted the measurement.
    #[error("interrupted; what was measured is kept, and asking again goes on")]
    Interrupted,
    /// What was asked of the history is not there.
    #[error("{0}")]
    NotThere(String),
}

impl TrackError {
    /// Whether asking differently helps.
    pub fn is_misasked(&self) -> bool {
        matches!(self, TrackError::Differs { .. } | TrackError::Absent(_) | TrackError::NotThere(_))
    }

    /// Turns the system's error into one that names the file and what was tried.
    pub(crate) fn io(path: &Path, what: &'static str) -> impl FnOnce(std::io::Error) -> TrackError {
        let path = path.to_owned();
        move |error| TrackError::Io { path, what, error }
    }
}
