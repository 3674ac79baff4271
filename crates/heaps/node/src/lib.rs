//! A workload in a real V8: the original for comparison with V8's rules.
//!
//! Node's `--gc-freelist-strategy` chooses among the free-list strategies of V8 7.8 to 8.4, and
//! `v8.getHeapSpaceStatistics()` gives each space's bytes. So a workload for a heap of rules runs
//! in the real V8 too. [`run`] writes births, deaths and forced collections for a driver in
//! JavaScript (`driver.js`), starts Node, and returns one [`Collection`](heaplab_heap::Collection)
//! for each.
//!
//! An object of `size` bytes becomes `new Array(max(1, ceil(size / 8)))`: an array header of 32
//! bytes and its elements, 16 bytes and 8 a word. A reallocation is a birth into the same slot. A
//! hidden class becomes `{}` with a map of its own (`maps.js`).
//!
//! **Relative numbers.** Old space also holds Node's own objects. The driver compacts them and
//! fills the holes on their pages, so that the workload begins with full pages. [`Run::start`] has
//! the spaces at that moment; [`results::relative`] subtracts them from the states of all
//! collections.
//!
//! **What repeats.** With `compact=never` and `compact=always` committed and used bytes of each
//! collection are the same in each run. With `compact=regular` they vary: V8 decides by its
//! compaction's speed on the clock (`ComputeEvacuationHeuristics` in mark-compact.cc).
//! [`Run::thresholds`] has the results of these decisions.
//!
//! - [`spec`]: the parameters. [`find`]: the search for Node. [`known`]: sizes and limits, with
//!   sources.
//! - [`own`]: places of Node's own objects when a workload begins.
//! - [`workload`]: the binary file that the driver reads. [`results`] and [`traces`]: parsers of
//!   the driver's and V8's output (no I/O).

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
pub use workload::{Step, Table};
