//! Many workloads on many heaps, run by as many machines as there are.
//!
//! `replay` measures one table on one machine. A sweep is a [`Plan`](plan::Plan) in a file:
//! bundles, heaps with ranges of parameters, repetitions. It consists of [`Job`]s: the space of one
//! workload on all heaps, or one block of its times. Any machine may run any job. Each job writes
//! one file, whole, so resuming, sharing and merging are file operations. [`Report`] reads the
//! files of all machines, leaves out the blocks in which a machine was unsteady, and tells
//! differences of heaps from differences of machines.
//!
//! - [`plan`]: the file. [`mod@run`]: the jobs, and their files. [`node`]: the machine of a block.
//! - [`report`], [`text`], [`table`], [`plot`]: what came out, as a model, text, CSV and Parquet,
//!   and a picture.

mod error;
mod jobs;
pub mod node;
pub mod plan;
pub mod plot;
mod progress;
pub mod report;
pub mod run;
pub mod store;
pub mod table;
pub mod text;

pub use error::SweepError;
pub use jobs::{Job, Work};
pub use progress::Progress;
pub use report::Report;
pub use run::Sweep;
