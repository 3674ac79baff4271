//! Short records, the form of nearly every allocation and free: one width for each field, and one
//! load or store for all of them.
//!
//! The place of each field is fixed: reading and writing take no branch on lengths, and a run of
//! such records is passed on without decoding one by one. A record that does not fit is a long
//! record: [`super`].

use super::{ALIGNED, Before, Decoder, Encoder, Kind, Record, code, unzigzag, usual};
use crate::spool::widths::ROOM;

/// Head with flags 8 bits, stamp 16, size 16, address 24, stack 24: the form of nearly every
/// allocation, written and read at once, each field at a fixed place.
pub(super) const SHORT_ALLOC_BYTES: usize = 11;
/// Head with flags 8 bits, stamp 16, address 24.
pub(super) const SHORT_FREE_BYTES: usize = 6;

/// The bytes of a short allocation with these differences from the record before; `None` if it does
/// not fit.
#[inline(always)]
pub(super) fn alloc_word(
    record: &Record,
    ticks: u64,
    address_difference: u64,
    stack: u64,
) -> Option<u128> {
    let unusual = record.usable ^ usual(record.size)
        | u64::from(record.flags & ALIGNED)
        | u64::from(record.flags) >> 5;
    let fits = (ticks | record.size) >> 16 | (address_difference | stack) >> 24 | unusual == 0;
    let head = u64::from(code::SHORT_ALLOC) | u64::from(record.flags) << 3;
    fits.then_some(
        u128::from(head | ticks << 8 | record.size << 24 | address_difference << 40)
            | u128::from(stack) << 64,
    )
}

/// The bytes of a short free; `None` if it does not fit.
#[inline(always)]
pub(super) fn free_word(flags: u8, ticks: u64, address_difference: u64) -> Option<u64> {
    let fits = ticks >> 16 | address_difference >> 24 | u64::from(flags) >> 5 == 0;
    fits.then_some(
        u64::from(code::SHORT_FREE) | u64::from(flags) << 3 | ticks << 8 | address_difference << 24,
    )
}

impl Before {
    /// The allocation in the low bytes of `word`, and the base of the next record's differences.
    #[inline(always)]
    pub(super) fn short_alloc(self, word: u128) -> (Record, Before) {
        let (low, stack) = (word as u64, (word >> 64) as u32 & 0xff_ffff);
        let before = Before {
            stamp: self.stamp.wrapping_add(low >> 8 & 0xffff),
            address: self.address.wrapping_add(unzigzag(low >> 40)),
            stack: self.stack.wrapping_add(stack >> 1 ^ (stack & 1).wrapping_neg()),
            ip: self.ip,
        };
        let size = low >> 24 & 0xffff;
        let record = Record {
            kind: Kind::Alloc,
            flags: low as u8 >> 3 & !ALIGNED,
            stamp: before.stamp,
            address: before.address.rotate_left(3),
            size,
            usable: usual(size),
            stack: before.stack,
            ..Record::default()
        };
        (record, before)
    }

    /// The free in the low bytes of `word`, and the base of the next record's differences.
    #[inline(always)]
    pub(super) fn short_free(self, word: u128) -> (Record, Before) {
        let low = word as u64;
        let stamp = self.stamp.wrapping_add(low >> 8 & 0xffff);
        let address = self.address.wrapping_add(unzigzag(low >> 24 & 0xff_ffff));
        let record = Record {
            kind: Kind::Free,
            flags: low as u8 >> 3,
            stamp,
            address: address.rotate_left(3),
            ..Record::default()
        };
        (record, Before { stamp, address, ..self })
    }
}

/// The first bytes as a number.
#[inline(always)]
pub(super) fn word_of(room: &[u8; ROOM]) -> u128 {
    room.first_chunk().map_or(0, |word| u128::from_le_bytes(*word))
}

/// Receives short records one after the other.
pub trait TakeShort {
    /// The receiver's error.
    type Error;
    /// Takes a [`Kind::Alloc`], never with [`ALIGNED`]; returns whether it took it. A refusal
    /// changes nothing.
    fn alloc(&mut self, record: &Record) -> Result<bool, Self::Error>;
    /// The same for a [`Kind::Free`].
    fn free(&mut self, record: &Record) -> Result<bool, Self::Error>;
}

impl Encoder {
    /// Adds a record of `bytes` bytes, the first of `word`.
    #[inline(always)]
    pub(super) fn short<const N: usize>(&mut self, word: &[u8; N], bytes: usize) {
        let Some(room) = self.bytes[self.length..].first_chunk_mut() else {
            unreachable!("callers ask `has_room` first")
        };
        *room = *word;
        self.end(bytes);
    }
}

impl Decoder {
    /// Passes the next records to `each` while they are short and `each` takes them. Leaves the
    /// rest to [`Decoder::next`].
    #[inline(always)]
    pub fn run_short<T: TakeShort>(
        &mut self,
        padded: &[u8],
        length: usize,
        each: &mut T,
    ) -> Result<(), T::Error> {
        let Decoder { mut at, mut before } = *self;
        while at < length {
            let Some(room) = padded.get(at..).and_then(|rest| rest.first_chunk()) else { break };
            let word = u128::from_le_bytes(*room);
            let (next, bytes, taken) = match word as u32 & 7 {
                code::SHORT_ALLOC if length - at >= SHORT_ALLOC_BYTES => {
                    let (record, next) = before.short_alloc(word);
                    (next, SHORT_ALLOC_BYTES, each.alloc(&record)?)
                }
                code::SHORT_FREE if length - at >= SHORT_FREE_BYTES => {
                    let (record, next) = before.short_free(word);
                    (next, SHORT_FREE_BYTES, each.free(&record)?)
                }
                _ => break,
            };
            if !taken {
                break;
            }
            (at, before) = (at + bytes, next);
        }
        *self = Decoder { at, before };
        Ok(())
    }
}
