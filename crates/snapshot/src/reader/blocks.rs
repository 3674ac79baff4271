//! 64 bytes at a time: which of them are digits, commas, quotes. One bit a byte, so that the scanners above reason about 64 bytes
//! with a few instructions. SSE2 is part of x86-64; elsewhere the same masks are made byte by byte.
//!
//! The idea (masks, prefix sums of parity by xor) is that of simdjson, Langdale and Lemire 2019; the format's lists are so regular that
//! a block needs no second stage.

/// Bytes that are looked at together.
pub(crate) const BLOCK: usize = 64;

/// What the bytes of a block of integers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntMasks {
    pub digits: u64,
    pub commas: u64,
    pub spaces: u64,
}

/// What the bytes of a block of strings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringMasks {
    pub quotes: u64,
    pub backslashes: u64,
    /// Control characters, which JSON wants escaped within strings.
    pub controls: u64,
}

/// A bit for each byte that `is`.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn mask(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u64 {
    block.iter().enumerate().fold(0, |mask, (place, byte)| mask | u64::from(is(*byte)) << place)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// The masks of a block of integers.
#[inline]
pub(crate) fn integers(block: &[u8; BLOCK]) -> IntMasks {
    #[cfg(target_arch = "x86_64")]
    let (digits, commas) = (sse2::digits(block), sse2::equal(block, b','));
    #[cfg(not(target_arch = "x86_64"))]
    let (digits, commas) = (mask(block, |byte| byte.is_ascii_digit()), mask(block, |byte| byte == b','));
    let spaces = if digits | commas == !0 { 0 } else { spaces(block) };
    IntMasks { digits, commas, spaces }
}

/// The masks of a block of strings.
#[inline]
pub(crate) fn strings(block: &[u8; BLOCK]) -> StringMasks {
    #[cfg(target_arch = "x86_64")]
    return StringMasks { quotes: sse2::equal(block, b'"'), backslashes: sse2::equal(block, b'\\'), controls: sse2::at_most(block, 0x1f) };
    #[cfg(not(target_arch = "x86_64"))]
    StringMasks {
        quotes: mask(block, |byte| byte == b'"'),
        backslashes: mask(block, |byte| byte == b'\\'),
        controls: mask(block, |byte| byte < 0x20),
    }
}

/// Whitespace between tokens.
#[inline]
pub(crate) fn spaces(block: &[u8; BLOCK]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    return sse2::equal(block, b'\n') | sse2::equal(block, b' ') | sse2::equal(block, b'\r') | sse2::equal(block, b'\t');
    #[cfg(not(target_arch = "x86_64"))]
    mask(block, is_space)
}

/// Commas of a block.
#[inline]
pub(crate) fn commas(block: &[u8; BLOCK]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    return sse2::equal(block, b',');
    #[cfg(not(target_arch = "x86_64"))]
    mask(block, |byte| byte == b',')
}

/// Bit i of the result is the parity of bits 0 to i.
#[inline]
pub(crate) fn parity(mut bits: u64) -> u64 {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    bits ^ bits << 32
}

/// The block that begins at `at`; behind the end of the bytes it is filled with zeros, which nothing takes for a token.
#[inline]
pub(crate) fn block_at(bytes: &[u8], at: usize) -> std::borrow::Cow<'_, [u8; BLOCK]> {
    match bytes[at..].first_chunk() {
        Some(block) => std::borrow::Cow::Borrowed(block),
        None => {
            let mut block = [0; BLOCK];
            block[..bytes.len() - at].copy_from_slice(&bytes[at..]);
            std::borrow::Cow::Owned(block)
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    //! The masks by four 16-byte comparisons.

    use super::BLOCK;
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_set1_epi8, _mm_sub_epi8};

    #[inline]
    fn lanes(block: &[u8; BLOCK], compare: impl Fn(__m128i) -> __m128i) -> u64 {
        let lane = |number: usize| -> u64 {
            // SAFETY: SSE2 is part of every x86-64, and the load is unaligned within the 64 bytes of the block (number < 4).
            let bits = unsafe { _mm_movemask_epi8(compare(_mm_loadu_si128(block.as_ptr().add(16 * number).cast()))) };
            u64::from(bits as u16)
        };
        lane(0) | lane(1) << 16 | lane(2) << 32 | lane(3) << 48
    }

    #[inline]
    pub fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
        // SAFETY: SSE2 is part of every x86-64.
        lanes(block, |lane| unsafe { _mm_cmpeq_epi8(lane, _mm_set1_epi8(byte as i8)) })
    }

    #[inline]
    pub fn at_most(block: &[u8; BLOCK], byte: u8) -> u64 {
        // SAFETY: SSE2 is part of every x86-64.
        lanes(block, |lane| unsafe { _mm_cmpeq_epi8(_mm_min_epu8(lane, _mm_set1_epi8(byte as i8)), lane) })
    }

    #[inline]
    pub fn digits(block: &[u8; BLOCK]) -> u64 {
        // SAFETY: SSE2 is part of every x86-64.
        lanes(block, |lane| unsafe {
            let values = _mm_sub_epi8(lane, _mm_set1_epi8(b'0' as i8));
            _mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_what_a_loop_over_bytes_says() {
        for start in (0..=255u8).step_by(64) {
            let mut block = [0; BLOCK];
            (0..BLOCK).for_each(|place| block[place] = start + place as u8);
            let ints = integers(&block);
            assert_eq!(ints.digits, mask(&block, |byte| byte.is_ascii_digit()));
            assert_eq!(ints.commas, mask(&block, |byte| byte == b','));
            assert_eq!(ints.spaces, mask(&block, is_space));
            assert_eq!(commas(&block), ints.commas);
            let strings = strings(&block);
            assert_eq!(strings.quotes, mask(&block, |byte| byte == b'"'));
            assert_eq!(strings.backslashes, mask(&block, |byte| byte == b'\\'));
            assert_eq!(strings.controls, mask(&block, |byte| byte < 0x20));
        }
    }

    #[test]
    fn parity_counts_from_the_first_bit() {
        assert_eq!(parity(0b0010_0100), 0b0001_1100);
        assert_eq!(parity(1), !0);
        assert_eq!(parity(0), 0);
    }

    #[test]
    fn the_last_block_is_filled() {
        assert_eq!(block_at(b"12", 1)[..3], [b'2', 0, 0]);
    }
}
