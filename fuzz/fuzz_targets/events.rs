#![no_main]
//! `events.parquet`: any bytes.

mod common;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| common::read_with("events.parquet", data));
