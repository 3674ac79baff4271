//! Finds digits, commas and quotes in 64 bytes at a time, one bit a byte. The scanners above then
//! handle 64 bytes with a few instructions. A type ([`Masks`]) makes the masks, and the scanners
//! are compiled once for each.
//!
//! The idea (masks, prefix sums of parity by xor) is that of simdjson, Langdale and Lemire 2019;
//! the format's lists are so regular that a block needs no second stage.

/// Bytes that are looked at together.
pub(crate) const BLOCK: usize = 64;

/// The masks of a block of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntMasks {
    pub digits: u64,
    pub commas: u64,
    pub spaces: u64,
}

/// The masks of a block of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringMasks {
    pub quotes: u64,
    pub backslashes: u64,
    /// Control characters, which JSON wants escaped within strings.
    pub controls: u64,
}

/// A way to make masks.
pub(crate) trait Masks {
    /// A bit for each byte that is the given one.
    fn equal(block: &[u8; BLOCK], byte: u8) -> u64;
    /// A bit for each byte that is at most the given one.
    fn at_most(block: &[u8; BLOCK], byte: u8) -> u64;
    /// A bit for each digit.
    fn digits(block: &[u8; BLOCK]) -> u64;

    /// Whitespace between tokens.
    #[inline(always)]
    fn spaces(block: &[u8; BLOCK]) -> u64 {
        Self::equal(block, b'\n')
            | Self::equal(block, b' ')
            | Self::equal(block, b'\r')
            | Self::equal(block, b'\t')
    }

    /// The masks of a block of integers.
    #[inline(always)]
    fn integers(block: &[u8; BLOCK]) -> IntMasks {
        let (digits, commas) = (Self::digits(block), Self::equal(block, b','));
        let spaces = if digits | commas == !0 { 0 } else { Self::spaces(block) };
        IntMasks { digits, commas, spaces }
    }

    /// The masks of a block of strings.
    #[inline(always)]
    fn strings(block: &[u8; BLOCK]) -> StringMasks {
        StringMasks {
            quotes: Self::equal(block, b'"'),
            backslashes: Self::equal(block, b'\\'),
            controls: Self::at_most(block, 0x1f),
        }
    }
}

/// Eight bytes at a time in a word, for any processor.
pub(crate) struct Portable;

/// The lowest bit of every byte, and the highest.
const LOWEST: u64 = 0x0101_0101_0101_0101;
const HIGHEST: u64 = LOWEST << 7;

/// A bit for each byte of a block. `is` takes eight bytes and sets the highest bit of the wanted
/// ones.
#[inline(always)]
fn mask(block: &[u8; BLOCK], is: impl Fn(u64) -> u64) -> u64 {
    let mut mask = 0;
    for (number, eight) in block.as_chunks::<8>().0.iter().enumerate() {
        // They are gathered by one multiplication: bit 0 of byte i goes to bit 56 + i.
        let truths = is(u64::from_le_bytes(*eight)) >> 7;
        mask |= (truths.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * number);
    }
    mask
}

/// The highest bit of the bytes that are at most `most`, which is below 128: no byte carries into
/// the next.
#[inline(always)]
fn at_most(eight: u64, most: u8) -> u64 {
    let beyond = (eight & !HIGHEST) + LOWEST * u64::from(127 - most);
    !(beyond | eight) & HIGHEST
}

impl Masks for Portable {
    #[inline(always)]
    fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
        mask(block, |eight| at_most(eight ^ (LOWEST * u64::from(byte)), 0))
    }

    #[inline(always)]
    fn at_most(block: &[u8; BLOCK], byte: u8) -> u64 {
        mask(block, |eight| at_most(eight, byte))
    }

    #[inline(always)]
    fn digits(block: &[u8; BLOCK]) -> u64 {
        mask(block, |eight| at_most(eight ^ (LOWEST * u64::from(b'0')), 9))
    }

    #[inline(always)]
    fn spaces(block: &[u8; BLOCK]) -> u64 {
        mask(block, |eight| {
            [b'\n', b' ', b'\r', b'\t']
                .into_iter()
                .fold(0, |is, byte| is | at_most(eight ^ (LOWEST * u64::from(byte)), 0))
        })
    }
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

/// The block that begins at `at`. Behind the end of the bytes it has zeros, which no scanner takes
/// for a token.
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

#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Sse2, Sse4};

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests {
    use super::*;

    fn by_bytes(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u64 {
        block.iter().enumerate().fold(0, |mask, (place, byte)| mask | u64::from(is(*byte)) << place)
    }

    fn check<M: Masks>() {
        for start in (0..=255u8).step_by(64) {
            let mut block = [0; BLOCK];
            // Not in order, so that a byte in another's place is noticed.
            (0..BLOCK).for_each(|place| block[place] = start + (place * 37 + 11) as u8 % 64);
            let ints = M::integers(&block);
            assert_eq!(ints.digits, by_bytes(&block, |byte| byte.is_ascii_digit()));
            assert_eq!(ints.commas, by_bytes(&block, |byte| byte == b','));
            assert_eq!(
                ints.spaces,
                by_bytes(&block, |byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
            );
            let strings = M::strings(&block);
            assert_eq!(strings.quotes, by_bytes(&block, |byte| byte == b'"'));
            assert_eq!(strings.backslashes, by_bytes(&block, |byte| byte == b'\\'));
            assert_eq!(strings.controls, by_bytes(&block, |byte| byte < 0x20));
        }
    }

    #[test]
    fn masks_are_what_a_loop_over_bytes_says() {
        check::<Portable>();
        #[cfg(target_arch = "x86_64")]
        check::<Sse2>();
        #[cfg(target_arch = "x86_64")]
        check::<Sse4>();
        #[cfg(target_arch = "x86_64")]
        if super::super::Instructions::Avx2.is_usable() {
            check::<Avx2>();
        }
        #[cfg(target_arch = "aarch64")]
        check::<Neon>();
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
