//! Usual blocks with SSE2 and SSE4.1, two texts in a vector, and with AVX2, four.
//!
//! The digits that end a text are its lowest bytes when it is turned round, so that one subtraction
//! finds them: of a mask with all bits of each byte that is no digit, what changes when 1 is taken
//! away, below its lowest bit. Twice as many texts share the last multiplication, because four
//! digits fit 16 bits.

use super::{BLOCK, Digits, Ints, TEXT_BYTES};
use crate::ReadError;
use crate::reader::blocks::{Avx2, Sse2, Sse4};
use std::arch::x86_64::*;

/// [`Ints::fill`] for processors with AVX2 and the bit instructions of the same generation.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(in crate::reader::ints) fn fill_avx2(
    ints: &mut Ints<'_>,
    out: &mut [u64],
) -> Result<usize, ReadError> {
    ints.fill_dense::<Avx2>(out)
}

/// [`Ints::fill`] for processors with SSSE3 and SSE4.1.
#[target_feature(enable = "ssse3,sse4.1,popcnt")]
pub(in crate::reader::ints) fn fill_sse4(
    ints: &mut Ints<'_>,
    out: &mut [u64],
) -> Result<usize, ReadError> {
    ints.fill_dense::<Sse4>(out)
}

/// Calls `numbers` with all texts, eight or four at a time, those at the end in an array of their
/// own.
#[inline(always)]
fn in_groups<const N: usize>(texts: &mut [u64], numbers: impl Fn(&mut [u64; N])) {
    let (groups, rest) = texts.as_chunks_mut::<N>();
    // A loop, and no method that takes a function: those of the standard library are compiled
    // without the caller's instructions.
    for group in groups {
        numbers(group);
    }
    if !rest.is_empty() {
        let mut last = [0; N];
        last[..rest.len()].copy_from_slice(rest);
        numbers(&mut last);
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

impl Digits for Sse2 {
    /// The last byte of the text lowest: SSE2 cannot turn a vector's bytes round.
    #[inline(always)]
    fn text(bytes: [u8; TEXT_BYTES]) -> u64 {
        u64::from_be_bytes(bytes)
    }

    #[inline(always)]
    fn commas(block: &[u8; BLOCK]) -> Option<u64> {
        // SAFETY: SSE2 is part of every x86-64, and the loads are unaligned within the 64 bytes of
        // the block.
        unsafe {
            let mut commas = 0;
            let mut usual = _mm_set1_epi8(-1);
            for lane in 0..4 {
                let text = _mm_loadu_si128(block.as_ptr().add(16 * lane).cast());
                let values = _mm_sub_epi8(text, _mm_set1_epi8(b'0' as i8));
                let digits = _mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values);
                let comma = _mm_cmpeq_epi8(text, _mm_set1_epi8(b',' as i8));
                usual = _mm_and_si128(usual, _mm_or_si128(digits, comma));
                commas |= u64::from(_mm_movemask_epi8(comma) as u16) << (16 * lane);
            }
            (_mm_movemask_epi8(usual) == 0xffff).then_some(commas)
        }
    }

    #[inline(always)]
    fn numbers(texts: &mut [u64]) {
        // SAFETY: SSE2 is part of every x86-64; the loads and stores are unaligned within the four
        // texts.
        in_groups::<4>(texts, |texts| unsafe {
            let at = texts.as_mut_ptr().cast::<__m128i>();
            let fours = |text: __m128i| {
                let values = _mm_sub_epi8(text, _mm_set1_epi8(b'0' as i8));
                let others = _mm_cmpeq_epi8(_mm_max_epu8(values, _mm_set1_epi8(10)), values);
                let within = _mm_andnot_si128(others, _mm_add_epi64(others, _mm_set1_epi8(-1)));
                let digits = _mm_and_si128(values, within);
                let tens = _mm_mullo_epi16(_mm_srli_epi16::<8>(digits), _mm_set1_epi16(10));
                let pairs = _mm_add_epi16(_mm_and_si128(digits, _mm_set1_epi16(0xff)), tens);
                _mm_madd_epi16(pairs, _mm_set1_epi32(0x0064_0001))
            };
            let packed =
                _mm_packs_epi32(fours(_mm_loadu_si128(at)), fours(_mm_loadu_si128(at.add(1))));
            let numbers = _mm_madd_epi16(packed, _mm_set1_epi32(10_000 << 16 | 1));
            _mm_storeu_si128(at, _mm_unpacklo_epi32(numbers, _mm_setzero_si128()));
            _mm_storeu_si128(at.add(1), _mm_unpackhi_epi32(numbers, _mm_setzero_si128()));
        });
    }
}

impl Digits for Sse4 {
    #[inline(always)]
    fn commas(block: &[u8; BLOCK]) -> Option<u64> {
        Sse2::commas(block)
    }

    #[inline(always)]
    fn numbers(texts: &mut [u64]) {
        // SAFETY: who uses `Sse4` has made sure of the features.
        in_groups::<4>(texts, |texts| unsafe { four(texts) });
    }
}

/// As [`eight`], with vectors of half the size.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn four(texts: &mut [u64; 4]) {
    let at = texts.as_mut_ptr().cast::<__m128i>();
    // SAFETY: the loads are unaligned and the two halves of the texts.
    let (low, high) = unsafe { (_mm_loadu_si128(at), _mm_loadu_si128(at.add(1))) };
    let packed = _mm_packus_epi32(halves(low), halves(high));
    let numbers = _mm_madd_epi16(packed, _mm_set1_epi32(10_000 << 16 | 1));
    // SAFETY: the stores are unaligned and the two halves of the texts.
    unsafe {
        _mm_storeu_si128(at, _mm_cvtepu32_epi64(numbers));
        _mm_storeu_si128(at.add(1), _mm_unpackhi_epi32(numbers, _mm_setzero_si128()));
    }
}

