//! See `crates/fuzz/src/metaspace.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::metaspace::run(data));
