//! See `crates/fuzz/src/snapshot_packed.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::snapshot_packed::run(data));
