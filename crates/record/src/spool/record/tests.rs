//! Every record survives its encoding, and garbage is read to an end.

use super::*;
use proptest::prelude::*;

fn some_u64() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..300, any::<u64>(), Just(u64::MAX), 0x7f00_0000_0000_u64..0x7f00_0010_0000]
}

fn record() -> impl Strategy<Value = Record> {
    (0_u8..10, 0_u8..32, 0_u8..64, prop::array::uniform6(some_u64()), any::<u32>()).prop_map(
        |(kind, flags, align, v, stack)| {
            let kinds = [
                Kind::Alloc,
                Kind::Free,
                Kind::Realloc,
                Kind::UsableSizeRead,
                Kind::ThreadBegin,
                Kind::ThreadEnd,
                Kind::Node,
                Kind::Map,
                Kind::Unmap,
                Kind::Report,
            ];
            let kind = kinds[usize::from(kind)];
            let plain = Record { kind, flags, stamp: v[0], address: v[1], ..Record::default() };
            let align_log2 = if flags & ALIGNED != 0 { align } else { 0 };
            match kind {
                Kind::Alloc => Record { size: v[2], usable: v[3], stack, align_log2, ..plain },
                Kind::Realloc => Record {
                    size: v[2],
                    usable: v[3],
                    stack,
                    after: v[4],
                    old_address: v[5],
                    ..plain
                },
                Kind::ThreadBegin | Kind::ThreadEnd => Record { size: v[2], usable: v[3], ..plain },
                Kind::Node => Record { size: v[2], stack, flags: 0, ..plain },
                Kind::Map => Record { size: v[2], stack, ..plain },
                Kind::Unmap => Record { size: v[2], ..plain },
                Kind::Report => Record { stack, ..plain },
                _ => plain,
            }
        },
    )
}

/// Like real programs: nearly always short, and often just too long.
fn near() -> impl Strategy<Value = Record> {
    let stamp = prop_oneof![8 => 0_u64..200_000, 1 => any::<u64>()]
        .prop_map(|ticks| (1_u64 << 40).wrapping_add(ticks));
    let address = prop_oneof![8 => 0_u64..1 << 28, 1 => any::<u64>()]
        .prop_map(|bytes| 0x5600_0000_0000_u64.wrapping_add(bytes & !7));
    let size = prop_oneof![0_u64..0x1_0010, any::<u64>()];
    let stack = prop_oneof![0_u32..1 << 20, any::<u32>()];
    (stamp, address, size, stack, 0_u8..32, any::<bool>(), any::<bool>()).prop_map(
        |(stamp, address, size, stack, flags, free, usually)| {
            let plain = Record { stamp, address, flags, ..Record::default() };
            match free {
                true => Record { kind: Kind::Free, ..plain },
                false => Record {
                    size,
                    stack,
                    usable: if usually { usual(size) } else { size },
                    ..plain
                },
            }
        },
    )
}

/// Takes a given number of short records.
struct Taken {
    records: Vec<Record>,
    refused: usize,
}

impl TakeShort for Taken {
    type Error = std::convert::Infallible;

    fn alloc(&mut self, record: &Record) -> Result<bool, Self::Error> {
        assert_eq!((record.kind, record.flags & ALIGNED), (Kind::Alloc, 0));
        self.free(record)
    }

    fn free(&mut self, record: &Record) -> Result<bool, Self::Error> {
        let takes = self.records.len() != self.refused;
        self.records.extend(takes.then_some(*record));
        Ok(takes)
    }
}

