//! What can go wrong while exporting.

/// Why a profile was not written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The output failed.
    #[error("cannot write the profile: {0}")]
    Io(#[from] std::io::Error),
    /// The output failed while JSON was written.
    #[error("cannot write the profile: {0}")]
    Json(#[from] serde_json::Error),
    /// The heap snapshot cannot be written.
    #[error(transparent)]
    Snapshot(#[from] heaplab_snapshot::generate::GenerateError),
    /// A number is larger than the format can hold.
    #[error("{format} cannot hold {what} = {value} (at most {limit}); choose another format")]
    TooLarge {
        /// The format.
        format: &'static str,
        /// What the number is.
        what: &'static str,
        /// The number.
        value: u64,
        /// The largest it can hold.
        limit: u64,
    },
    /// The format has no place for the moment.
    #[error(
        "a DHAT file holds the peak and the end, and no other moment (asked for: {0}); choose another format, or leave the moment out"
    )]
    MomentNotShown(String),
    /// The moment is not in the profile: its mark is none of this process's, or it was not asked
    /// for.
    #[error(
        "the moment that was asked for (number {0}) does not occur in what was selected; choose another moment, or all processes"
    )]
    MomentMissing(usize),
}
