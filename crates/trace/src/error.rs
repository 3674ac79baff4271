//! One error type for every reader and writer of workloads: the file, the place in it, the expected
//! and the found content.

use std::path::PathBuf;

/// Why a workload could not be read or written. Every variant names the file and, if there is one,
/// the place in it.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// The attempted action, as a verb phrase: "open", "write", "rename to NAME".
        action: &'static str,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The content contradicts its format.
    #[error("{}: {place}: expected {expected}, found {found}", path.display())]
    Malformed {
        /// File or folder.
        path: PathBuf,
        /// Byte offset, line or row: "line 12", "row 7 of column size", "byte 4096".
        place: String,
        /// The content that the format requires.
        expected: String,
        /// The content found.
        found: String,
    },
    /// A newer or foreign version of the format.
    #[error("{}: format version {found} is not readable; this heaplab reads version {supported}", path.display())]
    Version {
        /// File or folder.
        path: PathBuf,
        /// The version found.
        found: String,
        /// The versions that can be read, as text.
        supported: String,
    },
    /// A length or count exceeds what its file could hold, or a stated limit.
    #[error("{}: {place}: {what} is {found}, over the limit of {limit}", path.display())]
    Limit {
        /// File or folder.
        path: PathBuf,
        /// Byte offset, line or row.
        place: String,
        /// The excessive quantity.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The bound.
        limit: u64,
    },
    /// Events in an order that no program can produce: a free of a dead object, an object born
    /// twice.
    #[error("{}: event {row}: {what}", path.display())]
    Order {
        /// File or folder.
        path: PathBuf,
        /// Row number of the event, from 0.
        row: u64,
        /// The contradiction, in words.
        what: String,
    },
    /// A profile where a workload is asked for.
    #[error(
        "{}: a profile, of which one word in {every_words} was sampled: what is replayed or run on another heap has to have every object (of memtrace: MEMTRACE_RATE=1); heaplab report shows it", path.display()
    )]
    Profile {
        /// The bundle.
        path: PathBuf,
        /// In how many words one was sampled.
        every_words: u64,
    },
}

impl TraceError {
    /// Builds a [`TraceError::Io`] for `map_err`.
    pub fn io(
        path: impl Into<PathBuf>,
        action: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| TraceError::Io { path, action, source }
    }
}
