//! The hashes of the strings' table: V8's before the document, V8's after it, and ours.
//!
//! Of numeric strings V8 took the number of digits above 24 bits of the number; the document
//! rotated that by two bits, so that three slots stay free between neighbours. Other strings go
//! through the one-at-a-time hash of Bob Jenkins, as in V8. Ours makes no difference between them:
//! eight bytes at a time, multiplied into 128 bits and folded, in the manner of wyhash.

/// How strings are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Hash {
    /// V8 before 11.5.130: a number is its own hash.
    V8Original,
    /// V8 since: the same, rotated by two bits.
    V8Shifted,
    /// Ours.
    #[default]
    Mixed,
}

const VALUE_BITS: u32 = 24;
/// V8 hashes decimal numbers of at most so many digits as numbers; longer ones are strings.
const DIGITS_MAX: usize = 10;
const MULTIPLIER_A: u64 = 0x9E37_79B9_7F4A_7C15;
const MULTIPLIER_B: u64 = 0xD6E8_FEB8_6659_FD93;

impl Hash {
    /// The hash of a string.
    #[inline]
    pub fn of(self, text: &[u8]) -> u32 {
        match self {
            Hash::V8Original => numeric(text).unwrap_or_else(|| one_at_a_time(text)),
            Hash::V8Shifted => {
                numeric(text).map_or_else(|| one_at_a_time(text), |hash| hash.rotate_left(2))
            }
            Hash::Mixed => mixed(text),
        }
    }

    /// The slot where a hash begins to look.
    #[inline]
    pub(super) fn slot(self, hash: u32, slots: usize) -> usize {
        hash as usize & (slots - 1)
    }

    /// Whether a table with this many slots must grow.
    #[inline]
    pub(super) fn is_full(self, strings: usize, slots: usize) -> bool {
        match self {
            Hash::V8Original | Hash::V8Shifted => strings + strings / 4 >= slots,
            Hash::Mixed => strings * 16 >= slots * 7,
        }
    }
}

/// The document's `OriginalHash`, if the string is a number.
fn numeric(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > DIGITS_MAX || (text[0] == b'0' && text.len() > 1) {
        return None;
    }
    let mut number = 0u64;
    for byte in text {
        number = number * 10 + u64::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
    }
    Some((text.len() as u32) << VALUE_BITS | (number as u32 & ((1 << VALUE_BITS) - 1)))
}

fn one_at_a_time(text: &[u8]) -> u32 {
    let mut hash = 0u32;
    for byte in text {
        hash = hash.wrapping_add(u32::from(*byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

fn mixed(text: &[u8]) -> u32 {
    let mut state = (text.len() as u64).wrapping_mul(MULTIPLIER_A) ^ MULTIPLIER_B;
    let mut pieces = text.chunks_exact(8);
    for piece in &mut pieces {
        state =
            fold(state ^ u64::from_le_bytes(piece.try_into().unwrap_or_default()), MULTIPLIER_A);
    }
    let mut last = 0u64;
    for byte in pieces.remainder() {
        last = last << 8 | u64::from(*byte);
    }
    let state = fold(state ^ last, MULTIPLIER_B);
    (state ^ state >> 32) as u32
}

/// Both halves of the product, folded into one.
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_tables() {
        let rows: [(&str, u32, u32); 7] = [
            ("0", 0x100_0000, 0x400_0000),
            ("1", 0x100_0001, 0x400_0004),
            ("2", 0x100_0002, 0x400_0008),
            ("3", 0x100_0003, 0x400_000c),
            ("10", 0x200_000a, 0x800_0028),
            ("11", 0x200_000b, 0x800_002c),
            ("100", 0x300_0064, 0xc00_0190),
        ];
        for (text, original, shifted) in rows {
            assert_eq!(
                (Hash::V8Original.of(text.as_bytes()), Hash::V8Shifted.of(text.as_bytes())),
                (original, shifted),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_number_is_hashed_as_a_string() {
        for text in ["", "01", "1a", "-1", "12345678901"] {
            assert_eq!(Hash::V8Original.of(text.as_bytes()), one_at_a_time(text.as_bytes()));
        }
        // Published values of the one-at-a-time hash.
        assert_eq!(one_at_a_time(b"a"), 0xca2e_9442);
        assert_eq!(one_at_a_time(b"The quick brown fox jumps over the lazy dog"), 0x519e_91f5);
    }
}
