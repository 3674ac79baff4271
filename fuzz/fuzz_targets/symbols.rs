//! See `crates/fuzz/src/symbols.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::symbols::run(data));
