//! See `crates/fuzz/src/snapshot.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::snapshot::run(data));
