//! Elastic arenas: very many lifetimes that share one pool of chunks, commit memory as they touch
//! it, and give it back when they die.
//!
//! For data that is allocated piecemeal and dies together: class loaders, plugins, requests,
//! queries, documents, tenants. An allocation is a pointer bump without a lock. A single block may
//! be given back early. A dead arena's memory serves the next arena or returns to the system page
//! by page, whatever its neighbours do.
//!
//! ```
//! use heaplab_elastic::{Growth, Options, Space};
//!
//! let space = Space::new(Options::default())?;
//! let requests: Vec<_> = (0..1000).map(|_| space.arena(Growth::SMALL)).collect::<Result<_, _>>()?;
//! for request in &requests {
//!     request.alloc_str("what a request needs until it is answered")?;
//!     let mut rows = allocator_api2::vec::Vec::new_in(request);
//!     rows.extend([1, 2, 3]);
//! }
//! println!("{}", space.report()?);
//! drop(requests);
//! space.trim()?;
//! assert_eq!(space.committed_bytes(), 0);
//! # Ok::<(), heaplab_elastic::Error>(())
//! ```
//!
//! # Why
//! Arenas are fast because they give no memory back, and that is their weakness: if nine in ten of
//! ten thousand small ones die, they leave pages with one survivor each. HotSpot's elastic
//! metaspace (T. Stüfe, 2020), the origin of this design, then keeps 16 times the live bytes,
//! because it gives back granules of 64 KB, and the smallest chunk pins one. The differences:
//!
//! - A granule is a page, and small chunks are runs of 64-byte lines in it, of any length. Two or
//!   three arenas of 2 KB share a page; the page is free when they are gone.
//! - A chunk is lengthened in place by a few lines while its neighbour is free, so arenas filled
//!   one after another lie side by side without gaps, and the unused end of an arena is a line or
//!   two.
//! - A new arena starts in a hole of nearly its wanted size, or else in a page of its own: arenas
//!   in one page instead of two are what frees pages again.
//! - Giving back is `MADV_DONTNEED`, which splits no mapping: a space has at most four mappings,
//!   however much is committed. Two of them are guard pages at its ends.
//! - An arena is 8 bytes of handle and 56 bytes of head in its own first chunk. The shared books
//!   are 17 bytes a page.
//!
//! # What it costs, where it is not the right thing
//! Blocks are whole words, at least 8 bytes. An arena takes at least two lines. A granule larger
//! than a page (an option, for fewer system calls) makes lines larger in proportion. Taking,
//! lengthening and returning a chunk take the lock of one of the space's shards. Threads with
//! arenas of their own take different locks, up to eight. A waiting thread polls the lock, in the
//! end every 50 microseconds, and is not woken up. So arenas are not for many more threads than
//! processors that all begin and end arenas all the time. Large blocks (above a granule) get whole
//! granules. Nothing moves: one survivor pins a page. A fork takes the locks of all spaces first
//! ([`Space`]). Linux only, x86-64 and aarch64.
//!
//! | | many lifetimes over one pool | a block given back | memory back to the system | accounting | threads |
//! |---|---|---|---|---|---|
//! | bumpalo | no: each arena's chunks are malloc's | the last one | when malloc does | bytes an arena | `Send` |
//! | talloc | no: each block is malloc's | yes, and hierarchies with destructors | when malloc does | a report a context | not shared |
//! | APR pools | yes, 8 KB at least each | no | above a limit of the allocator | no | a lock an allocator |
//! | PostgreSQL contexts | kept blocks of deleted contexts of the common sizes | yes, by power of two | when malloc does | per context | one |
//! | HotSpot's metaspace | yes | yes | granules of 16 or 64 KB | yes | a lock a loader |
//! | this crate | yes | yes | pages; at return, at trim or in the background | per arena and space | `Send` arenas, a `Sync` space |
//!
//! talloc has parents and children, destructors and names, which this crate lacks. bumpalo needs no
//! reserved addresses, runs everywhere, and has its own collections.
//!
//! # Settings
//! [`Options`]: how much address space, the largest chunk, the granule, [`Reclaim`], a commit
//! limit, aids against memory errors ([`struct@Debug`]). [`Growth`]: the sizes of an arena's
//! chunks, and how to choose them; by default first chunks become as large as the space's arenas
//! turn out to be.

/// The example in the README, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod arena;
mod background;
#[cfg(any(test, feature = "c-interface"))]
pub mod c_interface;
mod error;
#[cfg(not(loom))]
mod fork;
#[cfg(loom)]
mod fork {
    //! Loom forks no processes.
    pub fn note(_: *const crate::space::Shared) -> std::io::Result<()> {
        Ok(())
    }
    pub fn forget(_: *const crate::space::Shared) {}
}
mod growth;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod operations;
mod options;
mod pool;
mod report;
mod space;
mod sync;

pub use arena::guarded::Overwritten;
pub use arena::{Arena, ArenaStatistics, Place, PlaceKind};
pub use error::Error;
pub use growth::Growth;
pub use heaplab_address_space::{Call, CommitLimit, Faults, SystemCalls};
pub use options::{Debug, Options, Reclaim};
pub use pool::Counts;
pub use pool::reclaim::UncommitTimes;
pub use report::{Level, Report};
pub use space::Space;
