//! See `crates/fuzz/src/ocaml.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| heaplab_fuzz::ocaml::run(data));
