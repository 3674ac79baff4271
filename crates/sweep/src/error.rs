//! Errors of a plan, its jobs and their files.

use heaplab_experiment::ExperimentError;
use heaplab_experiment::many::SameName;
use heaplab_experiment::prepare::PrepareError;
use heaplab_trace::TraceError;
use std::path::{Path, PathBuf};

/// Why a sweep is not run or not reported.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A file or folder.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The failed step.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The plan asks for the impossible.
    #[error("{}: {reason}", path.display())]
    Plan {
        /// The plan.
        path: PathBuf,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// A recording.
    #[error(transparent)]
    Recording(#[from] TraceError),
    /// A process of a recording.
    #[error(transparent)]
    Process(#[from] heaplab_profile::choose::ChooseError),
    /// Two recordings have one name.
    #[error(transparent)]
    SameName(#[from] SameName),
    /// A recording does not suit a heap.
    #[error(transparent)]
    Unready(#[from] PrepareError),
    /// A block.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The folder holds the results of another plan, or of another heaplab.
    #[error("{}: {reason}; choose another folder with -o, or run the plan and the heaplab that began this one", path.display())]
    Other {
        /// The folder, or the file of one workload.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// A file of results that heaplab did not write so.
    #[error("{}: {reason}; remove the file, and run the sweep again for what is missing", path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A folder without results.
    #[error(
        "{}: no results of heaplab sweep are here: expected sweep.json, which heaplab sweep PLAN -o writes first",
        .0.display()
    )]
    NoResults(PathBuf),
    /// A job that the plan does not have.
    #[error("{0}: the plan has no such job; --list prints all")]
    NoJob(String),
}

impl SweepError {
    /// Whether asking differently helps.
    pub fn is_misasked(&self) -> bool {
        matches!(self, SweepError::Plan { .. } | SweepError::NoJob(_) | SweepError::SameName(_))
    }

    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| SweepError::Io { path, action, source }
    }
}
