//! The usual block: digits and single commas, no number longer than eight digits. What V8 has
//! written since it writes lists in one line is little else.
//!
//! The commas alone decide whether a block qualifies. Its numbers are made in two steps. First the
//! eight bytes before each comma are copied as they are ([`Ints::texts`]): a few scalar
//! instructions a number, no branch on its length. Then all texts of a whole buffer become numbers,
//! several at a time ([`Digits::numbers`]): bytes up to the last non-digit are blanked, and three
//! multiplications add the digits up. All other blocks go to [`Ints::block`], which alone reports
//! errors, so numbers and errors are the same on every machine.

use super::{BLOCK, FILL_ROOM, Ints};
use crate::ReadError;
use crate::reader::blocks::{Masks, Portable};

/// The digits of a text.
const TEXT_BYTES: usize = 8;

/// Instructions that can take usual blocks.
pub(super) trait Digits: Masks {
    /// The commas of a block, if it has only digits and commas.
    fn commas(block: &[u8; BLOCK]) -> Option<u64>;

    /// Eight bytes of the file as [`Digits::numbers`] takes them.
    #[inline(always)]
    fn text(bytes: [u8; TEXT_BYTES]) -> u64 {
        u64::from_le_bytes(bytes)
    }

    /// Turns texts into the numbers that they end with, in place: numbers of one to eight digits,
    /// before which stands a byte that is none unless there are eight.
    fn numbers(texts: &mut [u64]);
}

impl Ints<'_> {
    /// [`Ints::fill`] with usual blocks taken by `D`.
    #[inline(always)]
    pub(super) fn fill_dense<D: Digits>(&mut self, out: &mut [u64]) -> Result<usize, ReadError> {
        let mut filled = 0;
        while self.end.is_none() && out.len() - filled >= FILL_ROOM {
            let texts = self.texts::<D>(&mut out[filled..]);
            D::numbers(&mut out[filled..filled + texts]);
            filled += texts;
            if out.len() - filled >= FILL_ROOM {
                filled += self.block::<D>(&mut out[filled..])?;
            }
        }
        Ok(filled)
    }

    /// The texts of the numbers that end in the next blocks, until `out` is full or a block is none
    /// of the usual ones; and how many.
    #[inline(always)]
    fn texts<D: Digits>(&mut self, out: &mut [u64]) -> usize {
        // Where a number and a space stand before the block, only a comma may come.
        if !self.in_token && self.after_number != 0 {
            return 0;
        }
        let mut filled = 0;
        let (mut at, mut token_from, mut in_token) = (self.at, self.token_from, self.in_token);
        while out.len() - filled >= FILL_ROOM {
            let window: Option<&[u8; TEXT_BYTES + BLOCK]> =
                at.checked_sub(TEXT_BYTES).and_then(|from| self.bytes.get(from..)?.first_chunk());
            let Some(window) = window else { break };
            let Some(commas) = window[TEXT_BYTES..].first_chunk().and_then(D::commas) else {
                break;
            };
            // A comma may follow a digit alone.
            let misplaced = commas & (commas << 1 | u64::from(!in_token));
            let open = if in_token { at - token_from } else { 0 };
            if misplaced != 0
                || has_nine(!commas)
                || open + commas.trailing_zeros() as usize > TEXT_BYTES
            {
                break;
            }
            let count = commas.count_ones() as usize;
            let mut left = commas;
            for slots in out[filled..filled + count.next_multiple_of(4)].as_chunks_mut::<4>().0 {
                for slot in slots {
                    // Behind the last comma this is 64; the next block overwrites the bytes read
                    // there, or nobody looks at them.
                    let comma = left.trailing_zeros() as usize;
                    left &= left.wrapping_sub(1);
                    // SAFETY: `comma` is at most 64, so that these are 8 of the window's 72 bytes.
                    *slot = D::text(unsafe {
                        window.as_ptr().add(comma).cast::<[u8; TEXT_BYTES]>().read()
                    });
                }
            }
            filled += count;
            // Without nine digits in a row there is a comma.
            token_from = at + BLOCK - commas.leading_zeros() as usize;
            in_token = commas >> (BLOCK - 1) == 0;
            at += BLOCK;
        }
        (self.at, self.token_from, self.in_token) = (at, token_from, in_token);
        self.after_number = if in_token { !0 } else { 0 };
        filled
    }
}

