//! One ring record as the spool keeps it, and its encoding (docs/spool-format.md, "Records").
//!
//! A record is a head of one to three bytes, then the fields. The head gives the kind and the bytes
//! of each field (see [`super::widths`]). Lengths stand in the head instead of continuation bits,
//! because one load or store then moves eight bytes whatever the value is. Stamps, addresses and
//! stacks are differences from the record before in the same block; each block stands alone. Usual
//! values cost nothing, and nearly every allocation and free is short: its fields have fixed
//! widths, so finishing does not decode it field by field ([`Decoder::run_short`]). A usable size
//! is a difference from glibc's, a caller from the node before it.

mod short;

use super::block::BlockDamage;
use super::widths::{Put, ROOM, Take, Widths};
pub use short::TakeShort;
use short::{SHORT_ALLOC_BYTES, SHORT_FREE_BYTES, word_of};

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Kind {
    /// A new block: `address`, `size`, `usable`, `stack`, and `align_log2` if an alignment was
    /// requested.
    #[default]
    Alloc = 0,
    /// `address` was freed.
    Free = 1,
    /// `old_address` became `address`.
    Realloc = 2,
    /// The program asked for the usable size of `address`.
    UsableSizeRead = 3,
    /// The thread `address` (its tid) writes the ring from here on; its name is in `size` and
    /// `usable`.
    ThreadBegin = 4,
    /// The thread `address` left the ring; fields as of [`Kind::ThreadBegin`].
    ThreadEnd = 5,
    /// A named moment: the name has `size` bytes and begins `address` bytes into the payload.
    Mark = 6,
    /// From here on in this ring, node `stack` is return address `address`, called from node
    /// `size`.
    Node = 7,
    /// Somebody maps `size` bytes at `address`: `flags` say who, `stack` says where.
    Map = 8,
    /// They are mapped no more.
    Unmap = 9,
    /// A memory reporter names the block at `address`, or around it if `flags` say
    /// [`heaplab_preload::layout::REPORT_INSIDE`]; `stack` says where.
    Report = 10,
}

/// The low three bits of a head.
mod code {
    /// An allocation of any kind.
    pub const ALLOC: u32 = 0;
    pub const FREE: u32 = 1;
    pub const REALLOC: u32 = 2;
    pub const USABLE_SIZE_READ: u32 = 3;
    /// Beginnings and ends of threads, marks, mappings; the next bits tell them apart.
    pub const RARE: u32 = 4;
    /// An allocation with short fields, as nearly all: see [`super::short`].
    pub const SHORT_ALLOC: u32 = 5;
    /// A free with short fields: see [`super::short`].
    pub const SHORT_FREE: u32 = 6;
    pub const NODE: u32 = 7;
}

/// Zeroed memory was requested.
pub const ZEROED: u8 = 1;
/// The request failed.
pub const FAILED: u8 = 2;
/// An alignment was requested: `align_log2`.
pub const ALIGNED: u8 = 4;
/// Position of the family in the flags (two bits): malloc, aligned, operator new, as in the trace.
pub const FAMILY_SHIFT: u32 = 3;

/// One record of a ring. Fields that the kind does not use are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Record {
    /// Its kind.
    pub kind: Kind,
    /// [`ZEROED`], [`FAILED`], [`ALIGNED`], and the family from [`FAMILY_SHIFT`] on.
    pub flags: u8,
    /// log2 of the requested alignment, below 64.
    pub align_log2: u8,
    /// Clock ticks: before the call of a free or a realloc, after the call of an allocation.
    pub stamp: u64,
    /// Realloc: ticks after the call, not before `stamp`.
    pub after: u64,
    /// See [`Kind`].
    pub address: u64,
    /// Realloc: the block's old address.
    pub old_address: u64,
    /// Bytes requested.
    pub size: u64,
    /// Usable bytes; 0: not measured.
    pub usable: u64,
    /// The process's stack node; 0: none.
    pub stack: u32,
}

/// Most bytes of a record, with the slack behind every store and load.
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

