//! The other files of a bundle: any bytes.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;

const FILES: [&str; 9] = [
    "stacks.parquet",
    "frames.parquet",
    "modules.parquet",
    "processes.parquet",
    "threads.parquet",
    "arenas.parquet",
    "marks.parquet",
    "samples.parquet",
    "meta.json",
];

fuzz_target!(|data: &[u8]| {
    if let Some((choice, bytes)) = data.split_first() {
        common::read_with(FILES[usize::from(*choice) % FILES.len()], bytes);
    }
});
