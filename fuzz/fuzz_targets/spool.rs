//! `events.spool`: any bytes.

#![no_main]

use heaplab_record::spool::reader::Index;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let index = Index::read(data).expect("memory does not fail");
    assert!(index.sound_bytes <= data.len() as u64);
});
