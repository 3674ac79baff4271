//! The errors, with the request and the caller's remedy.

use std::io;
use std::ops::Range;

/// Why address space could not be reserved, committed or given back. The reservation is as before
/// the call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused the reservation.
    #[error(
        "cannot reserve {bytes} bytes of address space: {source}; reserve less, or raise the limit on address space (ulimit -v)"
    )]
    Reserve {
        /// Bytes requested.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The range is reversed, not made of whole pages, or outside of the reservation.
    #[error(
        "the range {range:?} is not made of whole pages of {page_bytes} bytes within a reservation of {reserved_bytes} bytes"
    )]
    Range {
        /// The requested range, as offsets from the base.
        range: Range<usize>,
        /// The size of a page.
        page_bytes: usize,
        /// The size of the reservation.
        reserved_bytes: usize,
    },
    /// No reservation can have this alignment or size.
    #[error(
        "cannot reserve {bytes} bytes aligned to {align_bytes}: the size must be positive and the alignment a power of two"
    )]
    Shape {
        /// Requested size.
        bytes: usize,
        /// Requested alignment.
        align_bytes: usize,
    },
    /// The commit limit would be exceeded.
    #[error(
        "committing {asked_bytes} bytes on top of {committed_bytes} would exceed the limit of {limit_bytes} bytes"
    )]
    LimitReached {
        /// Bytes to commit in addition.
        asked_bytes: usize,
        /// Bytes committed under this limit.
        committed_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// The kernel refused to commit.
    #[error("cannot commit {bytes} bytes at offset {offset}: {source}")]
    Commit {
        /// Offset from the base.
        offset: usize,
        /// Length of the range.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused to take pages back.
    #[error("cannot uncommit {bytes} bytes at offset {offset}: {source}")]
    Uncommit {
        /// Offset from the base.
        offset: usize,
        /// Length of the range.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel's report on mappings could not be read.
    #[error("cannot read {file}: {source}")]
    Usage {
        /// The file of procfs.
        file: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
