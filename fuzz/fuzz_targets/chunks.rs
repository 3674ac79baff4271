//! See `crates/fuzz/src/chunks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::chunks::run(data));
