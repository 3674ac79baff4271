//! See `crates/fuzz/src/spool.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::spool::run(data));
