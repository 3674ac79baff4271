//! See `crates/fuzz/src/import.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::import::run(data));
