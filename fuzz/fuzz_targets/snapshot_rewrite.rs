//! See `crates/fuzz/src/snapshot_rewrite.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::snapshot_rewrite::run(data));
