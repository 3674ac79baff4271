//! Eight numbers at a time, where the processor can gather bytes from anywhere within two blocks
//! (AVX-512 with VBMI and VBMI2).
//!
//! The places where a block's numbers begin and end are compressed into two vectors. For eight
//! numbers at once, each lane of 64 bits takes the eight bytes before its number's end. Bytes
//! before the number's beginning become zero, and three multiplications add the digits up. If one
//! of the eight numbers has more digits (targets in files of more than 16 million nodes have nine),
//! the eight bytes before are taken likewise. Deviation from [`Ints::block`]: a block with anything
//! unusual (the list's end, an error, more than 16 digits) is left to it, so numbers and errors are
//! the same on every machine.

use super::{BLOCK, FILL_ROOM, Ints, blocks};
use std::arch::x86_64::*;

/// Longer numbers are left to the portable code.
const DIGITS_MAX: usize = 16;

/// Whether this processor can.
pub(in crate::reader) fn usable() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vbmi")
        && std::arch::is_x86_feature_detected!("avx512vbmi2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("lzcnt")
        && std::arch::is_x86_feature_detected!("popcnt")
}

/// A block's masks, if this code can convert the block.
struct Block {
    starts: u64,
    ends: u64,
    digits: u64,
    turns: u64,
}

/// Fills `out` from the next blocks until it is full or a block is unusual; returns the count of
/// numbers.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi1,lzcnt,popcnt")]
pub(super) fn fill(ints: &mut Ints<'_>, out: &mut [u64]) -> usize {
    let mut filled = 0;
    let Some(mut before) = ints.at.checked_sub(BLOCK).and_then(|at| load(ints.bytes, at)) else {
        return 0;
    };
    while out.len() - filled >= FILL_ROOM {
        let Some(text) = load(ints.bytes, ints.at) else { break };
        let values = _mm512_sub_epi8(text, _mm512_set1_epi8(b'0' as i8));
        let Some(block) = block(ints, text, values) else { break };
        let Some(count) = convert(
            ints,
            &block,
            _mm512_sub_epi8(before, _mm512_set1_epi8(b'0' as i8)),
            values,
            &mut out[filled..],
        ) else {
            break;
        };
        filled += count;
        if block.starts != 0 {
            ints.token_from = ints.at + 63 - block.starts.leading_zeros() as usize;
        }
        ints.in_token = block.digits >> 63 != 0;
        ints.after_number = ((block.turns as i64) >> 63) as u64;
        ints.at += BLOCK;
        before = text;
    }
    filled
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8], at: usize) -> Option<__m512i> {
    let block: &[u8; BLOCK] = bytes.get(at..)?.first_chunk()?;
    // SAFETY: 64 bytes are read, those of the array; the load may be unaligned.
    Some(unsafe { _mm512_loadu_si512(block.as_ptr().cast()) })
}

/// The masks of a block, unless it ends the list or breaks it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn block(ints: &Ints<'_>, text: __m512i, values: __m512i) -> Option<Block> {
    let digits = _mm512_cmple_epu8_mask(values, _mm512_set1_epi8(9));
    let equal = |byte: u8| _mm512_cmpeq_epi8_mask(text, _mm512_set1_epi8(byte as i8));
    let commas = equal(b',');
    if digits | commas != !0
        && digits | commas | equal(b'\n') | equal(b' ') | equal(b'\r') | equal(b'\t') != !0
    {
        return None;
    }
    let followed = digits << 1 | u64::from(ints.in_token);
    let (starts, ends) = (digits & !followed, followed & !digits);
    let turns = blocks::parity(commas | starts) ^ ints.after_number;
    let misplaced = starts & !turns | commas & turns;
    if misplaced != 0 || ends == 0 { None } else { Some(Block { starts, ends, digits, turns }) }
}

