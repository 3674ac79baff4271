//! Why a workload could not be changed.

use heaplab_trace::TraceError;

/// Why a workload could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// A recording cannot be read, or a bundle cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A change has the wrong form.
    #[error("{text:?}: expected {expected}")]
    Malformed {
        /// The change as written.
        text: String,
        /// The right form.
        expected: &'static str,
    },
    /// An option of a command line does not hold a change.
    #[error("--{flag}: {reason}")]
    Option {
        /// The option.
        flag: &'static str,
        /// Why not.
        reason: Box<WhatIfError>,
    },
    /// No stack of the recording has the function.
    #[error("no stack has a function called {name:?}{}", near_words(.near))]
    NoFunction {
        /// The function as asked for.
        name: String,
        /// Functions with like names, at most a few.
        near: Vec<String>,
    },
    /// A rule concerns nothing.
    #[error("{rule}: no request of this recording is concerned")]
    Nothing {
        /// In words.
        rule: String,
    },
    /// The workload's deaths are not the program's own doing.
    #[error(
        "deaths of this workload are {death_rule}: only what a program frees itself can be {done}; sizes can be changed, and functions dropped"
    )]
    Collected {
        /// Of the recording.
        death_rule: String,
        /// "pooled", "capped", ...
        done: &'static str,
    },
    /// A JVM's metaspace.
    #[error(
        "this recording shows a JVM's metaspace with its chunks, which a change of requests would contradict"
    )]
    Metaspace,
}

fn near_words(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; there are {}", near.join(", ")) }
}
