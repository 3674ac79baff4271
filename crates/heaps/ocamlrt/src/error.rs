//! Errors of the real runtime.

use std::io;
use std::path::PathBuf;

/// Why a workload did not run in the real runtime.
#[derive(Debug, thiserror::Error)]
pub enum OCamlError {
    /// There is no compiler.
    #[error(
        "ocamlopt is not installed, and the real OCaml runtime is reached through it; install OCaml 4 (Debian: apt install ocaml-nox)"
    )]
    Missing,
    /// The compiler's runtime has another design.
    #[error(
        "ocamlopt is version {0}; the real runtime is compared with 4.12 to 4.14, OCaml 5 has another heap"
    )]
    Version(String),
    /// The compiler ran and failed.
    #[error(
        "ocamlopt could not compile the driver (it needs gcc and OCaml's headers, which Debian's ocaml-nox has): {0}"
    )]
    Compile(String),
    /// The cache folder will not do.
    #[error(
        "cannot keep the compiled driver in {folder}: {source}; name another folder with XDG_CACHE_HOME"
    )]
    Cache {
        /// The folder for it.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The driver did not start, or its pipes broke.
    #[error("cannot run the OCaml driver {driver}: {source}")]
    Start {
        /// The program.
        driver: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The driver ended before its workload.
    #[error(
        "the OCaml driver ended with {status} after {steps} steps; its last message: {message}"
    )]
    Died {
        /// The system's description.
        status: String,
        /// Steps written to the driver, which may have read fewer.
        steps: u64,
        /// The last line on its standard error.
        message: String,
    },
    /// The runtime has no more memory.
    #[error("the OCaml runtime ran out of memory after {steps} steps: {message}")]
    OutOfMemory {
        /// Steps written to the driver.
        steps: u64,
        /// The runtime's message.
        message: String,
    },
    /// The driver's format cannot express the step.
    #[error("step {step} does not fit the OCaml driver: {what}")]
    Step {
        /// Its number, from 0.
        step: u64,
        /// The part that does not fit.
        what: String,
    },
    /// The workload ended early.
    #[error("{0}")]
    Workload(String),
    /// The output is not the driver's.
    #[error("the OCaml driver wrote {found:?}; expected {expected}")]
    Output {
        /// The expected output.
        expected: &'static str,
        /// The line.
        found: String,
    },
}
