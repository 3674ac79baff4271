//! The metaspace of JDK 15 and before, by JDK 11: three chunk sizes and humongous chunks, headers
//! in the chunks.
//!
//! It is here because the elastic design was measured against it, and most JVMs still ran on it
//! when the document was written. It is complete: [`Metaspace11`] hands out the same addresses (as
//! offsets within a node) as JDK 11.0.13 for the same requests; `tests/old_recorded.rs` checks this
//! with a [`recording`] of that JVM.
//!
//! Main path: `arena` bumps through a chunk; `pool` finds the next chunk among free ones, or by
//! `split`ting a larger one, or lets a `node` `grow`; a dying arena's chunks return and `merge`.
//!
//! Deviations: no garbage collection threshold (`MetaspaceGC`), only a limit; no large pages; no
//! locks, because a heap here has one user.

mod arena;
mod blocks;
mod check;
mod chunk;
pub mod facts;
mod grow;
mod heap;
pub mod jvm_log;
mod merge;
mod metaspace;
mod node;
mod occupancy;
mod parts;
mod piece;
mod pool;
pub mod recording;
mod report_text;
mod size_tree;
mod split;
mod statistics;
mod strategy;

#[cfg(test)]
mod tests;

pub use heap::Heap11;
pub use metaspace::{ArenaId, Metaspace11, Options11};
pub use pool::PoolCounters;
pub use statistics::{KindRow, LoaderRow, SpaceStatistics, Statistics};
pub use strategy::{ChunkKind, Space};
