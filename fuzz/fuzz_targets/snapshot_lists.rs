//! See `crates/fuzz/src/snapshot_lists.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::snapshot_lists::run(data));
