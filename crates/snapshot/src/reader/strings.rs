//! The list of strings, last in the file and often half of it. Only the beginning of each string is
//! kept. Quotes are found 64 bytes at a time. The scanner checks that exactly one comma stands
//! between strings, that no string has a bare control character, and that every escape is one of
//! JSON's. Characters are decoded on demand ([`crate::Strings`]).

use super::Instructions;
use super::blocks::{self, BLOCK, Masks, Portable};
use crate::ReadError;

/// Where strings begin (behind their quote), and where the list ends (behind its bracket).
pub(crate) struct Found {
    pub starts: Vec<u64>,
    pub end: usize,
}

/// State carried from one block to the next.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    /// All ones within a string.
    within: u64,
    /// The next byte is escaped.
    escaped: bool,
    /// All ones when a comma must come next (outside of strings).
    after_string: u64,
    starts: Vec<u64>,
}

/// Scans the list whose first byte behind `[` is at `at`. Makes room for `expected` strings at
/// once; the caller must have bounded that number.
pub(crate) fn scan(
    bytes: &[u8],
    at: usize,
    expected: usize,
    asked: Option<Instructions>,
) -> Result<Found, ReadError> {
    let scan = Scan {
        bytes,
        at,
        within: 0,
        escaped: false,
        after_string: 0,
        starts: Vec::with_capacity(expected),
    };
    match Instructions::chosen(asked) {
        Instructions::Portable => scan.run::<Portable>(),
        // The memory is the limit here already: 16 bytes at a time are enough.
        #[cfg(target_arch = "x86_64")]
        _ => scan.run::<blocks::Sse2>(),
        #[cfg(target_arch = "aarch64")]
        _ => scan.run::<blocks::Neon>(),
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        _ => scan.run::<Portable>(),
    }
}

