//! See `crates/fuzz/src/table.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::table::run(data));
