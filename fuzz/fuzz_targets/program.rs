//! See `crates/fuzz/src/program.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::program::run(data));
