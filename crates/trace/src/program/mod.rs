//! The replay program: a workload compiled once into words that a driver can run at a few
//! nanoseconds an event.
//!
//! A bundle serves analysis: compressed columns, keyed by ids that grow with its length. A driver
//! needs the opposite: decoded rows in order, with a table no larger than the most objects ever
//! live at once. So objects become **slots**, reused as soon as their object dies, and events
//! become one to four 32-bit words (docs/replay-program.md has every bit).
//!
//! - [`compile`]: streams events into a program; memory grows with live objects only.
//! - [`Program`]: a program, mapped or in memory; opening one checks its checksums and bounds.
//! - [`Step`]: one decoded instruction. Decoding is total: any words give steps or an error, never
//!   a panic.
//! - [`cached`]: a bundle's program, compiled if missing. [`until`]: its beginning, with the live
//!   objects at the end. [`with_moments`]: the whole program, with the words of asked moments.

mod cache;
mod compiler;
mod encoding;
mod file;
mod slots;
mod young;

pub use cache::{cached, until, with_moments};
pub use compiler::{Standing, compile, compile_and_standing};

pub use encoding::{
    Corrupt, Managed, SIZE_MAX, Step, TRANSIENT_WORDS, decode, is_freed_at, slot_at, transients,
};
pub use file::{Checkpoint, Facts, Program, RegionKind, VERSION};

#[cfg(test)]
mod tests;
