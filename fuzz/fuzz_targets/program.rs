//! Compiled replay programs: any bytes.

#![no_main]

use heaplab_trace::program::Program;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    if let Ok(program) = Program::from_bytes(data, Path::new("fuzzed")) {
        let _ = program.steps().take(1 << 20).try_for_each(|step| step.map(drop));
    }
});
