//! A workload in a real V8: the original that V8's rules are held against.
//!
//! Node's `--gc-freelist-strategy` chooses among the free-list strategies that V8 had from 7.8 to
//! 8.4, and `v8.getHeapSpaceStatistics()` says what each space holds. So the same workload that
//! runs on a heap of rules runs in the real one: [`run`] writes the births, deaths and forced
//! collections for a driver in JavaScript (`driver.js`), starts Node, and gives one
//! [`Collection`](heaplab_heap::Collection) for each.
//!
//! An object of `size` bytes becomes `new Array(max(1, ceil(size / 8)))`: an array header of 32
//! bytes and its elements, 16 bytes and 8 a word. A reallocation is a birth into the same slot.
//!
//! **Relative numbers.** Old space also holds Node's own objects. The driver moves them together
//! and fills what is free on their pages, so that the workload begins with full pages;
//! [`Run::start`] says what the spaces held then, and all states of all collections are less that
//! start ([`results::relative`]).
//!
//! **What repeats.** With `compact=never` and `compact=always` committed and used bytes of each
//! collection are the same in each run. With `compact=regular` V8 decides by how fast its
//! compaction was by the clock (`ComputeEvacuationHeuristics` in mark-compact.cc), so that they
//! vary; [`Run::thresholds`] has what V8 decided by.
//!
//! - [`spec`]: the parameters. [`find`]: where Node is looked for. [`known`]: sizes and limits,
//!   with sources.
//! - [`own`]: where Node's own objects lie when a workload begins.
//! - [`workload`]: the binary file that the driver reads. [`results`] and [`traces`]: what comes
//!   back (no I/O).

pub mod error;
mod family;
pub mod find;
pub mod known;
pub mod own;
mod process;
pub mod results;
mod run;
pub mod spec;
pub mod traces;
pub mod workload;

pub use error::NodeError;
pub use family::Nodes;
pub use run::{Run, run};
pub use spec::{Spec, SpecError};
pub use workload::Step;
