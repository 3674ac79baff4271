//! V8's generational heap with every free-list strategy of its document, as a collected heap on
//! real memory.
//!
//! For people who build collectors: one workload runs on every strategy, and each object lies where
//! the real V8 puts it, page for page. A heap starts like the old space of a runtime whose own
//! objects fill their pages: without a page for the workload.
//!
//! - [`facts`]: constants, and the differences between versions; [`strategy`]: free lists as plain
//!   data, [`documented`]: strategies that never shipped, [`described`]: one's own from a file;
//!   [`spec`]: parameters.
//! - [`page`], [`object`]: the content of memory; [`own`]: the runtime's own objects;
//!   [`free_list`], [`space`], [`sweeper`]: old space; [`segregated`]: old space by size classes
//!   instead; [`map_space`]: hidden classes.
//! - [`new_space`], [`scavenger`], [`worklist`], [`slot_set`], [`remembered`]: the young
//!   generation; [`mark_compact`]: the full collection, [`pacing`]: when it is due.
//! - [`heap`]: the heap; [`check`], [`walk`]: its invariants and its parts; [`counts`]: work of
//!   allocations in old space, [`refills`]: each refill.

pub mod check;
pub mod counts;
pub mod described;
pub mod documented;
pub mod facts;
mod family;
pub mod free_list;
pub mod heap;
mod losses;
pub mod map_space;
pub mod mark_compact;
pub mod new_space;
pub mod object;
pub mod own;
pub mod pacing;
pub mod page;
pub mod refills;
pub mod remembered;
pub mod scavenger;
pub mod segregated;
pub mod slot_set;
mod sort;
pub mod space;
pub mod spec;
pub mod strategy;
pub mod sweeper;
pub mod walk;
pub mod worklist;

pub use counts::{Counts, CountsBy};
pub use family::V8s;
pub use heap::V8Heap;
pub use spec::{Spec, SpecError};
