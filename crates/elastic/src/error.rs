//! Why an arena could not serve a request. The arena's blocks and its space are then as before it.

use std::alloc::Layout;

/// Why an arena or a block could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The space's commit limit.
    #[error("{source}; drop arenas, trim the space, or raise its commit limit")]
    LimitReached {
        /// Numbers of the limit.
        source: heaplab_address_space::Error,
    },
    /// The reserved addresses are used up.
    #[error(
        "no room for {asked_bytes} bytes in {reserved_bytes} bytes of reserved address space; reserve more when the space is made, where the limit on address space (ulimit -v) allows"
    )]
    AddressSpace {
        /// The requested size.
        asked_bytes: usize,
        /// All reserved bytes.
        reserved_bytes: usize,
    },
    /// No space can serve this layout.
    #[error("no block of {} bytes aligned to {} can be had: size and alignment together may be {max_bytes} bytes at most", layout.size(), layout.align())]
    Layout {
        /// The requested layout.
        layout: Layout,
        /// The most a block may have.
        max_bytes: usize,
    },
    /// The kernel refused to reserve or to commit.
    #[error(transparent)]
    System(heaplab_address_space::Error),
    /// The thread that reclaims could not be started.
    #[error(
        "cannot start the thread that gives idle memory back: {0}; reclaim at return or at trim instead"
    )]
    Thread(std::io::Error),
    /// The C library has no memory to register the fork handlers.
    #[error("cannot prepare for forks of this process: {0}")]
    Fork(std::io::Error),
    /// Options that no space can have.
    #[error("{what}: {found}; expected {expected}")]
    Options {
        /// Which option.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The allowed values.
        expected: String,
    },
}

impl From<heaplab_address_space::Error> for Error {
    fn from(error: heaplab_address_space::Error) -> Error {
        match error {
            source @ heaplab_address_space::Error::LimitReached { .. } => {
                Error::LimitReached { source }
            }
            other => Error::System(other),
        }
    }
}
