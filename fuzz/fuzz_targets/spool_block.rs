//! The records of one block of a spool: any bytes.

#![no_main]

use heaplab_record::spool::record::{Decoder, RECORD_BYTES_MAX};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut padded = data.to_vec();
    padded.resize(data.len() + RECORD_BYTES_MAX, 0);
    let mut decoder = Decoder::new(1);
    let mut records = 0;
    while let Ok(Some(_)) = decoder.next(&padded, data.len()) {
        records += 1;
        assert!(records <= data.len(), "a record takes a byte or more");
    }
});