#[test]
fn what_is_usual_is_short_up_to_the_bounds() {
    let written = |record: Record| {
        let mut encoder = Encoder::new(4096);
        encoder.begin(1000);
        encoder.push(&record);
        let mut padded = encoder.payload().to_vec();
        padded.resize(encoder.payload().len() + RECORD_BYTES_MAX, 0xAA);
        assert_eq!(Decoder::new(1000).next(&padded, encoder.payload().len()), Ok(Some(record)));
        (u32::from(padded[0] & 7), encoder.payload().len())
    };
    let free = Record {
        kind: Kind::Free,
        flags: 31,
        stamp: 1000 + 0xffff,
        address: 0x3ff_fff8,
        ..Record::default()
    };
    assert_eq!(written(free), (code::SHORT_FREE, SHORT_FREE_BYTES));
    for long in [
        Record { stamp: 1000 + 0x1_0000, ..free },
        Record { stamp: 999, ..free },
        Record { address: 0x400_0000, ..free },
    ] {
        assert_eq!(written(long).0, code::FREE, "{long:?}");
    }
    let (size, flags) = (0xffff, 31 & !ALIGNED);
    let alloc =
        Record { kind: Kind::Alloc, flags, size, usable: usual(size), stack: 0x7f_ffff, ..free };
    assert_eq!(written(alloc), (code::SHORT_ALLOC, SHORT_ALLOC_BYTES));
    let larger = Record { size: 0x1_0000, usable: usual(0x1_0000), ..alloc };
    let other = [
        Record { usable: 0, ..alloc },
        Record { stack: 0x80_0000, ..alloc },
        Record { flags: 31, align_log2: 6, ..alloc },
    ];
    for long in [larger, Record { stamp: 999, ..alloc }, Record { address: 0x400_0000, ..alloc }]
        .into_iter()
        .chain(other)
    {
        assert_eq!(written(long).0, code::ALLOC, "{long:?}");
    }
}

proptest! {
    #[test]
    fn every_record_survives(records in prop::collection::vec(record(), 1..200), base in any::<u64>(), name in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut encoder = Encoder::new(1 << 16);
        encoder.begin(base);
        for record in &records {
            prop_assert!(encoder.has_room());
            encoder.push(record);
        }
        encoder.push_mark(&Record { stamp: 9, ..Record::default() }, &name);
        encoder.push(&records[0]);
        let mut padded = encoder.payload().to_vec();
        let length = padded.len();
        padded.resize(length + RECORD_BYTES_MAX, 0xAA);
        let mut decoder = Decoder::new(base);
        for record in &records {
            prop_assert_eq!(decoder.next(&padded, length).unwrap(), Some(*record));
        }
        let mark = decoder.next(&padded, length).unwrap().unwrap();
        prop_assert_eq!((mark.kind, mark.stamp), (Kind::Mark, 9));
        let kept = &name[..name.len().min(MARK_BYTES_MAX)];
        prop_assert_eq!(&padded[mark.address as usize..][..mark.size as usize], kept);
        prop_assert_eq!(decoder.next(&padded, length).unwrap(), Some(records[0]));
        prop_assert_eq!(decoder.next(&padded, length).unwrap(), None);
    }

    #[test]
    fn who_takes_short_records_gets_what_the_decoder_has(records in prop::collection::vec(near(), 1..200), refused in 0_usize..250) {
        let mut encoder = Encoder::new(1 << 16);
        encoder.begin(1 << 40);
        records.iter().for_each(|record| encoder.push(record));
        let mut padded = encoder.payload().to_vec();
        let length = padded.len();
        padded.resize(length + RECORD_BYTES_MAX, 0xAA);
        let mut decoder = Decoder::new(1 << 40);
        let mut taken = Taken { records: Vec::new(), refused };
        loop {
            let Ok(()) = decoder.run_short(&padded, length, &mut taken);
            let Some(record) = decoder.next(&padded, length).unwrap() else { break };
            taken.records.push(record);
        }
        prop_assert_eq!(&taken.records, &records);
    }

    #[test]
    fn garbage_is_refused_or_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut padded = bytes.clone();
        padded.resize(bytes.len() + RECORD_BYTES_MAX, 0);
        let mut decoder = Decoder::new(0);
        let mut records = 0;
        while let Ok(Some(_)) = decoder.next(&padded, bytes.len()) {
            records += 1;
        }
        prop_assert!(records <= bytes.len());
    }
}
