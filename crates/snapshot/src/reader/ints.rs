//! A list of unsigned integers, as `nodes`, `edges` and the small lists are: found 64 bytes at a
//! time, converted eight digits at a time. Strict: exactly one comma between two numbers, nothing
//! but whitespace besides, digits only, below 2^64.
//!
//! A number's end is a byte that is no digit behind one that is. Commas and the beginnings of
//! numbers must alternate, which is the parity of their common mask; so a whole block is checked by
//! a handful of instructions and then only its ends are visited. The numbers of usual blocks are
//! converted several at a time, by `dense`, or by `wide` where the processor can; the tests compare
//! all on every input.

mod dense;
#[cfg(target_arch = "x86_64")]
pub(super) mod wide;

use super::Instructions;
use super::blocks::{self, BLOCK, Masks};
use crate::ReadError;

/// The numbers that one block can complete.
pub(crate) const FILL_ROOM: usize = BLOCK / 2 + 1;

/// A scanner behind the opening bracket of a list.
#[derive(Clone, Debug)]
pub(crate) struct Ints<'a> {
    bytes: &'a [u8],
    /// The next block.
    at: usize,
    /// Where the number that is being read began.
    token_from: usize,
    /// Whether the last byte was a digit.
    in_token: bool,
    /// All ones when a comma must come next.
    after_number: u64,
    /// Behind the closing bracket, when it was found.
    end: Option<usize>,
    /// Always ones that the processor has.
    instructions: Instructions,
}

impl<'a> Ints<'a> {
    /// A list whose first byte behind `[` is at `at`.
    pub fn new(bytes: &'a [u8], at: usize, asked: Option<Instructions>) -> Self {
        Ints {
            bytes,
            at,
            token_from: at,
            in_token: false,
            after_number: 0,
            end: None,
            instructions: Instructions::chosen(asked),
        }
    }

    /// Where the list ended, behind its bracket.
    pub fn end(&self) -> Option<usize> {
        self.end
    }

    /// Fills `out` with numbers of whole blocks and returns their count; 0: the list has ended.
    /// `out` must have room for [`FILL_ROOM`] numbers.
    pub fn fill(&mut self, out: &mut [u64]) -> Result<usize, ReadError> {
        match self.instructions {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => self.fill_wide(out),
            // SAFETY: `instructions` are only ever ones that the processor has, these features
            // among them.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => unsafe { dense::fill_avx2(self, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Sse4 => unsafe { dense::fill_sse4(self, out) },
            #[cfg(target_arch = "x86_64")]
            Instructions::Sse2 => self.fill_dense::<blocks::Sse2>(out),
            #[cfg(target_arch = "aarch64")]
            Instructions::Neon => self.fill_dense::<blocks::Neon>(out),
            _ => self.fill_dense::<blocks::Portable>(out),
        }
    }

    /// Converts blocks with `wide`, and one by one the blocks that it refuses.
    #[cfg(target_arch = "x86_64")]
    fn fill_wide(&mut self, out: &mut [u64]) -> Result<usize, ReadError> {
        let mut filled = 0;
        while self.end.is_none() && out.len() - filled >= FILL_ROOM {
            // SAFETY: `instructions` are only ever ones that the processor has, and say that it has
            // every feature the function is compiled for.
            filled += unsafe { wide::fill(self, &mut out[filled..]) };
            if out.len() - filled < FILL_ROOM {
                break;
            }
            filled += self.block::<blocks::Sse2>(&mut out[filled..])?;
        }
        Ok(filled)
    }

