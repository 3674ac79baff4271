//! One ring record as the spool keeps it, and its encoding (docs/spool-format.md, "Records").
//!
//! A record is a tag byte, then a nibble of length for each of its fields, then each field's low bytes. Lengths instead of
//! continuation bits, because eight bytes can then be stored or loaded at once whatever the value is: about 5 ns a record
//! where LEB128 costs three times that. Stamps, addresses and stacks are differences from the record before in the same
//! block; a block stands alone.

use super::block::BlockDamage;

/// What a record is about; the low three bits of the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Kind {
    /// A block was handed out: `address`, `size`, `usable`, `stack`, `align_log2` where one was asked for.
    #[default]
    Alloc = 0,
    /// `address` was given back.
    Free = 1,
    /// `old_address` became `address`.
    Realloc = 2,
    /// The program asked for the usable size of `address`.
    UsableSizeRead = 3,
    /// From here on the ring is written by the thread `address` (its tid), whose name is in `size` and `usable`.
    ThreadBegin = 4,
    /// The thread `address` left the ring; fields as of [`Kind::ThreadBegin`].
    ThreadEnd = 5,
    /// A named moment: the name has `size` bytes and begins `address` bytes into the payload.
    Mark = 6,
    /// From here on in this ring, node `stack` is return address `address`, called from node `size`.
    Node = 7,
}

/// The block was asked for zeroed.
pub const ZEROED: u8 = 1;
/// The request failed.
pub const FAILED: u8 = 2;
/// An alignment was asked for: `align_log2`.
pub const ALIGNED: u8 = 4;
/// Where the family lies in the flags (two bits): malloc, aligned, operator new, as in the trace.
pub const FAMILY_SHIFT: u32 = 3;

/// One record of a ring. Fields that the kind does not use are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Record {
    /// What it is about.
    pub kind: Kind,
    /// [`ZEROED`], [`FAILED`], [`ALIGNED`], and the family from [`FAMILY_SHIFT`] on.
    pub flags: u8,
    /// log2 of the alignment asked for, below 64.
    pub align_log2: u8,
    /// Clock ticks: before the call for a free and a realloc, after it for an allocation.
    pub stamp: u64,
    /// Realloc: ticks after the call, not before `stamp`.
    pub after: u64,
    /// See [`Kind`].
    pub address: u64,
    /// Realloc: where the block was.
    pub old_address: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Bytes that may be used; 0: not measured.
    pub usable: u64,
    /// The process's stack node; 0: none.
    pub stack: u32,
}

/// Most bytes a record may take, the eight bytes of slack that every store and load wants included.
pub const RECORD_BYTES_MAX: usize = 1 + 4 + 8 * 8 + 8 + MARK_BYTES_MAX;
/// Longest name of a mark.
pub const MARK_BYTES_MAX: usize = 256;

#[inline]
fn zigzag(difference: u64) -> u64 {
    difference << 1 ^ ((difference as i64) >> 63) as u64
}

#[inline]
fn unzigzag(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

/// What the next record is a difference from.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    stamp: u64,
    address: u64,
    stack: u32,
    /// Return address of the last node.
    ip: u64,
}

/// Writes records into one block's payload.
#[derive(Debug)]
pub struct Encoder {
    bytes: Box<[u8]>,
    length: usize,
    records: u32,
    before: Before,
}

impl Encoder {
    /// For payloads of up to `capacity` bytes.
    pub fn new(capacity: usize) -> Encoder {
        Encoder { bytes: vec![0; capacity.max(RECORD_BYTES_MAX)].into(), length: 0, records: 0, before: Before::default() }
    }

    /// Begins a block whose stamps are differences from `base`.
    pub fn begin(&mut self, base: u64) {
        (self.length, self.records, self.before) = (0, 0, Before { stamp: base, ..Before::default() });
    }

