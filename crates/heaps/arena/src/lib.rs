//! Arena libraries as heaps: a region of the workload is an arena of the library.
//!
//! Shows the cost of a workload with arenas (class loaders, requests, queries) on an arena library,
//! beside its cost on the recorded allocator. A heap without regions needs no adapter here: the
//! driver frees a dying region's blocks one by one, as a program with malloc alone does.
//!
//! - [`bump`]: bumpalo, one `Bump` an arena; [`bump_walk`]: the same, with its structure.
//! - [`elastic`]: heaplab's own elastic arenas; [`spec`] has their parameters, [`growths`] the
//!   growth of their arenas.
//! - [`family`]: how they enter the lab.
//!
//! ```
//! use heaplab_arena::bump::Bumps;
//! use heaplab_heap::{Manual, Region, Request};
//! let mut heap = Bumps::default();
//! heap.begin_region(Region(1));
//! let block = heap.allocate(Request { region: Region(1), ..Request::of(100) }).unwrap();
//! // SAFETY: the block is live and has 100 bytes, and nobody uses it after its region.
//! unsafe {
//!     block.as_ptr().write_bytes(1, 100);
//!     heap.end_region(Region(1));
//! }
//! ```

pub mod bump;
pub mod bump_walk;
pub mod elastic;
pub mod family;
pub mod growths;
mod parts;
pub mod spec;

pub use family::Arenas;
