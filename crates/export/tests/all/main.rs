//! Exports of one small workload, whose numbers are known, and of random ones: their sums, and what
//! the tools that read the formats make of them.

mod heap_snapshot;
mod metaspace;
mod standing;
mod sums;
mod tools;
mod viewers;
mod workload;