    /// Converts one block of any content.
    #[inline(always)]
    fn block<M: Masks>(&mut self, out: &mut [u64]) -> Result<usize, ReadError> {
        let block = blocks::block_at(self.bytes, self.at);
        let masks = M::integers(&block);
        let stops = !(masks.digits | masks.commas | masks.spaces);
        if stops != 0 {
            return self.last_block(masks, stops, out);
        }
        let followed = masks.digits << 1 | u64::from(self.in_token);
        let starts = masks.digits & !followed;
        let ends = followed & !masks.digits;
        let turns = blocks::parity(masks.commas | starts) ^ self.after_number;
        if starts & !turns | masks.commas & turns != 0 {
            return Err(self.misplaced(starts & !turns | masks.commas & turns));
        }
        let filled = if masks.spaces == 0
            && !has_long_run(masks.digits)
            && self.at >= 16
            && self.at + BLOCK <= self.bytes.len()
        {
            self.convert_dense(masks.digits, ends, out)?
        } else {
            self.convert(starts, ends, out)?
        };
        self.in_token = masks.digits >> 63 != 0;
        self.after_number = ((turns as i64) >> 63) as u64;
        self.at += BLOCK;
        Ok(filled)
    }

    /// The numbers that end at `ends`.
    #[inline]
    fn convert(
        &mut self,
        mut starts: u64,
        mut ends: u64,
        out: &mut [u64],
    ) -> Result<usize, ReadError> {
        let mut filled = 0;
        let mut from = self.token_from;
        if !self.in_token {
            from = self.at + starts.trailing_zeros() as usize;
            starts &= starts.wrapping_sub(1);
        }
        while ends != 0 {
            let to = self.at + ends.trailing_zeros() as usize;
            ends &= ends - 1;
            out[filled] = number(self.bytes, from, to)?;
            filled += 1;
            // After the last start this lies beyond the block. The next block resets it, unless a
            // number is open; then the value is right.
            from = self.at + starts.trailing_zeros() as usize;
            starts &= starts.wrapping_sub(1);
        }
        self.token_from = from;
        Ok(filled)
    }

    /// Like [`Ints::block`] for a block with only digits and single commas, and no number of more
    /// than 16 digits. V8 writes such blocks since it writes a list in one line. Every byte that is
    /// not a digit ends a number, or begins the block.
    #[inline(always)]
    fn convert_dense(
        &mut self,
        digits: u64,
        ends: u64,
        out: &mut [u64],
    ) -> Result<usize, ReadError> {
        let Some((filled, mut after_comma, mut ends)) = self.open_number(digits, ends, out)? else {
            return Ok(0);
        };
        let count = ends.count_ones() as usize;
        // SAFETY: the caller has made sure that 16 bytes stand before the block and the block lies
        // within the file's bytes.
        let block = unsafe { self.bytes.as_ptr().add(self.at) };
        for slot in &mut out[filled..filled + count] {
            let to = ends.trailing_zeros();
            let text = |to: u32| {
                // SAFETY: `to` is below 64, so that these are 8 bytes between 16 before the block
                // and its end.
                let bytes = unsafe { block.offset(to as isize - 8).cast::<[u8; 8]>().read() };
                u64::from_le_bytes(bytes)
            };
            let length = (to - after_comma) as usize;
            *slot = value_of(text(to), length.min(8));
            if length > 8 {
                // SAFETY: as above; the number has more than 8 digits in this block, so that its
                // upper ones end within it.
                *slot += 100_000_000 * value_of(text(to - 8), length - 8);
            }
            after_comma = to + 1;
            ends &= ends - 1;
        }
        self.token_from = self.at + after_comma as usize;
        Ok(filled + count)
    }

    /// Begins a dense block: finishes the number that was open at its start and may have digits
    /// before the block. Returns how many numbers that makes, where the next begins, and the
    /// remaining ends. `None` if the open number does not end here.
    #[inline(always)]
    fn open_number(
        &self,
        digits: u64,
        ends: u64,
        out: &mut [u64],
    ) -> Result<Option<(usize, u32, u64)>, ReadError> {
        if !self.in_token {
            return Ok(Some((0, (!digits).trailing_ones(), ends)));
        }
        let to = ends.trailing_zeros() as usize;
        if to == BLOCK {
            return Ok(None);
        }
        out[0] = number(self.bytes, self.token_from, self.at + to)?;
        Ok(Some((1, to as u32 + 1, ends & (ends - 1))))
    }

