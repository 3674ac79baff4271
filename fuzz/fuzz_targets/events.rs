//! `events.parquet`: any bytes.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| common::read_with("events.parquet", data));
