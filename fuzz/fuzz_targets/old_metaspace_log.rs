//! See `crates/fuzz/src/old_metaspace_log.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::old_metaspace_log::run(data));
