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
    #[error("a DHAT file holds the peak and the end, and no other moment (asked for: {0}); choose another format, or leave the moment out")]
    MomentNotShown(String),
    /// The profile was made without the moment that the export is to show.
    #[error("the profile was made without the moment number {0}")]
    MomentMissing(usize),
}
