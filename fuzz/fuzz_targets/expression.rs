//! See `crates/fuzz/src/expression.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::expression::run(data));
