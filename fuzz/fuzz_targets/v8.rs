//! See `crates/fuzz/src/v8.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::v8::run(data));
