//! The records of one block of a spool: any bytes. What can be read is written again, and then says
//! the same.

use heaplab_record::spool::record::{Decoder, Encoder, Kind, RECORD_BYTES_MAX};

/// One input.
pub fn run(data: &[u8]) {
    let padded = padded(data);
    let mut decoder = Decoder::new(1);
    let mut records = Vec::new();
    while let Ok(Some(record)) = decoder.next(&padded, data.len()) {
        records.push(record);
        assert!(records.len() <= data.len(), "a record takes a byte or more");
    }
    let mut encoder = Encoder::new((records.len() + 1) * RECORD_BYTES_MAX);
    encoder.begin(1);
    for record in &records {
        if record.kind == Kind::Mark {
            encoder.push_mark(record, &padded[record.address as usize..][..record.size as usize]);
        } else {
            encoder.push(record);
        }
    }
    let again = self::padded(encoder.payload());
    let mut decoder = Decoder::new(1);
    for record in &records {
        let mut found = decoder
            .next(&again, encoder.payload().len())
            .expect("it was just written")
            .expect("as many records");
        if record.kind == Kind::Mark {
            assert_eq!(
                again[found.address as usize..][..found.size as usize],
                padded[record.address as usize..][..record.size as usize]
            );
            found.address = record.address;
        }
        assert_eq!(found, *record);
    }
    assert_eq!(decoder.next(&again, encoder.payload().len()), Ok(None));
}

/// Followed by what a decoder may look at.
fn padded(payload: &[u8]) -> Vec<u8> {
    let mut padded = payload.to_vec();
    padded.resize(payload.len() + RECORD_BYTES_MAX, 0);
    padded
}