    /// The block in which the list ends, or breaks: its bytes before the first that belongs to no
    /// list of integers.
    #[cold]
    fn last_block(
        &mut self,
        mut masks: blocks::IntMasks,
        stops: u64,
        out: &mut [u64],
    ) -> Result<usize, ReadError> {
        let stop = stops.trailing_zeros();
        let before = (1u64 << stop) - 1;
        masks.digits &= before;
        masks.commas &= before;
        let followed = masks.digits << 1 | u64::from(self.in_token);
        let starts = masks.digits & !followed;
        let ends = followed & !masks.digits;
        let turns = blocks::parity(masks.commas | starts) ^ self.after_number;
        let misplaced = starts & !turns | masks.commas & turns & before;
        if misplaced != 0 {
            return Err(self.misplaced(misplaced));
        }
        let place = self.at + stop as usize;
        let filled = self.convert(starts, ends, out)?;
        let after_number =
            if stop == 0 { self.after_number != 0 } else { turns >> (stop - 1) & 1 != 0 };
        let empty = masks.commas == 0 && !after_number && self.began_here();
        if self.bytes.get(place) != Some(&b']') {
            return Err(ReadError::at(
                self.bytes,
                place,
                if after_number { "a comma or `]`" } else { "an integer" },
            ));
        }
        if !after_number && !empty {
            return Err(ReadError::at(self.bytes, place, "an integer"));
        }
        self.end = Some(place + 1);
        Ok(filled)
    }

    /// Whether nothing but whitespace stands between here and the opening bracket.
    fn began_here(&self) -> bool {
        let before = self.bytes[..self.at].iter().rev().find(|byte| !byte.is_ascii_whitespace());
        matches!(before, Some(b'[') | None)
    }

    #[cold]
    fn misplaced(&self, places: u64) -> ReadError {
        let place = self.at + places.trailing_zeros() as usize;
        let expected = if self.bytes.get(place) == Some(&b',') { "an integer" } else { "a comma" };
        ReadError::at(self.bytes, place, expected)
    }
}

/// The number with the digits `bytes[from..to]`.
#[inline]
fn number(bytes: &[u8], from: usize, to: usize) -> Result<u64, ReadError> {
    let digits = to - from;
    if to >= 8 && digits <= 8 {
        return Ok(eight(bytes, to, digits));
    }
    if to >= 16 && digits <= 16 {
        return Ok(eight(bytes, to, 8) + 100_000_000 * eight(bytes, to - 8, digits - 8));
    }
    slow_number(bytes, from, to)
}

/// The number of at most 8 digits that ends before `to`.
#[inline]
fn eight(bytes: &[u8], to: usize, digits: usize) -> u64 {
    bytes[..to].last_chunk::<8>().map_or(0, |chunk| value_of(u64::from_le_bytes(*chunk), digits))
}

/// The number in the last 1 to 8 characters of 8: those that are not its own blanked, the others
/// summed pairwise.
#[inline]
fn value_of(text: u64, digits: usize) -> u64 {
    debug_assert!((1..=8).contains(&digits));
    sum((text ^ 0x3030_3030_3030_3030) & (!0 << (64 - 8 * digits)))
}