    /// Whether one more record fits.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.bytes.len() - self.length >= RECORD_BYTES_MAX
    }

    /// How many records there are.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// The payload so far.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Adds a record. There is room.
    #[inline]
    pub fn push(&mut self, record: &Record) {
        let before = self.before;
        let tag = record.kind as u8 | record.flags << 3;
        let stamp = zigzag(record.stamp.wrapping_sub(before.stamp));
        let address = zigzag(record.address.wrapping_sub(before.address));
        match record.kind {
            Kind::Alloc => {
                let stack = zigzag(u64::from(record.stack).wrapping_sub(u64::from(before.stack)));
                self.put(tag, [stamp, address, record.size, zigzag(record.usable.wrapping_sub(record.size)), stack, 0]);
                if record.flags & ALIGNED != 0 {
                    self.bytes[self.length] = record.align_log2;
                    self.length += 1;
                }
                self.before.stack = record.stack;
            }
            Kind::Realloc => {
                let old = zigzag(record.old_address.wrapping_sub(before.address));
                let moved = zigzag(record.address.wrapping_sub(record.old_address));
                let stack = zigzag(u64::from(record.stack).wrapping_sub(u64::from(before.stack)));
                let usable = zigzag(record.usable.wrapping_sub(record.size));
                self.put(tag, [stamp, record.after.wrapping_sub(record.stamp), old, moved, record.size, usable, stack, 0]);
                self.before.stack = record.stack;
            }
            Kind::ThreadBegin | Kind::ThreadEnd => self.put(tag, [stamp, record.address, record.size, record.usable]),
            Kind::Free | Kind::UsableSizeRead => self.put(tag, [stamp, address]),
            Kind::Mark => self.put(tag, [stamp, record.size]),
            Kind::Node => {
                let ip = zigzag(record.address.wrapping_sub(before.ip));
                self.put(tag, [stamp, ip, u64::from(record.stack), record.size]);
                self.before.ip = record.address;
            }
        }
        self.before.stamp = record.stamp;
        if matches!(record.kind, Kind::Alloc | Kind::Free | Kind::Realloc) {
            self.before.address = record.address;
        }
        self.records += 1;
    }

    /// Adds a mark: `record` as [`Kind::Mark`] with `name`, cut at [`MARK_BYTES_MAX`]. There is room.
    pub fn push_mark(&mut self, record: &Record, name: &[u8]) {
        let name = &name[..name.len().min(MARK_BYTES_MAX)];
        self.push(&Record { kind: Kind::Mark, size: name.len() as u64, ..*record });
        self.bytes[self.length..self.length + name.len()].copy_from_slice(name);
        self.length += name.len();
    }

    /// Tag, length nibbles, fields. `N` is even; an unused last field is 0 and takes no bytes.
    #[inline]
    fn put<const N: usize>(&mut self, tag: u8, fields: [u64; N]) {
        let room = &mut self.bytes[self.length..self.length + RECORD_BYTES_MAX];
        room[0] = tag;
        let mut at = 1 + N / 2;
        let mut lengths = 0_u64;
        for (index, field) in fields.into_iter().enumerate() {
            let length = (64 - field.leading_zeros() as usize).div_ceil(8);
            lengths |= (length as u64) << (4 * index);
            room[at..at + 8].copy_from_slice(&field.to_le_bytes());
            at += length;
        }
        room[1..1 + N / 2].copy_from_slice(&lengths.to_le_bytes()[..N / 2]);
        self.length += at;
    }
}

/// Reads the records of one block's payload, which is followed by [`RECORD_BYTES_MAX`] bytes of anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder {
    at: usize,
    before: Before,
}

impl Decoder {
    /// For a block whose stamps are differences from `base`.
    pub fn new(base: u64) -> Decoder {
        Decoder { at: 0, before: Before { stamp: base, ..Before::default() } }
    }

