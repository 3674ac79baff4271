//! Four numbers at a time, for processors with AVX2.
//!
//! Blocks are judged as everywhere ([`Ints::block`]); of a usual one, in which no number has more than eight digits, the eight bytes from each number's beginning are
//! loaded and shifted until what stands behind its end is gone. Four such lie side by side, and three multiplications add their digits up.

use super::{Ints, blocks};
use crate::ReadError;
use std::arch::x86_64::*;

/// Bytes that are read from a block's beginning on: eight from behind a number's end and comma.
const READ_BYTES: usize = 80;

/// [`Ints::fill`] for these processors.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn fill(ints: &mut Ints<'_>, out: &mut [u64]) -> Result<usize, ReadError> {
    ints.fill_by::<blocks::Avx2>(out, |ints, digits, ends, out| convert(ints, digits, ends, out))
}

/// As [`Ints::convert_dense`], which has the conditions and takes the blocks with longer numbers.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn convert(ints: &mut Ints<'_>, digits: u64, ends: u64, out: &mut [u64]) -> Result<usize, ReadError> {
    if ints.at + READ_BYTES > ints.bytes.len() || has_nine(digits) {
        return ints.convert_dense(digits, ends, out);
    }
    let Some((filled, mut start, mut left)) = ints.open_number(digits, ends, out)? else { return Ok(0) };
    let count = left.count_ones() as usize;
    if count == 0 {
        ints.token_from = ints.at + start as usize;
        return Ok(filled);
    }
    ints.token_from = ints.at + 64 - left.leading_zeros() as usize;
    // SAFETY: the block begins within the file's bytes.
    let block = unsafe { ints.bytes.as_ptr().add(ints.at) };
    for slots in out[filled..filled + count.next_multiple_of(4)].as_chunks_mut::<4>().0 {
        let mut next = || {
            // Behind the last number this is 64, and what it gives is not looked at.
            let end = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            // SAFETY: a number begins at 65 at most, and READ_BYTES from the block's beginning on lie within the file's bytes.
            let text = u64::from_le_bytes(unsafe { block.add(start as usize).cast::<[u8; 8]>().read() });
            // 64 less 8 times the digits, as shifts are counted.
            let shifted = text.wrapping_shl(start.wrapping_sub(end).wrapping_mul(8));
            start = end + 1;
            shifted as i64
        };
        let (first, second, third, fourth) = (next(), next(), next(), next());
        let text = _mm256_set_epi64x(fourth, third, second, first);
        // Saturating: the zeros that were shifted in stay zeros.
        let digits = _mm256_subs_epu8(text, _mm256_set1_epi8(b'0' as i8));
        let pairs = _mm256_maddubs_epi16(digits, _mm256_set1_epi16(0x010a));
        let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0001_0064));
        let numbers = _mm256_add_epi64(_mm256_mul_epu32(fours, _mm256_set1_epi64x(10_000)), _mm256_srli_epi64::<32>(fours));
        // SAFETY: 32 bytes are written, those of the four slots; the store may be unaligned.
        unsafe { _mm256_storeu_si256(slots.as_mut_ptr().cast(), numbers) };
    }
    Ok(filled + count)
}

/// Whether nine bits in a row are set.
#[inline]
fn has_nine(mut bits: u64) -> bool {
    bits &= bits << 1;
    bits &= bits << 2;
    bits &= bits << 4;
    bits & bits << 1 != 0
}
