//! See `crates/fuzz/src/jvm_log.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::jvm_log::run(data));
