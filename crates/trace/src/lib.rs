//! The workload half of heaplab: a program's requests to its memory manager, in order.
//!
//! Serves all readers and writers of such a record: the recorder's finisher, importers of other
//! tools' files, analyses, replay. Nothing here knows a heap design, and nothing below [`bundle`]
//! and `program` does I/O: importers take bytes and give events.
//!
//! - [`event`]: one event. Row order is the truth; time is a column.
//! - [`tables`]: the tables that events refer to: stacks, frames, modules, processes, threads,
//!   arenas, marks, samples.
//! - [`source`]: the streaming contract between producers and consumers of events.
//! - [`bundle`]: the folder `NAME.heaplab/` of Parquet tables and `meta.json`
//!   (docs/bundle-format.md).
//! - [`generate`]: workloads from a stated distribution.
//! - [`order`]: the orders of events that a program can produce.
//! - [`successors`]: which blocks take the place of smaller ones, as buffers grown by hand do.
//! - [`parquet`]: the part of the Parquet format that bundles use.
//! - [`program`]: the compact replay program, compiled once from a bundle and mapped.
//! - [`checksums`]: whether wrong ones are errors.
//! - [`import`]: other tools' traces as events.

pub mod arena_members;
pub mod bundle;
pub mod checksums;
pub mod error;
pub mod event;
pub mod generate;
pub mod import;
pub mod order;
pub mod parquet;
pub mod program;
mod regular;
pub mod source;
pub mod successors;
pub mod tables;

pub use error::TraceError;
pub use event::{
    BY_REACHABILITY, Event, FREED_BY_PROGRAM, Family, Flags, NO_STACK, NOTICED_AT_COLLECTION,
    ObjectId, Op, Origin, REPORTERS_ANSWERED, REPORTERS_ASKED, StackId,
};
pub use source::{EventSink, EventSource};
