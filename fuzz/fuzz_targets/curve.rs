//! See `crates/fuzz/src/curve.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::curve::run(data));