    /// The next record of the payload `padded[..length]`; `None` at its end.
    #[inline]
    pub fn next(&mut self, padded: &[u8], length: usize) -> Result<Option<Record>, BlockDamage> {
        if self.at >= length {
            return Ok(None);
        }
        let tag = *padded.get(self.at).ok_or(BlockDamage::Record)?;
        let before = self.before;
        let mut record = Record { flags: tag >> 3, ..Record::default() };
        let plus = |base: u64, value: u64| base.wrapping_add(unzigzag(value));
        let stack = |value: u64| plus(u64::from(before.stack), value) as u32;
        match tag & 7 {
            0 => {
                let [stamp, address, size, slack, node, _] = self.take(padded)?;
                record.kind = Kind::Alloc;
                (record.stamp, record.address, record.size) = (plus(before.stamp, stamp), plus(before.address, address), size);
                (record.usable, record.stack) = (plus(size, slack), stack(node));
                if record.flags & ALIGNED != 0 {
                    record.align_log2 = padded.get(self.at).copied().filter(|log2| *log2 < 64).ok_or(BlockDamage::Record)?;
                    self.at += 1;
                }
                self.before.stack = record.stack;
            }
            2 => {
                let [stamp, took, old, moved, size, slack, node, _] = self.take(padded)?;
                record.kind = Kind::Realloc;
                record.stamp = plus(before.stamp, stamp);
                record.after = record.stamp.wrapping_add(took);
                record.old_address = plus(before.address, old);
                record.address = plus(record.old_address, moved);
                (record.size, record.usable, record.stack) = (size, plus(size, slack), stack(node));
                self.before.stack = record.stack;
            }
            kind @ (1 | 3) => {
                let [stamp, address] = self.take(padded)?;
                record.kind = if kind == 1 { Kind::Free } else { Kind::UsableSizeRead };
                (record.stamp, record.address) = (plus(before.stamp, stamp), plus(before.address, address));
            }
            kind @ (4 | 5) => {
                let [stamp, tid, name0, name1] = self.take(padded)?;
                record.kind = if kind == 4 { Kind::ThreadBegin } else { Kind::ThreadEnd };
                (record.stamp, record.address, record.size, record.usable) = (plus(before.stamp, stamp), tid, name0, name1);
            }
            6 => {
                let [stamp, bytes] = self.take(padded)?;
                record.kind = Kind::Mark;
                (record.stamp, record.size, record.address) = (plus(before.stamp, stamp), bytes, self.at as u64);
                self.at += usize::try_from(bytes).ok().filter(|bytes| *bytes <= MARK_BYTES_MAX).ok_or(BlockDamage::Record)?;
            }
            _ => {
                let [stamp, ip, node, parent] = self.take(padded)?;
                record.kind = Kind::Node;
                (record.stamp, record.address, record.size) = (plus(before.stamp, stamp), plus(before.ip, ip), parent);
                record.stack = u32::try_from(node).map_err(|_| BlockDamage::Record)?;
                self.before.ip = record.address;
            }
        }
        if self.at > length {
            return Err(BlockDamage::Record);
        }
        self.before.stamp = record.stamp;
        if matches!(record.kind, Kind::Alloc | Kind::Free | Kind::Realloc) {
            self.before.address = record.address;
        }
        Ok(Some(record))
    }

    #[inline]
    fn take<const N: usize>(&mut self, padded: &[u8]) -> Result<[u64; N], BlockDamage> {
        let room = padded.get(self.at..self.at + RECORD_BYTES_MAX).ok_or(BlockDamage::Record)?;
        let mut lengths = [0; 8];
        lengths[..N / 2].copy_from_slice(&room[1..1 + N / 2]);
        let lengths = u64::from_le_bytes(lengths);
        let mut at = 1 + N / 2;
        let mut fields = [0; N];
        for (index, field) in fields.iter_mut().enumerate() {
            let length = (lengths >> (4 * index) & 15) as usize;
            if length > 8 {
                return Err(BlockDamage::Record);
            }
            let bytes = room.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).ok_or(BlockDamage::Record)?;
            *field = u64::from_le_bytes(bytes) & MASKS[length];
            at += length;
        }
        self.at += at;
        Ok(fields)
    }
}

const MASKS: [u64; 9] =
    [0, 0xFF, 0xFFFF, 0xFF_FFFF, 0xFFFF_FFFF, 0xFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF, 0xFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some_u64() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..300, any::<u64>(), Just(u64::MAX), 0x7f00_0000_0000_u64..0x7f00_0010_0000]
    }

    fn record() -> impl Strategy<Value = Record> {
        (0_u8..7, 0_u8..32, 0_u8..64, prop::array::uniform6(some_u64()), any::<u32>()).prop_map(|(kind, flags, align, v, stack)| {
            let kinds = [Kind::Alloc, Kind::Free, Kind::Realloc, Kind::UsableSizeRead, Kind::ThreadBegin, Kind::ThreadEnd, Kind::Node];
            let kind = kinds[usize::from(kind)];
            let plain = Record { kind, flags, stamp: v[0], address: v[1], ..Record::default() };
            let align_log2 = if flags & ALIGNED != 0 { align } else { 0 };
            match kind {
                Kind::Alloc => Record { size: v[2], usable: v[3], stack, align_log2, ..plain },
                Kind::Realloc => Record { size: v[2], usable: v[3], stack, after: v[4], old_address: v[5], ..plain },
                Kind::ThreadBegin | Kind::ThreadEnd => Record { size: v[2], usable: v[3], ..plain },
                Kind::Node => Record { size: v[2], stack, ..plain },
                _ => plain,
            }
        })
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
}
