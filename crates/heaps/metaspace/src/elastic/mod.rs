//! The elastic metaspace of JDK 16 and later (JEP 387): buddy chunks with headers outside,
//! committed granule by granule.
//!
//! An arena bumps through chunks of sizes set by its growth policy; a returned chunk merges with
//! its free buddies, and free chunks of at least a granule give their memory back. Source: T.
//! Stüfe, "Elastic Metaspaces" (2020). Every rule here was compared with OpenJDK 17.0.15: with its
//! arenas driven through WhiteBox (`tests/whitebox.rs`), and with the log of its decisions about
//! chunks (`tests/golden.rs`).
//!
//! - [`facts`], [`strategy`]: constants, and the choices of the generations and policies.
//! - [`heap`]: the heap. [`arena`], [`space`], [`node`]: its parts, from above.
//! - [`free_blocks`], [`bin_list`], [`block_tree`]: blocks returned to an arena.
//! - [`counters`], [`report`], [`report_text`]: the output of `jcmd VM.metaspace`.

pub mod arena;
pub mod bin_list;
pub mod block_tree;
pub mod counters;
pub mod facts;
pub mod free_blocks;
pub mod heap;
pub mod node;
pub mod report;
pub mod report_text;
pub mod space;
pub mod strategy;

mod check;
mod parts;

pub use heap::{ArenaId, ElasticMetaspace};
pub use space::Decision;
