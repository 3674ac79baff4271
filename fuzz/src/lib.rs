//! What each fuzz target does with its bytes: one module a target, whose `run` panics where a
//! reader is not what it promises. The targets themselves (`fuzz_targets`) only call it, so that
//! `tests/corpora.rs` can do the same with every input that was kept, on a stable toolchain and
//! without a fuzzer.
//!
//! `--cfg fuzzing` is needed, as cargo-fuzz sets it: checksums are not compared then, and the model
//! of elastic arenas is there.

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
