//! What can go wrong, with what was asked for and what the caller can do about it.

use std::io;
use std::ops::Range;

/// Why address space could not be had, committed or given back. The reservation is then as before
/// the call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused the reservation.
    #[error(
        "cannot reserve {bytes} bytes of address space: {source}; reserve less, or raise the limit on address space (ulimit -v)"
    )]
    Reserve {
        /// What was asked for.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A range that is empty the wrong way round, not made of whole pages, or outside of the
    /// reservation.
    #[error(
        "the range {range:?} is not made of whole pages of {page_bytes} bytes within a reservation of {reserved_bytes} bytes"
    )]
    Range {
        /// What was asked for, as offsets from the base.
        range: Range<usize>,
        /// The size of a page.
        page_bytes: usize,
        /// The size of the reservation.
        reserved_bytes: usize,
    },
    /// An alignment or size that no reservation can have.
    #[error(
        "cannot reserve {bytes} bytes aligned to {align_bytes}: the size must be positive and the alignment a power of two"
    )]
    Shape {
        /// The size asked for.
        bytes: usize,
        /// The alignment asked for.
        align_bytes: usize,
    },
    /// The commit limit would be exceeded.
    #[error(
        "committing {asked_bytes} bytes on top of {committed_bytes} would exceed the limit of {limit_bytes} bytes"
    )]
    LimitReached {
        /// What was to be committed in addition.
        asked_bytes: usize,
        /// What is committed under this limit.
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
    /// What the kernel says about mappings could not be read.
    #[error("cannot read {file}: {source}")]
    Usage {
        /// Which file of procfs.
        file: &'static str,
        /// Why not.
        source: io::Error,
    },
}
