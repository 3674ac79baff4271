//! The errors of exporting.

use heaplab_profile::choose::ChooseError;

/// Why a profile was not written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The output failed.
    #[error("cannot write the profile: {0}")]
    Io(#[from] std::io::Error),
    /// The output failed during JSON.
    #[error("cannot write the profile: {0}")]
    Json(#[from] serde_json::Error),
    /// The heap snapshot cannot be written.
    #[error(transparent)]
    Snapshot(#[from] heaplab_snapshot::generate::GenerateError),
    /// The format cannot show the request.
    #[error("{0}")]
    Misused(&'static str),
    /// A number exceeds the format's range.
    #[error("{format} cannot hold {what} = {value} (at most {limit}); choose another format")]
    TooLarge {
        /// The format.
        format: &'static str,
        /// The quantity.
        what: &'static str,
        /// The number.
        value: u64,
        /// The format's largest number.
        limit: u64,
    },
    /// The format has no place for the moment.
    #[error(
        "a DHAT file holds the peak and the end, and no other moment (requested: {0}); choose another format, or leave the moment out"
    )]
    MomentNotShown(String),
    /// The profile lacks the moment: its mark belongs to another process, or was not requested.
    #[error(
        "the requested moment (number {0}) is not in the selection; choose another moment, or all processes"
    )]
    MomentMissing(usize),
    /// The recording has this mark; the selected process lacks it.
    #[error("the mark `{0}` did not pass in this process; try --process all")]
    MarkElsewhere(String),
    /// The recording has the metaspaces of several JVMs.
    #[error(
        "a heap snapshot shows the metaspace of one JVM, and this recording has {0}: name one with --process"
    )]
    SeveralJvms(usize),
    /// A metaspace trace has no processes.
    #[error(
        "a metaspace trace is of one process: name one with --process, or leave it out for the one with the largest peak"
    )]
    SeveralWorkloads,
    /// No process is so called.
    #[error(transparent)]
    Chosen(#[from] ChooseError),
    /// The recording cannot be read, or compiled for a replay.
    #[error(transparent)]
    Unread(#[from] heaplab_trace::TraceError),
    /// The heap cannot run the workload, or cannot be walked.
    #[error("{0}")]
    Heap(#[from] heaplab_heap::FamilyError),
    /// The replay has other objects than the recording.
    #[error(
        "{}: at the moment {live} objects are live, and the replay has {replayed}, {same} of them the same: its events are not in order; heaplab replay --verify --space says where",
        path.display()
    )]
    Disorder {
        /// The recording.
        path: std::path::PathBuf,
        /// Live objects of the recording.
        live: usize,
        /// Live objects of the replay.
        replayed: usize,
        /// Live objects that are the same in both.
        same: usize,
    },
}

impl ExportError {
    /// Whether another process or moment would help.
    pub fn is_misasked(&self) -> bool {
        matches!(
            self,
            ExportError::Misused(_)
                | ExportError::MarkElsewhere(_)
                | ExportError::SeveralJvms(_)
                | ExportError::SeveralWorkloads
                | ExportError::Chosen(ChooseError::NotThere(_))
        )
    }
}
