//! Heap snapshots (`.heapsnapshot`): write, read, check, analyse and compare. No I/O here: bytes in, bytes out.

pub mod generate;
pub mod names;
pub mod write;
