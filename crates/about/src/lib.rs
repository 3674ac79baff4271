//! What a program's memory reporters say, as about:memory shows it.
//!
//! A reading is asked of a running program ([`ask`]) or read from a file that Firefox or heaplab
//! saved ([`Saved`]). Two give a difference ([`difference::between`]), several a range. [`Model`]
//! adds up equal paths, computes `heap-unclassified` against the allocator's own total, and says in
//! words what cannot be true. [`text`] and [`page`] show the model; it serializes as JSON.
//!
//! ```
//! use heaplab_about::{Model, Saved};
//! let file = br#"{"version":1,"hasMozMallocUsableSize":true,"reports":[
//!   {"process":"app (pid 7)","path":"explicit/cache","kind":1,"units":0,"amount":600,"description":"Pages."},
//!   {"process":"app (pid 7)","path":"heap-allocated","kind":2,"units":0,"amount":1000,"description":"All."}]}"#;
//! let model = Model::of(&Saved::read(file)?);
//! assert_eq!(model.processes[0].explicit.as_ref().unwrap().child("heap-unclassified").unwrap().amount, 400);
//! # Ok::<(), heaplab_about::AboutError>(())
//! ```

pub mod ask;
pub mod difference;
mod error;
mod model;
pub mod page;
mod saved;
mod steady;
mod subject;
pub mod text;
mod tree;
mod watch;

pub use error::AboutError;
pub use model::{Model, Process};
pub use saved::{Mark, Report, Saved};
pub use subject::{Served, Subject};
pub use tree::Node;
pub use watch::Watch;
