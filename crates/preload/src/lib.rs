//! The preload object that records a program's allocations, and the layout of the memory it shares
//! with the recording process.
//!
//! The object is small C rather than Rust, because its hot path needs initial-exec thread-local
//! storage: 11 ns an event cheaper than the storage of a shared Rust library on a stable compiler.
//! `build.rs` compiles `c/preload.c` into [`PRELOAD`]: an installed binary needs no other
//! file. The recording process writes these bytes to a file and names the file in `LD_PRELOAD`.
//! [`SPOOL_VARIABLE`] names a folder prepared as [`layout`] says.
//!
//! ```
//! assert!(heaplab_preload::PRELOAD.starts_with(b"\x7fELF"));
//! ```

pub mod layout;

/// The preload object, a shared library.
pub const PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

/// The addon that Node loads to record its heaps, a shared library.
pub const NODE_ADDON: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/node-addon.node"));

/// The header with `HEAPLAB_MARK("name")` for programs that set marks themselves.
pub const MARK_HEADER: &str = include_str!("../c/heaplab.h");

/// The environment variable that names the spool folder.
pub const SPOOL_VARIABLE: &str = "HEAPLAB_SPOOL";
