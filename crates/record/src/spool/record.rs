//! One ring record as the spool keeps it, and its encoding (docs/spool-format.md, "Records").
//!
//! A record is a head of one to three bytes, which says what it is and how many bytes each of its fields has (see [`super::widths`]), then
//! the fields. Lengths in the head instead of continuation bits, because eight bytes can then be stored or loaded at once whatever the
//! value is. Stamps, addresses and stacks are differences from the record before in the same block; a block stands alone. What is
//! usual costs nothing: a usable size is a difference from what glibc would have, a caller from the node before it.

use super::block::BlockDamage;
use super::widths::{Put, ROOM, Take, Widths};

/// What a record is about; the low three bits of its head.
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

/// Most bytes a record may take, with what every store and load wants behind it.
pub const RECORD_BYTES_MAX: usize = ROOM + MARK_BYTES_MAX;
/// Longest name of a mark.
pub const MARK_BYTES_MAX: usize = 256;

const STAMP: Widths = Widths::new([1, 2, 3, 8]);
const ADDRESS: Widths = Widths::new([1, 2, 3, 8]);
const MOVED: Widths = Widths::new([0, 2, 3, 8]);
const SIZE: Widths = Widths::new([1, 2, 4, 8]);
const USABLE: Widths = Widths::new([0, 1, 2, 8]);
const STACK: Widths = Widths::new([0, 1, 2, 4]);
const TOOK: Widths = Widths::new([1, 2, 3, 8]);
const IP: Widths = Widths::new([2, 3, 6, 8]);
const NODE: Widths = Widths::new([1, 2, 3, 4]);
const PARENT: Widths = Widths::new([0, 1, 2, 8]);

/// A byte of flags follows the head.
const MORE: u32 = 8;

#[inline(always)]
fn zigzag(difference: u64) -> u64 {
    difference << 1 ^ ((difference as i64) >> 63) as u64
}

