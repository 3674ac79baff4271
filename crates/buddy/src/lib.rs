//! Buddy chunks and commit granules: the bookkeeping that heaplab's elastic arenas and HotSpot's
//! elastic metaspace share.
//!
//! For heaps that take chunks of power-of-two sizes from reserved address space and commit them
//! piece by piece. Offsets and sizes are plain bytes; no code here touches the memory behind them,
//! so all of it runs under Miri.
//!
//! - [`geometry`]: levels, their sizes, and buddies.
//! - [`granules`]: the commit mask: the committed granules of a range.
//! - [`chunks`]: chunk headers outside of the chunks, pooled; splitting, merging, enlarging in
//!   place.
//! - [`free_list`]: the free chunks of each level, committed ones in front.
//! - [`marks`]: named points on rare paths; a test can prove that it reached one.
//!
//! Source: T. Stüfe, "Elastic Metaspaces" (SAP, 2020), and measurements of OpenJDK 17.
//!
//! ```
//! use heaplab_buddy::{chunks::Chunks, geometry::Geometry};
//! let geometry = Geometry::new(1 << 24, 1 << 10).unwrap();
//! let mut chunks = Chunks::new(geometry, 64 << 10);
//! let root = chunks.add_root(0);
//! // A chunk of 4 KB: the rest of the root is split off, one splinter a level.
//! chunks.split(root, geometry.level_fitting(4096).unwrap());
//! assert_eq!((chunks.bytes(root), chunks.free_chunks()), (4096, 12));
//! // Given back, it merges with every splinter to the root again.
//! let merged = chunks.merge(root).unwrap();
//! assert_eq!((merged, chunks.bytes(merged), chunks.free_chunks()), (root, 1 << 24, 0));
//! ```

pub mod chunks;
pub mod free_list;
pub mod geometry;
pub mod granules;
pub mod marks;

pub use chunks::{ChunkId, Chunks};
pub use geometry::{Geometry, Level};
pub use granules::CommitMask;