/// The number with these eight digits as bytes, the first digit lowest.
#[inline(always)]
fn sum(values: u64) -> u64 {
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = (pairs >> 16 & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    low.wrapping_add(high) >> 32
}

/// Whether 17 bits in a row are set.
#[inline]
fn has_long_run(mut bits: u64) -> bool {
    bits &= bits << 1;
    bits &= bits << 2;
    bits &= bits << 4;
    bits &= bits << 8;
    bits & bits << 1 != 0
}

#[cold]
fn slow_number(bytes: &[u8], from: usize, to: usize) -> Result<u64, ReadError> {
    let mut value: u64 = 0;
    for digit in &bytes[from..to] {
        let next =
            value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
        value = next.ok_or_else(|| ReadError::at(bytes, from, "an integer below 2^64"))?;
    }
    Ok(value)
}

/// Finds the number at an index, for a message about its value. `at` is behind the list's bracket.
#[cold]
pub(crate) fn offset_of(bytes: &[u8], at: usize, index: u64) -> usize {
    let mut seen = 0;
    let mut in_token = false;
    for (place, byte) in bytes.iter().enumerate().skip(at) {
        let digit = byte.is_ascii_digit();
        if digit && !in_token {
            if seen == index {
                return place;
            }
            seen += 1;
        }
        in_token = digit;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All numbers of a list that begins behind `before` and its bracket.
    fn read(before: &str, list: &str) -> Result<(Vec<u64>, usize), ReadError> {
        let text = format!("{before}[{list}");
        let by = |instructions| {
            read_by(Ints::new(text.as_bytes(), before.len() + 1, Some(instructions)))
        };
        let read = by(Instructions::Portable);
        for instructions in
            Instructions::ALL.into_iter().filter(|instructions| instructions.is_usable())
        {
            assert_eq!(
                format!("{read:?}"),
                format!("{:?}", by(instructions)),
                "{instructions:?} {text:?}"
            );
        }
        read
    }

    fn read_by(mut ints: Ints<'_>) -> Result<(Vec<u64>, usize), ReadError> {
        let (mut all, mut buffer) = (Vec::new(), [0; 64]);
        loop {
            let filled = ints.fill(&mut buffer)?;
            if filled == 0 && ints.end().is_some() {
                return Ok((all, ints.end().unwrap()));
            }
            all.extend_from_slice(&buffer[..filled]);
        }
    }

    proptest! {
        #[test]
        fn lists_are_read_wherever_they_begin_and_however_they_are_spaced(
            numbers in prop::collection::vec((prop_oneof![0u32..64, 40u32..64], any::<u64>()), 0..200),
            before in 0usize..140,
            newlines in any::<bool>(),
        ) {
            let numbers: Vec<u64> = numbers.into_iter().map(|(bits, value)| value >> bits).collect();
            let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
            let list = words.join(if newlines { "\n, " } else { "," }) + "]}";
            let before = " ".repeat(before);
            let (read, end) = read(&before, &list).unwrap();
            prop_assert_eq!(read, numbers);
            prop_assert_eq!(end, before.len() + list.len());
        }

        #[test]
        fn anything_is_read_as_serde_would_or_refused_where_it_breaks(text in "[0-9,\\]\\[ \n-]{0,100}", good in 0usize..60, before in 0usize..140) {
            let text = "12,345678901,".repeat(good) + &text;
            let list = text.split_inclusive(']').next().unwrap_or("");
            let expected: Option<Vec<u64>> = expected(list);
            let got = read(&" ".repeat(before), &text);
            match (expected, got) {
                (Some(expected), Ok((got, _))) => prop_assert_eq!(got, expected),
                (None, Err(error)) => prop_assert!(error.offset as usize <= before + 1 + text.len()),
                (expected, got) => prop_assert!(false, "{text:?}: {expected:?} {got:?}"),
            }
        }
    }

    /// A list's numbers by splitting; leading zeros are taken, as DevTools takes them.
    fn expected(list: &str) -> Option<Vec<u64>> {
        let inner = list.strip_suffix(']')?;
        if inner.trim().is_empty() {
            return Some(Vec::new());
        }
        let number = |word: &str| {
            let word = word.trim_matches([' ', '\n']);
            if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
                None
            } else {
                word.parse().ok()
            }
        };
        inner.split(',').map(number).collect()
    }

    #[test]
    fn each_way_to_break_a_list_is_refused_at_its_byte() {
        let cases = [
            ("1,,2]", 3, "an integer"),
            (",1]", 1, "an integer"),
            ("1,]", 3, "an integer"),
            ("1 2]", 3, "a comma"),
            ("1.5]", 2, "a comma or `]`"),
            ("-1]", 1, "an integer"),
            ("1,2", 4, "a comma or `]`"),
            ("", 1, "an integer"),
            ("1,\"a\"]", 3, "an integer"),
            ("1,18446744073709551616]", 3, "an integer below 2^64"),
        ];
        for (list, offset, expected) in cases {
            let error = read("", list).unwrap_err();
            assert_eq!((error.offset, error.expected.as_str()), (offset, expected), "{list}");
        }
        assert_eq!(read("", "18446744073709551615]").unwrap().0, [u64::MAX]);
        assert_eq!(offset_of(b"[10,\n,200,3]", 1, 2), 10);
    }
}