/// The numbers that end in a block; `before` and `values` are the values of the digits of the block
/// before it and its own.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
fn convert(
    ints: &Ints<'_>,
    block: &Block,
    before: __m512i,
    values: __m512i,
    out: &mut [u64],
) -> Option<usize> {
    let open = if ints.in_token { ints.at - ints.token_from } else { 0 };
    if open > DIGITS_MAX {
        return None;
    }
    let count = block.ends.count_ones() as usize;
    // Places are counted from the beginning of the block before.
    let places = _mm512_add_epi8(IOTA.get(), _mm512_set1_epi8(BLOCK as i8));
    let ends = _mm512_maskz_compress_epi8(block.ends, places);
    let starts = _mm512_maskz_compress_epi8(block.starts, places);
    let shifted = _mm512_sub_epi8(IOTA.get(), _mm512_set1_epi8(ints.in_token as i8));
    let starts = _mm512_permutexvar_epi8(shifted, starts);
    let starts = _mm512_mask_set1_epi8(starts, u64::from(ints.in_token), (BLOCK - open) as i8);
    let digits = _mm512_sub_epi8(ends, starts);
    // At most 32 numbers end in a block.
    let ours = (1u64 << count) - 1;
    if _mm512_mask_cmpgt_epu8_mask(ours, digits, _mm512_set1_epi8(DIGITS_MAX as i8)) != 0 {
        return None;
    }
    let long = _mm512_mask_cmpgt_epu8_mask(ours, digits, _mm512_set1_epi8(8));
    for (group, slots) in
        out[..count.next_multiple_of(8)].as_chunks_mut::<8>().0.iter_mut().enumerate()
    {
        let lane = _mm512_add_epi8(LANE.get(), _mm512_set1_epi8(8 * group as i8));
        let bytes = _mm512_add_epi8(_mm512_permutexvar_epi8(lane, ends), BEFORE_END.get());
        let starts = _mm512_permutexvar_epi8(lane, starts);
        let mut numbers = eights(before, values, bytes, starts);
        if long >> (8 * group) & 0xff != 0 {
            // Places are at least 64, so that 16 digits never reach beyond the block before.
            let upper = eights(before, values, _mm512_sub_epi8(bytes, _mm512_set1_epi8(8)), starts);
            numbers =
                _mm512_add_epi64(numbers, _mm512_mul_epu32(upper, _mm512_set1_epi64(100_000_000)));
        }
        // SAFETY: 64 bytes are written, those of the eight slots; the store may be unaligned.
        unsafe { _mm512_storeu_si512(slots.as_mut_ptr().cast(), numbers) };
    }
    Some(count)
}

/// In each lane, the number whose digits are the bytes of `bytes` from its start on, at most eight.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn eights(before: __m512i, values: __m512i, bytes: __m512i, starts: __m512i) -> __m512i {
    let within = _mm512_cmpge_epu8_mask(bytes, starts);
    let digits = _mm512_maskz_permutex2var_epi8(within, before, bytes, values);
    let pairs = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x010a));
    let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0001_0064));
    _mm512_add_epi64(
        _mm512_mul_epu32(fours, _mm512_set1_epi64(10_000)),
        _mm512_srli_epi64::<32>(fours),
    )
}

/// A vector of bytes that is known at compile time.
#[repr(align(64))]
struct Bytes([u8; BLOCK]);

impl Bytes {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn get(&self) -> __m512i {
        // SAFETY: 64 bytes are read, those of the array.
        unsafe { _mm512_load_si512(self.0.as_ptr().cast()) }
    }
}

/// Each byte's place, its lane of eight, and its place in that counted from behind it.
static IOTA: Bytes = Bytes(made(0));
static LANE: Bytes = Bytes(made(1));
static BEFORE_END: Bytes = Bytes(made(2));

const fn made(what: usize) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    let mut place = 0;
    while place < BLOCK {
        bytes[place] = match what {
            0 => place as u8,
            1 => place as u8 / 8,
            _ => (place as u8 % 8).wrapping_sub(8),
        };
        place += 1;
    }
    bytes
}
