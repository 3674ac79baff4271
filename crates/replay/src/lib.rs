//! Drives a workload through any heap that fulfils a contract.
//!
//! The driver is generic over the heap (monomorphised: no virtual call an event) and keeps its own
//! data out of it: one of the heaps it measures is the process's malloc, which is also Rust's, so
//! its tables are mapped pages ([`pages`]), touched before the first measurement.
//!
//! - [`driver`]: the loop: decode, call the heap, keep the block in its slot.
//! - [`collected`]: the loop for heaps that collect; [`slots`]: their objects.
//! - [`table`]: the live blocks by slot, and the regions that are alive.
//! - [`touch`]: which blocks are written, which decides what becomes resident.
//! - [`threads`]: one OS thread a recorded thread, cross-thread frees in order.
//! - [`cell`]: one measurement of one heap: space over time, or time, or every block verified.
//! - [`entry`]: the table of families, from which a binary parses names and runs heaps.
//! - [`workload`]: a replay program as families see it.
//! - [`system`]: what the kernel says of this process: anonymous memory, CPU time, page faults.

pub mod cell;
pub mod collected;
pub mod driver;
pub mod entry;
pub mod pages;
pub mod slots;
pub mod system;
pub mod table;
pub mod threads;
pub mod touch;
pub mod workload;

pub use cell::{CellKind, CellReport, CellRequest, SpaceReport, SpaceSample, TimeReport};
pub use driver::{Driver, ReplayError};
pub use entry::{Entry, Families, Of, Selected, Standing};
pub use table::Table;
pub use touch::Touch;
