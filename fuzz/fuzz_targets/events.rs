//! See `crates/fuzz/src/events.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::events::run(data));
