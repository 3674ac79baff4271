//! Memory reporters: a running program's own account of its memory, for `heaplab about`.
//!
//! A profiler knows which code allocated a block. Only the program knows the block's purpose. So a
//! program registers reporters: each reports a number of bytes under a path
//! (`explicit/storage/sqlite/cache`). `heaplab about PID` asks over a socket ([`serve`]), adds up,
//! and shows the bytes without a reporter as `heap-unclassified`. Paths, kinds and units are those
//! of Firefox's `nsIMemoryReporter` and about:memory.
//!
//! ```
//! use heaplab_reporter::{Kind, Measure, SizeOf, register};
//! use std::sync::{Arc, Mutex};
//!
//! let cache = Arc::new(Mutex::new(vec![String::from("a page")]));
//! let reported = Arc::clone(&cache);
//! let handle = register(move |sink| {
//!     // The program holds this lock when it grows the cache: wait for nobody here.
//!     let Ok(cache) = reported.try_lock() else { return sink.skip("the cache is in use") };
//!     let bytes = cache.heap_bytes(&mut Measure::new());
//!     sink.bytes("explicit/cache/pages", Kind::Heap, bytes as i64, "Pages kept for the next query.");
//! });
//! // `let serving = heaplab_reporter::serve()?;` starts the thread that answers `heaplab about`.
//! let collected = heaplab_reporter::collect();
//! assert!(collected.reports.iter().any(|report| report.path == "explicit/cache/pages"));
//! drop(handle); // unregisters
//! ```
//!
//! # Rules for reporters
//! - They run on the server's thread while the program runs: take the locks that guard the data
//!   they read, and only those. A program that waits for the server's thread with such a lock held
//!   waits for ever.
//! - A reporter that panics becomes an error in the answer; the others still run. (A program built
//!   with `panic = "abort"` dies.)
//! - A reporter may take its time: the asker has a time limit, the program has none.
//! - Measure bytes on the heap by [`Measure::block`], which asks the allocator for the usable size.
//!   So slop counts where it is wasted, and `heaplab record --dmd` knows the block as reported. If
//!   a block's start is unknown, [`SizeOf`] describes the replacement.
//! - Dropping a [`Handle`] waits until its reporter has returned, unless the reporter drops it.
//! - A forked child has the reporters, no server and no socket until it calls [`serve`].

mod answer;
mod entry;
mod marks;
mod measure;
mod pressure;
mod registry;
mod serve;
mod size_of;
mod socket;
mod system;

#[cfg(feature = "c-interface")]
mod c_interface;

pub use marks::mark;
pub use measure::{Measure, set_allocator};
pub use pressure::{PressureHandle, on_pressure, relieve};
pub use registry::{Collected, Handle, Kind, Report, Sink, Units, collect, register};
pub use serve::{Peer, Serving, peer, serve};
pub use size_of::SizeOf;
pub use socket::{AT, PRESSURE, REPORT, socket_path};
