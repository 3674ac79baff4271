//! See `crates/fuzz/src/sweep.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::sweep::run(data));
