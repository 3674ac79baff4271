//! The real OCaml 4 runtime as a heap that any workload can run on.
//!
//! For whoever wants to see heaplab's OCaml heap beside the original: the workload is written for a
//! small OCaml program (`driver/`), which runs it in the runtime that is installed and says what
//! the runtime's counters say; the runtime's own messages (`OCAMLRUNPARAM=v=...`) say what each
//! slice of the collector did.
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
