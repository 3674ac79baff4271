#![no_main]
//! `events.spool`: any bytes.

use heaplab_record::spool::reader::Index;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let index = Index::read(data).expect("memory does not fail");
    assert!(index.sound_bytes <= data.len() as u64);
});