#[inline(always)]
fn unzigzag(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

/// Blocks lie 8 bytes apart at least, nearly always: those bits go where differences of equal ones vanish.
#[inline(always)]
fn turned(address: u64) -> u64 {
    address.rotate_right(3)
}

/// What glibc has for `size` bytes, so that nothing need be said where that is so; elsewhere it is as good a guess as any.
#[inline(always)]
fn usual(size: u64) -> u64 {
    (size.wrapping_add(23) & !15).max(32).wrapping_sub(8)
}

/// What the next record is a difference from.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    stamp: u64,
    /// As [`turned`].
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

    /// Whether a record more fits.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.length + RECORD_BYTES_MAX <= self.bytes.len()
    }

    /// Records so far.
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
        match record.kind {
            Kind::Alloc => self.alloc(record),
            Kind::Free | Kind::UsableSizeRead => self.free(record.kind, record.flags, record.stamp, record.address),
            Kind::Realloc => self.realloc(record),
            Kind::Node => self.node(record.stamp, record.address, record.stack, record.size),
            Kind::ThreadBegin | Kind::ThreadEnd => self.whole(record, [record.address, record.size, record.usable]),
            Kind::Mark => self.whole(record, [record.size]),
        }
    }

    /// Adds a mark: `record` as [`Kind::Mark`] with `name`, cut at [`MARK_BYTES_MAX`]. There is room.
    pub fn push_mark(&mut self, record: &Record, name: &[u8]) {
        let name = &name[..name.len().min(MARK_BYTES_MAX)];
        self.push(&Record { kind: Kind::Mark, size: name.len() as u64, ..*record });
        self.bytes[self.length..self.length + name.len()].copy_from_slice(name);
        self.length += name.len();
    }

    /// Adds a [`Kind::Free`] or [`Kind::UsableSizeRead`]. There is room.
    #[inline(always)]
    pub fn free(&mut self, kind: Kind, flags: u8, stamp: u64, address: u64) {
        let stamp_difference = self.stamp(stamp);
        let address_difference = zigzag(turned(address).wrapping_sub(self.before.address));
        if kind == Kind::Free {
            self.before.address = turned(address);
        }
        let mut head = kind as u32;
        let mut put = self.room::<1>();
        if flags != 0 {
            head |= MORE;
            put.whole(flags.into(), 1);
        }
        head |= put.field(stamp_difference, &STAMP) << 4;
        head |= put.field(address_difference, &ADDRESS) << 6;
        put.head::<1>(head);
        let bytes = put.at;
        self.end(bytes);
    }

    #[inline(always)]
    fn alloc(&mut self, record: &Record) {
        let stamp = self.stamp(record.stamp);
        let address = turned(record.address);
        let address_difference = zigzag(address.wrapping_sub(self.before.address));
        let stack = self.stack(record.stack);
        self.before.address = address;
        let mut head = Kind::Alloc as u32;
        let mut put = self.room::<2>();
        if record.flags != 0 {
            head |= MORE;
            put.whole(u64::from(record.flags) | u64::from(record.align_log2) << 8, 1 + usize::from(record.flags & ALIGNED != 0));
        }
        head |= put.field(stamp, &STAMP) << 4;
        head |= put.field(address_difference, &ADDRESS) << 6;
        head |= put.field(record.size, &SIZE) << 8;
        head |= put.field(zigzag(record.usable.wrapping_sub(usual(record.size))), &USABLE) << 10;
        head |= put.field(stack, &STACK) << 12;
        put.head::<2>(head);
        let bytes = put.at;
        self.end(bytes);
    }

    #[inline]
    fn realloc(&mut self, record: &Record) {
        let stamp = self.stamp(record.stamp);
        let (old, new) = (turned(record.old_address), turned(record.address));
        let old_difference = zigzag(old.wrapping_sub(self.before.address));
        let stack = self.stack(record.stack);
        self.before.address = new;
        let mut head = Kind::Realloc as u32;
        let mut put = self.room::<3>();
        if record.flags != 0 {
            head |= MORE;
            put.whole(record.flags.into(), 1);
        }
        head |= put.field(stamp, &STAMP) << 4;
        head |= put.field(old_difference, &ADDRESS) << 6;
        head |= put.field(record.size, &SIZE) << 8;
        head |= put.field(zigzag(record.usable.wrapping_sub(usual(record.size))), &USABLE) << 10;
        head |= put.field(stack, &STACK) << 12;
        head |= put.field(zigzag(new.wrapping_sub(old)), &MOVED) << 14;
        head |= put.field(record.after.wrapping_sub(record.stamp), &TOOK) << 16;
        put.head::<3>(head);
        let bytes = put.at;
        self.end(bytes);
    }

    /// Adds a [`Kind::Node`]. There is room.
    #[inline(always)]
    pub fn node(&mut self, stamp: u64, ip: u64, node: u32, parent: u64) {
        let stamp = self.stamp(stamp);
        let ip_difference = zigzag(ip.wrapping_sub(self.before.ip));
        self.before.ip = ip;
        let mut head = Kind::Node as u32;
        let mut put = self.room::<2>();
        head |= put.field(stamp, &STAMP) << 4;
        head |= put.field(ip_difference, &IP) << 6;
        head |= put.field(node.into(), &NODE) << 8;
        head |= put.field(zigzag(parent.wrapping_sub(node.into())), &PARENT) << 10;
        put.head::<2>(head);
        let bytes = put.at;
        self.end(bytes);
    }

    /// Adds a record that is rare: its fields have all their bytes.
    fn whole<const N: usize>(&mut self, record: &Record, fields: [u64; N]) {
        let stamp = self.stamp(record.stamp);
        let mut put = self.room::<2>();
        put.head::<2>(record.kind as u32 | u32::from(record.flags) << 8);
        put.whole(stamp, 8);
        for field in fields {
            put.whole(field, 8);
        }
        let bytes = put.at;
        self.end(bytes);
    }

    #[inline(always)]
    fn stamp(&mut self, stamp: u64) -> u64 {
        zigzag(stamp.wrapping_sub(std::mem::replace(&mut self.before.stamp, stamp)))
    }

    #[inline(always)]
    fn stack(&mut self, stack: u32) -> u64 {
        let difference = stack.wrapping_sub(std::mem::replace(&mut self.before.stack, stack));
        u64::from(difference << 1 ^ ((difference as i32) >> 31) as u32)
    }

    /// Where the next record goes, behind its head of `HEAD` bytes.
    #[inline(always)]
    fn room<const HEAD: usize>(&mut self) -> Put<'_> {
        let Some(room) = self.bytes[self.length..].first_chunk_mut() else { unreachable!("callers ask `has_room` first") };
        Put::new(room, HEAD)
    }

    #[inline(always)]
    fn end(&mut self, bytes: usize) {
        self.length += bytes;
        self.records += 1;
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
    pub fn next(&mut self, padded: &[u8], length: usize) -> Result<Option<Record>, BlockDamage> {
        let mut record = Record::default();
        Ok(self.next_into(padded, length, &mut record)?.then_some(record))
    }

    /// The same into `record`; whether there was one.
    #[inline]
    pub fn next_into(&mut self, padded: &[u8], length: usize, record: &mut Record) -> Result<bool, BlockDamage> {
        if self.at >= length {
            return Ok(false);
        }
        let room = padded.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(BlockDamage::Record)?;
        let head = u32::from_le_bytes([room[0], room[1], room[2], 0]);
        let used = match head & 7 {
            0 => self.alloc(room, head, record),
            1 => self.free(room, head, Kind::Free, record),
            2 => self.realloc(room, head, record),
            3 => self.free(room, head, Kind::UsableSizeRead, record),
            7 => self.node(room, head, record),
            rare => self.rare(room, rare, record)?,
        };
        self.at += used;
        if self.at > length || record.align_log2 > 63 {
            return Err(BlockDamage::Record);
        }
        self.before.stamp = record.stamp;
        Ok(true)
    }

    #[inline(always)]
    fn stamp(&self, field: u64) -> u64 {
        self.before.stamp.wrapping_add(unzigzag(field))
    }

    #[inline(always)]
    fn stack(&mut self, field: u64) -> u32 {
        let field = field as u32;
        self.before.stack = self.before.stack.wrapping_add(field >> 1 ^ (field & 1).wrapping_neg());
        self.before.stack
    }

    #[inline(always)]
    fn free(&mut self, room: &[u8; ROOM], head: u32, kind: Kind, record: &mut Record) -> usize {
        let more = usize::from(head & MORE != 0);
        let flags = if more == 1 { room[1] } else { 0 };
        let mut take = Take::new(room, 1 + more);
        let stamp = self.stamp(take.field(head >> 4, &STAMP));
        let address = self.before.address.wrapping_add(unzigzag(take.field(head >> 6, &ADDRESS)));
        if kind == Kind::Free {
            self.before.address = address;
        }
        *record = Record { kind, flags, stamp, address: address.rotate_left(3), ..Record::default() };
        take.at
    }

    #[inline(always)]
    fn alloc(&mut self, room: &[u8; ROOM], head: u32, record: &mut Record) -> usize {
        let more = usize::from(head & MORE != 0);
        let flags = if more == 1 { room[2] } else { 0 };
        let aligned = usize::from(flags & ALIGNED != 0);
        let align_log2 = if aligned == 1 { room[3] } else { 0 };
        let mut take = Take::new(room, 2 + more + aligned);
        let stamp = self.stamp(take.field(head >> 4, &STAMP));
        self.before.address = self.before.address.wrapping_add(unzigzag(take.field(head >> 6, &ADDRESS)));
        let size = take.field(head >> 8, &SIZE);
        let usable = usual(size).wrapping_add(unzigzag(take.field(head >> 10, &USABLE)));
        let stack = self.stack(take.field(head >> 12, &STACK));
        let address = self.before.address.rotate_left(3);
        *record = Record { kind: Kind::Alloc, flags, align_log2, stamp, address, size, usable, stack, ..Record::default() };
        take.at
    }

    #[inline]
    fn realloc(&mut self, room: &[u8; ROOM], head: u32, record: &mut Record) -> usize {
        let more = usize::from(head & MORE != 0);
        let flags = if more == 1 { room[3] } else { 0 };
        let mut take = Take::new(room, 3 + more);
        let stamp = self.stamp(take.field(head >> 4, &STAMP));
        let old = self.before.address.wrapping_add(unzigzag(take.field(head >> 6, &ADDRESS)));
        let size = take.field(head >> 8, &SIZE);
        let usable = usual(size).wrapping_add(unzigzag(take.field(head >> 10, &USABLE)));
        let stack = self.stack(take.field(head >> 12, &STACK));
        self.before.address = old.wrapping_add(unzigzag(take.field(head >> 14, &MOVED)));
        let after = stamp.wrapping_add(take.field(head >> 16, &TOOK));
        let (old_address, address) = (old.rotate_left(3), self.before.address.rotate_left(3));
        *record = Record { kind: Kind::Realloc, flags, stamp, after, address, old_address, size, usable, stack, align_log2: 0 };
        take.at
    }

    #[inline(always)]
    fn node(&mut self, room: &[u8; ROOM], head: u32, record: &mut Record) -> usize {
        let mut take = Take::new(room, 2);
        let stamp = self.stamp(take.field(head >> 4, &STAMP));
        self.before.ip = self.before.ip.wrapping_add(unzigzag(take.field(head >> 6, &IP)));
        let stack = take.field(head >> 8, &NODE) as u32;
        let size = u64::from(stack).wrapping_add(unzigzag(take.field(head >> 10, &PARENT)));
        *record = Record { kind: Kind::Node, stamp, address: self.before.ip, size, stack, ..Record::default() };
        take.at
    }

    /// What begins and ends a thread, and marks.
    #[cold]
    fn rare(&mut self, room: &[u8; ROOM], kind: u32, record: &mut Record) -> Result<usize, BlockDamage> {
        let mut take = Take::new(room, 2);
        let (flags, stamp) = (room[1], self.stamp(take.whole(8)));
        *record = Record { flags, stamp, ..Record::default() };
        if kind == Kind::Mark as u32 {
            let bytes = take.whole(8);
            // The name begins behind the length.
            (record.kind, record.size, record.address) = (Kind::Mark, bytes, (self.at + take.at) as u64);
            take.at += usize::try_from(bytes).ok().filter(|bytes| *bytes <= MARK_BYTES_MAX).ok_or(BlockDamage::Record)?;
        } else {
            record.kind = if kind == Kind::ThreadBegin as u32 { Kind::ThreadBegin } else { Kind::ThreadEnd };
            (record.address, record.size, record.usable) = (take.whole(8), take.whole(8), take.whole(8));
        }
        Ok(take.at)
    }
}

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
                Kind::Node => Record { size: v[2], stack, flags: 0, ..plain },
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
