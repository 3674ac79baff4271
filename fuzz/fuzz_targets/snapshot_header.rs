//! See `crates/fuzz/src/snapshot_header.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::snapshot_header::run(data));
