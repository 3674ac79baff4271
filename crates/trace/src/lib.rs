//! The workload half of heaplab: what a program asked of its memory manager, in order.
//!
//! For anyone who reads or writes such a record: the recorder's finisher, importers of other tools'
//! files, analyses, replay. Nothing here knows a heap design, and nothing below [`bundle`] and
//! `program` does I/O: importers take bytes and give events.
//!
//! - [`event`]: one thing that happened. Row order is the truth; time is a column.
//! - [`tables`]: what events refer to: stacks, frames, modules, processes, threads, arenas, marks,
//!   samples.
//! - [`source`]: the streaming contract between whoever has events and whoever wants them.
//! - [`bundle`]: the folder `NAME.heaplab/` of Parquet tables and `meta.json`
//!   (docs/bundle-format.md).
//! - [`generate`]: workloads from a stated distribution.
//! - [`order`]: which orders of events a program can have produced.
//! - [`parquet`]: the part of that file format that bundles use.
//! - [`program`]: the compact replay program compiled from a bundle once and mapped.
//! - [`import`]: other tools' traces as events.
//! - [`words`]: counts in sentences.

pub mod bundle;
pub mod error;
pub mod event;
pub mod generate;
pub mod import;
pub mod order;
pub mod parquet;
pub mod program;
mod regular;
pub mod source;
pub mod tables;
pub mod words;

pub use error::TraceError;
pub use event::{
    BY_REACHABILITY, Event, FREED_BY_PROGRAM, Family, Flags, NO_STACK, NOTICED_AT_COLLECTION,
    ObjectId, Op, Origin, StackId,
};
pub use source::{EventSink, EventSource};
