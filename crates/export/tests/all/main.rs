//! Exports of one small workload with known numbers, and of random ones: their sums, and the
//! results of the tools that read the formats.

mod heap_at_moment;
mod heap_snapshot;
mod metaspace;
mod sums;
mod tools;
mod viewers;
mod walked_heap;
mod workload;
