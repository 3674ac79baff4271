//! See `crates/fuzz/src/spool_block.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::spool_block::run(data));
