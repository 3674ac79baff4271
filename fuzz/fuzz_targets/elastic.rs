//! See `crates/fuzz/src/elastic.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::elastic::run(data));
