//! The masks by four comparisons of 16 bytes (SSE2, part of every x86-64) or two of 32 (AVX2).

use super::{BLOCK, Masks};
use std::arch::x86_64::*;

/// 16 bytes at a time.
pub(crate) struct Sse2;

#[inline(always)]
fn by_16(block: &[u8; BLOCK], compare: impl Fn(__m128i) -> __m128i) -> u64 {
    let lane = |number: usize| -> u64 {
        // SAFETY: SSE2 is part of every x86-64, and the load is unaligned within the 64 bytes of
        // the block (number < 4).
        let bits = unsafe {
            _mm_movemask_epi8(compare(_mm_loadu_si128(block.as_ptr().add(16 * number).cast())))
        };
        u64::from(bits as u16)
    };
    lane(0) | lane(1) << 16 | lane(2) << 32 | lane(3) << 48
}

impl Masks for Sse2 {
    #[inline(always)]
    fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
        // SAFETY: SSE2 is part of every x86-64.
        by_16(block, |lane| unsafe { _mm_cmpeq_epi8(lane, _mm_set1_epi8(byte as i8)) })
    }

    #[inline(always)]
    fn at_most(block: &[u8; BLOCK], byte: u8) -> u64 {
        // SAFETY: SSE2 is part of every x86-64.
        by_16(block, |lane| unsafe {
            _mm_cmpeq_epi8(_mm_min_epu8(lane, _mm_set1_epi8(byte as i8)), lane)
        })
    }

    #[inline(always)]
    fn digits(block: &[u8; BLOCK]) -> u64 {
        // SAFETY: SSE2 is part of every x86-64.
        by_16(block, |lane| unsafe {
            let values = _mm_sub_epi8(lane, _mm_set1_epi8(b'0' as i8));
            _mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values)
        })
    }
}

/// The same masks; what is more than SSE2 is only used to convert.
pub(crate) struct Sse4;

impl Masks for Sse4 {
    #[inline(always)]
    fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
        Sse2::equal(block, byte)
    }

    #[inline(always)]
    fn at_most(block: &[u8; BLOCK], byte: u8) -> u64 {
        Sse2::at_most(block, byte)
    }

    #[inline(always)]
    fn digits(block: &[u8; BLOCK]) -> u64 {
        Sse2::digits(block)
    }
}

/// 32 bytes at a time. Only to be used where the processor has AVX2: [`super::super::Instructions`]
/// sees to it.
pub(crate) struct Avx2;

#[inline(always)]
fn by_32(block: &[u8; BLOCK], compare: impl Fn(__m256i) -> __m256i) -> u64 {
    let lane = |number: usize| -> u64 {
        // SAFETY: who uses `Avx2` has made sure of the feature, and the load is unaligned within
        // the 64 bytes of the block (number < 2).
        let bits = unsafe {
            _mm256_movemask_epi8(compare(_mm256_loadu_si256(
                block.as_ptr().add(32 * number).cast(),
            )))
        };
        u64::from(bits as u32)
    };
    lane(0) | lane(1) << 32
}

impl Masks for Avx2 {
    #[inline(always)]
    fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
        // SAFETY: who uses `Avx2` has made sure of the feature.
        by_32(block, |lane| unsafe { _mm256_cmpeq_epi8(lane, _mm256_set1_epi8(byte as i8)) })
    }

    #[inline(always)]
    fn at_most(block: &[u8; BLOCK], byte: u8) -> u64 {
        // SAFETY: who uses `Avx2` has made sure of the feature.
        by_32(block, |lane| unsafe {
            _mm256_cmpeq_epi8(_mm256_min_epu8(lane, _mm256_set1_epi8(byte as i8)), lane)
        })
    }

    #[inline(always)]
    fn digits(block: &[u8; BLOCK]) -> u64 {
        // SAFETY: who uses `Avx2` has made sure of the feature.
        by_32(block, |lane| unsafe {
            let values = _mm256_sub_epi8(lane, _mm256_set1_epi8(b'0' as i8));
            _mm256_cmpeq_epi8(_mm256_min_epu8(values, _mm256_set1_epi8(9)), values)
        })
    }
}