/// The lower and the upper four digits of both texts.
#[inline]
#[target_feature(enable = "ssse3")]
fn halves(text: __m128i) -> __m128i {
    let round = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
    let values = _mm_sub_epi8(_mm_shuffle_epi8(text, round), _mm_set1_epi8(b'0' as i8));
    let others = _mm_cmpeq_epi8(_mm_max_epu8(values, _mm_set1_epi8(10)), values);
    let within = _mm_andnot_si128(others, _mm_add_epi64(others, _mm_set1_epi8(-1)));
    let pairs = _mm_maddubs_epi16(_mm_and_si128(values, within), _mm_set1_epi16(0x0a01));
    _mm_madd_epi16(pairs, _mm_set1_epi32(0x0064_0001))
}

impl Digits for Avx2 {
    #[inline(always)]
    fn commas(block: &[u8; BLOCK]) -> Option<u64> {
        // SAFETY: who uses `Avx2` has made sure of the feature.
        unsafe { commas_by_32(block) }
    }

    #[inline(always)]
    fn numbers(texts: &mut [u64]) {
        // SAFETY: who uses `Avx2` has made sure of the feature.
        in_groups::<8>(texts, |texts| unsafe { eight(texts) });
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn commas_by_32(block: &[u8; BLOCK]) -> Option<u64> {
    // SAFETY: the loads are unaligned and the two halves of the block.
    let (low, high) = unsafe {
        (
            _mm256_loadu_si256(block.as_ptr().cast()),
            _mm256_loadu_si256(block.as_ptr().add(32).cast()),
        )
    };
    let ((low_usual, low_commas), (high_usual, high_commas)) =
        (usual_and_commas(low), usual_and_commas(high));
    let is_usual = _mm256_movemask_epi8(_mm256_and_si256(low_usual, high_usual)) == -1;
    is_usual.then_some(u64::from(low_commas) | u64::from(high_commas) << 32)
}

/// Which bytes are digits or commas, and which are commas.
#[inline]
#[target_feature(enable = "avx2")]
fn usual_and_commas(text: __m256i) -> (__m256i, u32) {
    let values = _mm256_sub_epi8(text, _mm256_set1_epi8(b'0' as i8));
    let digits = _mm256_cmpeq_epi8(_mm256_min_epu8(values, _mm256_set1_epi8(9)), values);
    let commas = _mm256_cmpeq_epi8(text, _mm256_set1_epi8(b',' as i8));
    (_mm256_or_si256(digits, commas), _mm256_movemask_epi8(commas) as u32)
}

#[inline]
#[target_feature(enable = "avx2")]
fn eight(texts: &mut [u64; 8]) {
    let at = texts.as_mut_ptr().cast::<__m256i>();
    // SAFETY: the loads are unaligned and the two halves of the texts.
    let (low, high) = unsafe { (_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))) };
    // Each half of the vectors is packed and unpacked by itself, so that the order is right again
    // in the end.
    let packed = _mm256_packus_epi32(fours(low), fours(high));
    let numbers = _mm256_madd_epi16(packed, _mm256_set1_epi32(10_000 << 16 | 1));
    let zero = _mm256_setzero_si256();
    // SAFETY: the stores are unaligned and the two halves of the texts.
    unsafe {
        _mm256_storeu_si256(at, _mm256_unpacklo_epi32(numbers, zero));
        _mm256_storeu_si256(at.add(1), _mm256_unpackhi_epi32(numbers, zero));
    }
}

/// The lower and the upper four digits of each text.
#[inline]
#[target_feature(enable = "avx2")]
fn fours(text: __m256i) -> __m256i {
    let round = _mm256_set_epi64x(
        0x0809_0a0b_0c0d_0e0f,
        0x0001_0203_0405_0607,
        0x0809_0a0b_0c0d_0e0f,
        0x0001_0203_0405_0607,
    );
    let values = _mm256_sub_epi8(_mm256_shuffle_epi8(text, round), _mm256_set1_epi8(b'0' as i8));
    let others = _mm256_cmpeq_epi8(_mm256_max_epu8(values, _mm256_set1_epi8(10)), values);
    let within = _mm256_andnot_si256(others, _mm256_add_epi64(others, _mm256_set1_epi8(-1)));
    let pairs = _mm256_maddubs_epi16(_mm256_and_si256(values, within), _mm256_set1_epi16(0x0a01));
    _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0064_0001))
}
