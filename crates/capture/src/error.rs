//! Errors of a capture. A message says what to do if a user can do something.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// An address that is none.
    #[error(
        "{text:?} is not an inspector's address: {why}; expected ws://127.0.0.1:9229/... or http://127.0.0.1:9222"
    )]
    Address {
        /// The address as given.
        text: String,
        /// The fault in the address.
        why: String,
    },
    /// The process does not exist, belongs to another user, is not Node, or does not open or close
    /// its inspector.
    #[error("process {pid}: {why}")]
    Process {
        /// The process.
        pid: u32,
        /// The fault, and the remedy.
        why: String,
    },
    /// Nothing listens at the address.
    #[error(
        "cannot connect to {address}: {source}; is the inspector on (node --inspect, chromium --remote-debugging-port=9222)?"
    )]
    Connect {
        /// Where.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// The listener does not speak the inspector's protocol.
    #[error("the server at {address} is not an inspector: {what}")]
    NoInspector {
        /// Where.
        address: String,
        /// What is wrong with the answer.
        what: String,
    },
    /// No page or more than one to choose from.
    #[error("{why} at {address}:{list}\nname one by a part of its title or address")]
    Pages {
        /// Where.
        address: String,
        /// Why no target was chosen.
        why: &'static str,
        /// What there is, one a line, indented.
        list: String,
    },
    /// The connection ended before the answer.
    #[error(
        "the target closed the connection while {doing}: it ended, or another debugger took its place"
    )]
    Gone {
        /// The interrupted activity.
        doing: String,
    },
    /// Nothing was heard for too long.
    #[error("nothing was heard from the target for {} s while {doing}: it hangs or is stopped; wait longer with a longer timeout", silence.as_secs())]
    Silent {
        /// The interrupted activity.
        doing: String,
        /// How long.
        silence: Duration,
    },
    /// The network failed.
    #[error("the connection failed while {doing}: {source}")]
    Network {
        /// The interrupted activity.
        doing: String,
        /// Why.
        source: io::Error,
    },
    /// What came is not the protocol.
    #[error("the target does not speak the protocol as expected: {0}")]
    Protocol(String),
    /// The target refused a command.
    #[error("the target refused {method}: {message}")]
    Refused {
        /// The command.
        method: String,
        /// Its words.
        message: String,
    },
    /// No browser could be started.
    #[error("{0}; name a Chromium that is installed, or start one and name its debugging port")]
    Browser(String),
    /// The page does not do a step, or crashed.
    #[error("the page: {0}")]
    Page(String),
    /// A step of a scenario failed.
    #[error("line {line}, {step:?}: {why}")]
    Step {
        /// The line, from 1.
        line: usize,
        /// What stands there.
        step: String,
        /// Why.
        why: Box<CaptureError>,
    },
    /// The file could not be written.
    #[error("cannot write {}: {source}; {kept}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// What is left of the file, in words.
        kept: String,
    },
    /// The snapshots that Node wrote by itself cannot be listed or moved.
    #[error("{}: cannot take over what Node wrote by itself: {source}", path.display())]
    Own {
        /// A file, or their folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The snapshot did not arrive whole.
    #[error("the snapshot is not complete: {why}; the {bytes} bytes that came are in {}", part.display())]
    Cut {
        /// The file with what came.
        part: PathBuf,
        /// How much that is.
        bytes: u64,
        /// What happened.
        why: String,
    },
}

impl CaptureError {
    /// Whether the target has ended, as far as can be known.
    pub fn is_end(&self) -> bool {
        matches!(self, CaptureError::Gone { .. } | CaptureError::Cut { .. })
    }
}
