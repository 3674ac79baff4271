//! The elastic metaspace of JDK 16 and later (JEP 387): buddy chunks with headers outside,
//! committed granule by granule.
//!
//! An arena bumps through chunks whose sizes follow its growth policy; a chunk that returns merges
//! with its free buddies, and free chunks of at least a granule give their memory back. Source: T.
//! Stüfe, "Elastic Metaspaces" (2020), and OpenJDK 17.0.15, which every rule here was held against:
//! its arenas driven through WhiteBox (`tests/whitebox.rs`), and the log of its decisions about
//! chunks (`tests/golden.rs`).
//!
//! - [`facts`], [`strategy`]: constants, and what the generations and policies choose.
//! - [`heap`]: the heap. [`arena`], [`space`], [`node`]: what it is made of, from above.
//! - [`free_blocks`], [`bin_list`], [`block_tree`]: blocks that an arena got back.
//! - [`counters`], [`report`], [`report_text`]: what `jcmd VM.metaspace` tells.

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
