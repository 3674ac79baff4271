//! See `crates/fuzz/src/dmd.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::dmd::run(data));