/// Whether nine bits in a row are set.
#[inline(always)]
fn has_nine(mut bits: u64) -> bool {
    bits &= bits << 1;
    bits &= bits << 2;
    bits &= bits << 4;
    bits & bits << 1 != 0
}

/// The high bit of each byte, and its lowest.
const HIGH: u64 = 0x8080_8080_8080_8080;
const LOW: u64 = 0x0101_0101_0101_0101;
/// Eight zeros as text, and eight commas.
const ZEROS: u64 = LOW * b'0' as u64;
const COMMAS: u64 = LOW * b',' as u64;

/// The high bit of each byte that is no digit, exactly; `values` are the bytes xor `0`.
#[inline(always)]
fn no_digits(values: u64) -> u64 {
    (((values & !HIGH) + 0x76 * LOW) | values) & HIGH
}

impl Digits for Portable {
    #[inline(always)]
    fn commas(block: &[u8; BLOCK]) -> Option<u64> {
        let (mut commas, mut others) = (0, 0);
        for (number, eight) in block.as_chunks::<8>().0.iter().enumerate() {
            let text = u64::from_le_bytes(*eight);
            let no_digits = no_digits(text ^ ZEROS);
            let differing = text ^ COMMAS;
            let no_commas = (((differing & !HIGH) + 0x7f * LOW) | differing) & HIGH;
            others |= no_digits & no_commas;
            // Bit 7 of byte i goes to bit 56 + i.
            let gathered = ((!no_commas & HIGH) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            commas |= gathered << (8 * number);
        }
        (others == 0).then_some(commas)
    }

    #[inline(always)]
    fn numbers(texts: &mut [u64]) {
        for text in texts {
            let values = *text ^ ZEROS;
            // Bits before the digits that end the text; there is a digit, so that they are at most
            // 56.
            let blank = 64 - no_digits(values).leading_zeros();
            *text = super::sum(values.wrapping_shr(blank).wrapping_shl(blank));
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(target_arch = "x86_64")]
pub(super) use x86::{fill_avx2, fill_sse4};

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every length behind every kind of byte that is no digit.
    fn check<D: Digits>() {
        let mut texts = Vec::new();
        let mut expected = Vec::new();
        for before in [0u8, b',', b'/', b':', b' ', 0x7f, 0x80, 0xb5, 0xff] {
            for (length, number) in [
                (1, 7u64),
                (2, 90),
                (3, 123),
                (4, 4096),
                (5, 99_999),
                (6, 100_000),
                (7, 1_234_567),
                (8, 98_765_432),
            ] {
                // Digits before that byte, which do not belong to the number.
                let mut text = *b"55555555";
                let digits = number.to_string();
                text[8 - length..].copy_from_slice(digits.as_bytes());
                if length < 8 {
                    text[7 - length] = before;
                }
                texts.push(D::text(text));
                expected.push(number);
            }
        }
        // Of every count, so that each remainder of those taken together is seen.
        for count in 0..texts.len() {
            let mut numbers = texts[..count].to_vec();
            D::numbers(&mut numbers);
            assert_eq!(numbers, expected[..count]);
        }
    }

    fn check_commas<D: Digits>() {
        let mut block = [b'1'; BLOCK];
        assert_eq!(D::commas(&block), Some(0));
        for place in 0..BLOCK {
            for byte in 0..=255u8 {
                block[place] = byte;
                let expected = match byte {
                    b',' => Some(1 << place),
                    b'0'..=b'9' => Some(0),
                    _ => None,
                };
                assert_eq!(D::commas(&block), expected, "{byte} at {place}");
            }
            block[place] = b'9';
        }
    }

    fn check_both<D: Digits>() {
        check::<D>();
        check_commas::<D>();
    }

    #[test]
    fn texts_become_the_numbers_they_end_with() {
        check_both::<Portable>();
        #[cfg(target_arch = "x86_64")]
        check_both::<crate::reader::blocks::Sse2>();
        #[cfg(target_arch = "x86_64")]
        if crate::Instructions::Sse4.is_usable() {
            check_both::<crate::reader::blocks::Sse4>();
        }
        #[cfg(target_arch = "x86_64")]
        if crate::Instructions::Avx2.is_usable() {
            check_both::<crate::reader::blocks::Avx2>();
        }
        #[cfg(target_arch = "aarch64")]
        check_both::<crate::reader::blocks::Neon>();
    }
}
