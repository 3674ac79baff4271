//! The body of each fuzz target: one module a target, whose `run` panics where a reader breaks a
//! promise. The targets (`fuzz/fuzz_targets`) only call the bodies. So `tests/corpora.rs` can run
//! every kept input in the workspace's own build, on a stable toolchain and without a fuzzer.

pub mod chunks;
mod common;
pub mod curve;
pub mod dmd;
pub mod elastic;
pub mod events;
pub mod expression;
pub mod import;
pub mod jvm_log;
pub mod metaspace;
pub mod ocaml;
pub mod old_metaspace_log;
mod operations;
pub mod program;
pub mod snapshot;
pub mod snapshot_header;
pub mod snapshot_lists;
pub mod snapshot_packed;
pub mod snapshot_rewrite;
pub mod spool;
pub mod spool_block;
pub mod sweep;
pub mod symbols;
pub mod table;
pub mod v8;