/// Blocks lie at least 8 bytes apart, nearly always: moves the three low bits to the top, where
/// equal bits cancel in a difference.
#[inline(always)]
fn turned(address: u64) -> u64 {
    address.rotate_right(3)
}

/// glibc's usable size for `size` bytes: an equal value needs no bytes; for other allocators it is
/// a fair guess.
#[inline(always)]
fn usual(size: u64) -> u64 {
    (size.wrapping_add(23) & !15).max(32).wrapping_sub(8)
}

/// The base of the next record's differences.
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
        Encoder {
            bytes: vec![0; capacity.max(RECORD_BYTES_MAX)].into(),
            length: 0,
            records: 0,
            before: Before::default(),
        }
    }

    /// Begins a block; its stamps are differences from `base`.
    pub fn begin(&mut self, base: u64) {
        (self.length, self.records, self.before) =
            (0, 0, Before { stamp: base, ..Before::default() });
    }

    /// Whether one more record fits.
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

    /// Adds a record; the block must have room.
    #[inline]
    pub fn push(&mut self, record: &Record) {
        match record.kind {
            Kind::Alloc => self.alloc(record),
            Kind::Free | Kind::UsableSizeRead => {
                self.free(record.kind, record.flags, record.stamp, record.address)
            }
            Kind::Realloc => self.realloc(record),
            Kind::Node => self.node(record.stamp, record.address, record.stack, record.size),
            Kind::ThreadBegin => self.rare(0, record, [record.address, record.size, record.usable]),
            Kind::ThreadEnd => self.rare(1, record, [record.address, record.size, record.usable]),
            Kind::Mark => self.rare(2, record, [record.size]),
            Kind::Map => self.rare(3, record, [record.address, record.size, record.stack.into()]),
            Kind::Unmap => self.rare(4, record, [record.address, record.size]),
            Kind::Report => self.rare(5, record, [record.address, record.stack.into()]),
        }
    }

    /// Adds a mark: `record` as [`Kind::Mark`] with `name`, cut at [`MARK_BYTES_MAX`]. The block
    /// must have room.
    pub fn push_mark(&mut self, record: &Record, name: &[u8]) {
        let name = &name[..name.len().min(MARK_BYTES_MAX)];
        self.push(&Record { kind: Kind::Mark, size: name.len() as u64, ..*record });
        self.bytes[self.length..self.length + name.len()].copy_from_slice(name);
        self.length += name.len();
    }

    /// Adds a [`Kind::Free`] or [`Kind::UsableSizeRead`]. The block must have room.
    #[inline(always)]
    pub fn free(&mut self, kind: Kind, flags: u8, stamp: u64, address: u64) {
        let ticks = stamp.wrapping_sub(self.before.stamp);
        let address_difference = zigzag(turned(address).wrapping_sub(self.before.address));
        if kind == Kind::Free {
            self.before.address = turned(address);
            if let Some(word) = short::free_word(flags, ticks, address_difference) {
                self.before.stamp = stamp;
                return self.short::<8>(&word.to_le_bytes(), SHORT_FREE_BYTES);
            }
        }
        self.long_free(kind, flags, stamp, address_difference);
    }

    fn long_free(&mut self, kind: Kind, flags: u8, stamp: u64, address_difference: u64) {
        let stamp_difference = self.stamp(stamp);
        let mut head = if kind == Kind::Free { code::FREE } else { code::USABLE_SIZE_READ };
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

    /// Adds a [`Kind::Alloc`]. The block must have room.
    #[inline(always)]
    pub fn alloc(&mut self, record: &Record) {
        let ticks = record.stamp.wrapping_sub(self.before.stamp);
        let address = turned(record.address);
        let address_difference = zigzag(address.wrapping_sub(self.before.address));
        let stack = self.stack(record.stack);
        self.before.address = address;
        if let Some(word) = short::alloc_word(record, ticks, address_difference, stack) {
            self.before.stamp = record.stamp;
            return self.short::<16>(&word.to_le_bytes(), SHORT_ALLOC_BYTES);
        }
        self.long_alloc(record, address_difference, stack);
    }

    fn long_alloc(&mut self, record: &Record, address_difference: u64, stack: u64) {
        let stamp = self.stamp(record.stamp);
        let mut head = code::ALLOC;
        let mut put = self.room::<2>();
        if record.flags != 0 {
            head |= MORE;
            put.whole(
                u64::from(record.flags) | u64::from(record.align_log2) << 8,
                1 + usize::from(record.flags & ALIGNED != 0),
            );
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
        let mut head = code::REALLOC;
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

    /// Adds a [`Kind::Node`]. The block must have room.
    #[inline(always)]
    pub fn node(&mut self, stamp: u64, ip: u64, node: u32, parent: u64) {
        let stamp = self.stamp(stamp);
        let ip_difference = zigzag(ip.wrapping_sub(self.before.ip));
        self.before.ip = ip;
        let mut head = code::NODE;
        let mut put = self.room::<2>();
        head |= put.field(stamp, &STAMP) << 4;
        head |= put.field(ip_difference, &IP) << 6;
        head |= put.field(node.into(), &NODE) << 8;
        head |= put.field(zigzag(parent.wrapping_sub(node.into())), &PARENT) << 10;
        put.head::<2>(head);
        let bytes = put.at;
        self.end(bytes);
    }

    /// Adds a rare record: its fields have all their bytes.
    fn rare<const N: usize>(&mut self, which: u32, record: &Record, fields: [u64; N]) {
        let stamp = self.stamp(record.stamp);
        let mut put = self.room::<2>();
        put.head::<2>(code::RARE | which << 3 | u32::from(record.flags) << 8);
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

    /// Position of the next record, behind its head of `HEAD` bytes.
    #[inline(always)]
    fn room<const HEAD: usize>(&mut self) -> Put<'_> {
        let Some(room) = self.bytes[self.length..].first_chunk_mut() else {
            unreachable!("callers ask `has_room` first")
        };
        Put::new(room, HEAD)
    }

    #[inline(always)]
    fn end(&mut self, bytes: usize) {
        self.length += bytes;
        self.records += 1;
    }
}

/// Reads the records of one block's payload, followed by [`RECORD_BYTES_MAX`] bytes of any content.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder {
    at: usize,
    before: Before,
}

impl Decoder {
    /// For a block with stamps as differences from `base`.
    pub fn new(base: u64) -> Decoder {
        Decoder { at: 0, before: Before { stamp: base, ..Before::default() } }
    }

    /// The next record of the payload `padded[..length]`; `None` at its end. After an error returns
    /// the same error again.
    pub fn next(&mut self, padded: &[u8], length: usize) -> Result<Option<Record>, BlockDamage> {
        if self.at >= length {
            return Ok(None);
        }
        let room: &[u8; ROOM] =
            padded.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(BlockDamage::Record)?;
        let head = u32::from_le_bytes([room[0], room[1], room[2], 0]);
        let (record, bytes) = match head & 7 {
            code::ALLOC => self.alloc(room, head)?,
            code::FREE => self.free(room, head, Kind::Free),
            code::REALLOC => self.realloc(room, head),
            code::USABLE_SIZE_READ => self.free(room, head, Kind::UsableSizeRead),
            code::SHORT_ALLOC => {
                let (record, before) = self.before.short_alloc(word_of(room));
                self.before = before;
                (record, SHORT_ALLOC_BYTES)
            }
            code::SHORT_FREE => {
                let (record, before) = self.before.short_free(word_of(room));
                self.before = before;
                (record, SHORT_FREE_BYTES)
            }
            code::NODE => self.node(room, head),
            _ => self.rare(room, head)?,
        };
        if length - self.at < bytes {
            return Err(BlockDamage::Record);
        }
        self.at += bytes;
        self.before.stamp = record.stamp;
        Ok(Some(record))
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

    fn free(&mut self, room: &[u8; ROOM], head: u32, kind: Kind) -> (Record, usize) {
        let more = usize::from(head & MORE != 0);
        let flags = if more == 1 { room[1] } else { 0 };
        let mut take = Take::new(room, 1 + more);
        let stamp = self.stamp(take.field(head >> 4, &STAMP));
        let address = self.before.address.wrapping_add(unzigzag(take.field(head >> 6, &ADDRESS)));
        if kind == Kind::Free {
            self.before.address = address;
        }
        (
            Record { kind, flags, stamp, address: address.rotate_left(3), ..Record::default() },
            take.at,
        )
    }

    fn alloc(&mut self, room: &[u8; ROOM], head: u32) -> Result<(Record, usize), BlockDamage> {
        let more = usize::from(head & MORE != 0);
        let flags = if more == 1 { room[2] } else { 0 };
        let aligned = usize::from(flags & ALIGNED != 0);
        let align_log2 = if aligned == 1 { room[3] } else { 0 };
        if align_log2 > 63 {
            return Err(BlockDamage::Record);
        }
        let mut take = Take::new(room, 2 + more + aligned);
        let stamp = self.stamp(take.field(head >> 4, &STAMP));
        self.before.address =
            self.before.address.wrapping_add(unzigzag(take.field(head >> 6, &ADDRESS)));
        let size = take.field(head >> 8, &SIZE);
        let usable = usual(size).wrapping_add(unzigzag(take.field(head >> 10, &USABLE)));
        let stack = self.stack(take.field(head >> 12, &STACK));
        let address = self.before.address.rotate_left(3);
        Ok((
            Record {
                kind: Kind::Alloc,
                flags,
                align_log2,
                stamp,
                address,
                size,
                usable,
                stack,
                ..Record::default()
            },
            take.at,
        ))
    }

    fn realloc(&mut self, room: &[u8; ROOM], head: u32) -> (Record, usize) {
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
        (
            Record {
                kind: Kind::Realloc,
                flags,
                stamp,
                after,
                address,
                old_address,
                size,
                usable,
                stack,
                align_log2: 0,
            },
            take.at,
        )
    }

    #[inline(always)]
    fn node(&mut self, room: &[u8; ROOM], head: u32) -> (Record, usize) {
        let mut take = Take::new(room, 2);
        let stamp = self.stamp(take.field(head >> 4, &STAMP));
        self.before.ip = self.before.ip.wrapping_add(unzigzag(take.field(head >> 6, &IP)));
        let stack = take.field(head >> 8, &NODE) as u32;
        let size = u64::from(stack).wrapping_add(unzigzag(take.field(head >> 10, &PARENT)));
        (
            Record {
                kind: Kind::Node,
                stamp,
                address: self.before.ip,
                size,
                stack,
                ..Record::default()
            },
            take.at,
        )
    }

    /// Beginnings and ends of threads, marks, and mappings.
    #[cold]
    fn rare(&mut self, room: &[u8; ROOM], head: u32) -> Result<(Record, usize), BlockDamage> {
        let mut take = Take::new(room, 2);
        let (flags, stamp) = (room[1], self.stamp(take.whole(8)));
        let mut record = Record { flags, stamp, ..Record::default() };
        record.kind = match head >> 3 & 31 {
            0 => Kind::ThreadBegin,
            1 => Kind::ThreadEnd,
            2 => Kind::Mark,
            3 => Kind::Map,
            4 => Kind::Unmap,
            5 => Kind::Report,
            _ => return Err(BlockDamage::Record),
        };
        if record.kind == Kind::Mark {
            let bytes = take.whole(8);
            // The name begins behind the length.
            (record.size, record.address) = (bytes, (self.at + take.at) as u64);
            take.at += usize::try_from(bytes)
                .ok()
                .filter(|bytes| *bytes <= MARK_BYTES_MAX)
                .ok_or(BlockDamage::Record)?;
        } else if record.kind == Kind::Unmap {
            (record.address, record.size) = (take.whole(8), take.whole(8));
        } else if record.kind == Kind::Report {
            (record.address, record.stack) = (take.whole(8), take.whole(8) as u32);
        } else {
            (record.address, record.size, record.usable) =
                (take.whole(8), take.whole(8), take.whole(8));
        }
        if record.kind == Kind::Map {
            record.stack = std::mem::take(&mut record.usable) as u32;
        }
        Ok((record, take.at))
    }
}

#[cfg(test)]
mod tests;
