//! The replay program: a workload compiled once into words that a driver can run at a few
//! nanoseconds an event.
//!
//! A bundle is made for analysis: columns, compressed, keyed by ids that grow with its length. A
//! driver wants the opposite: rows, in order, already decoded, with a table no larger than what was
//! ever live at once. So objects become **slots**, which are reused as soon as their object dies,
//! and events become one to four 32-bit words (docs/replay-program.md has every bit).
//!
//! - [`compile`]: streams events into a program; memory grows with live objects only.
//! - [`Program`]: a program, mapped or in memory; opening one checks its checksums and bounds.
//! - [`Step`]: one decoded instruction. Decoding is total: any words give steps or an error, never
//!   a panic.
//! - [`cached`]: a bundle's program, compiled when there is none yet. [`until`]: its beginning, and
//!   what stands at the end of that.

mod cache;
mod compiler;
mod encoding;
mod file;
mod slots;

pub use cache::{cached, until};
pub use compiler::{Standing, compile, compile_and_standing};
pub(crate) use encoding::SIZE_MAX;
pub use encoding::{Corrupt, Managed, Step, decode, slot_at};
pub use file::{Checkpoint, Facts, Program, RegionKind};

#[cfg(test)]
mod tests;