impl Scan<'_> {
    fn run<M: Masks>(mut self) -> Result<Found, ReadError> {
        loop {
            if let Some(end) = self.block::<M>()? {
                self.starts.shrink_to_fit();
                return Ok(Found { starts: self.starts, end });
            }
        }
    }

    /// Scans one block; returns the place behind the list's bracket if the block has it.
    #[inline]
    fn block<M: Masks>(&mut self) -> Result<Option<usize>, ReadError> {
        let block = blocks::block_at(self.bytes, self.at);
        let masks = M::strings(&block);
        let escaped = if masks.backslashes == 0 {
            u64::from(std::mem::take(&mut self.escaped))
        } else {
            self.escapes(masks.backslashes)?
        };
        let quotes = masks.quotes & !escaped;
        // From an opening quote (set) to before the closing one.
        let within = blocks::parity(quotes) ^ self.within;
        let opens = quotes & within;
        let closes = quotes & !within;
        let outside = !(within | closes);
        let commas = M::equal(&block, b',') & outside;
        let rest = outside & !commas;
        let stops = if rest == 0 { 0 } else { rest & !M::spaces(&block) };
        let before = if stops == 0 { !0 } else { (stops & stops.wrapping_neg()) - 1 };
        let turns = blocks::parity(commas | opens) ^ self.after_string;
        let misplaced = (opens & !turns | commas & turns | masks.controls & within) & before;
        if misplaced != 0 {
            return Err(self.misplaced(misplaced.trailing_zeros()));
        }
        let mut opens = opens & before;
        self.starts.reserve(BLOCK / 2);
        while opens != 0 {
            self.starts.push((self.at + opens.trailing_zeros() as usize + 1) as u64);
            opens &= opens - 1;
        }
        if stops != 0 {
            let stop = stops.trailing_zeros();
            let after =
                if stop == 0 { self.after_string != 0 } else { turns >> (stop - 1) & 1 != 0 };
            return self.stop(self.at + stop as usize, after).map(Some);
        }
        self.within = ((within as i64) >> 63) as u64;
        self.after_string = ((turns as i64) >> 63) as u64;
        self.at += BLOCK;
        Ok(None)
    }

    /// The bytes that a backslash escapes. Each escape is checked here.
    fn escapes(&mut self, backslashes: u64) -> Result<u64, ReadError> {
        let mut escaped = 0;
        let mut place = 0;
        if std::mem::take(&mut self.escaped) {
            escaped = 1;
            place = 1;
        }
        while place < BLOCK as u32 {
            let left = backslashes >> place;
            if left == 0 {
                break;
            }
            place += left.trailing_zeros();
            self.check_escape(self.at + place as usize)?;
            if place == 63 {
                self.escaped = true;
                break;
            }
            escaped |= 1 << (place + 1);
            place += 2;
        }
        Ok(escaped)
    }

    fn check_escape(&self, at: usize) -> Result<(), ReadError> {
        let right = match self.bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => true,
            Some(b'u') => self
                .bytes
                .get(at + 2..at + 6)
                .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)),
            _ => false,
        };
        if right { Ok(()) } else { Err(ReadError::at(self.bytes, at, super::cursor::ESCAPE)) }
    }

    /// The first byte outside of strings that is neither comma nor space: the bracket, or an error.
    #[cold]
    fn stop(&self, place: usize, after_string: bool) -> Result<usize, ReadError> {
        if self.bytes.get(place) == Some(&b']') && (after_string || self.starts.is_empty()) {
            return Ok(place + 1);
        }
        Err(ReadError::at(
            self.bytes,
            place,
            if after_string { "a comma or `]`" } else { "a string in quotes" },
        ))
    }

    #[cold]
    fn misplaced(&self, place: u32) -> ReadError {
        let place = self.at + place as usize;
        let expected = match self.bytes.get(place) {
            Some(b'"') => "a comma",
            Some(b',') => "a string in quotes",
            Some(_) => "an escaped control character",
            None => "the end of a string",
        };
        ReadError::at(self.bytes, place, expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(before: usize, list: &str) -> Result<(Vec<String>, usize), ReadError> {
        let text = format!("{}[{list}", " ".repeat(before));
        let by = |instructions| {
            scan(text.as_bytes(), before + 1, 0, Some(instructions))
                .map(|found| (found.starts, found.end))
        };
        let portable = by(Instructions::Portable);
        for instructions in
            Instructions::ALL.into_iter().filter(|instructions| instructions.is_usable())
        {
            assert_eq!(by(instructions), portable, "{instructions:?} {text:?}");
        }
        let (starts, end) = portable?;
        let strings = starts.iter().map(|from| {
            let from = *from as usize;
            let mut at = from;
            while text.as_bytes()[at] != b'"' {
                at += if text.as_bytes()[at] == b'\\' { 2 } else { 1 };
            }
            text[from..at].to_owned()
        });
        Ok((strings.collect(), end))
    }

    proptest! {
        #[test]
        fn strings_are_found_wherever_they_stand(
            strings in prop::collection::vec("([a-z,\\]\\[ é]|\\\\\"|\\\\\\\\|\\\\u12aB){0,40}", 0..20),
            before in 0usize..70,
        ) {
            let list = strings.iter().map(|string| format!("\"{string}\"")).collect::<Vec<_>>().join(",\n") + " ]}";
            let (read, end) = read(before, &list).unwrap();
            prop_assert_eq!(read, strings);
            prop_assert_eq!(end, before + list.len());
        }

        #[test]
        fn no_bytes_make_it_panic(text in "[\",\\\\u\\]a \u{1}]{0,200}", before in 0usize..70) {
            if let Err(error) = read(before, &text) {
                prop_assert!(error.offset as usize <= before + 1 + text.len());
            }
        }
    }

    #[test]
    fn each_way_to_break_a_list_is_refused_at_its_byte() {
        let cases = [
            ("\"a\" \"b\"]", 5, "a comma"),
            ("\"a\",,\"b\"]", 5, "a string in quotes"),
            ("\"a\",]", 5, "a string in quotes"),
            ("\"a", 3, "the end of a string"),
            ("\"a\\q\"]", 3, "an escape"),
            ("\"\\u12g4\"]", 2, "an escape"),
            ("\"a\nb\"]", 3, "an escaped control character"),
            ("1]", 1, "a string in quotes"),
            ("\"a\"", 4, "a comma or `]`"),
        ];
        for (list, offset, expected) in cases {
            let error = read(0, list).map(|_| ()).unwrap_err();
            assert!(
                error.offset == offset && error.expected.starts_with(expected),
                "{list}: {error}"
            );
        }
        assert_eq!(read(0, "]").unwrap().1, 2);
    }
}
