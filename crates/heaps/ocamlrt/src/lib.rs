//! The real OCaml 4 runtime as a heap that any workload can run on.
//!
//! For a comparison of heaplab's OCaml heap with the original. A small OCaml program (`driver/`)
//! runs the workload in the installed runtime and reports the runtime's counters. The runtime's own
//! messages (`OCAMLRUNPARAM=v=...`) report each slice of the collector.
//!
//! - [`build`]: the program is compiled once with `ocamlopt` and kept in the user's cache folder.
//! - [`run`]: a run, from an iterator of steps to counters and slices.
//! - [`messages`]: the runtime's messages as slices.
//!
//! ```no_run
//! use heaplab_ocaml::spec::Spec;
//! use heaplab_ocamlrt::{Driver, Step};
//! let driver = Driver::build()?;
//! let steps = (0..1000).map(|nth| Step::Birth { slot: nth % 7, size: 48 });
//! let run = driver.run(&Spec::parse("best-fit,o=80").unwrap(), 7, steps, true)?;
//! println!("{} minor collections, {} slices", run.end.counters.minor_collections, run.slices.len());
//! # Ok::<(), heaplab_ocamlrt::OCamlError>(())
//! ```

pub mod build;
pub mod error;
mod family;
pub mod messages;
pub mod run;

pub use build::Driver;
pub use error::OCamlError;
pub use family::{Runtime, Runtimes};
pub use messages::{Message, Slice};
pub use run::{Report, Run, Step};
