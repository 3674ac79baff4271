//! Drives a workload through any heap with a contract.
//!
//! The driver is generic over the heap (monomorphised: no virtual call an event) and keeps its own
//! data out of the heap. One of the measured heaps is the process's malloc, which is also Rust's;
//! so the driver's tables are mapped pages ([`pages`]), touched before the first measurement.
//!
//! - [`driver`]: the loop: decode, call the heap, keep the block in its slot.
//! - [`collected`]: the loop for heaps that collect; [`slots`]: their objects.
//! - [`table`]: the live blocks by slot, and the live regions.
//! - [`touch`]: the policy of writing to blocks, which decides what becomes resident.
//! - [`threads`]: one OS thread a recorded thread, cross-thread frees in order.
//! - [`cell`]: one measurement of one heap: space over time, or time, or every block verified.
//! - [`entry`]: the table of families: parses names and runs heaps.
//! - [`workload`]: a replay program in the families' view.
//! - [`system`]: the kernel's figures for this process: anonymous memory, CPU time, page faults.

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
