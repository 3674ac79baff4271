//! A place in the bytes of a snapshot, and the few kinds of JSON that stand in one.

use super::Damage;
use std::ops::Range;

/// Nothing in a header nests deeper; a trace tree nests as deep as the program's stacks, and is walked without recursion.
const HEADER_DEPTH_MAX: usize = 32;

#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    /// From the start of `range` to its end: what lies behind does not exist.
    pub(super) fn over(bytes: &'a [u8], range: &Range<usize>) -> Cursor<'a> {
        Cursor { bytes: &bytes[..range.end], at: range.start }
    }

    pub(super) fn damage(&self, expected: &'static str) -> Damage {
        Damage::at(self.bytes, self.at, expected)
    }

    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Passes that byte if it comes next.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    #[inline]
    pub(super) fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), Damage> {
        if self.take(byte) { Ok(()) } else { Err(self.damage(expected)) }
    }

    /// An unsigned number.
    #[inline]
    pub(super) fn number(&mut self) -> Result<u64, Damage> {
        self.peek();
        let start = self.at;
        let mut number = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            number = number
                .checked_mul(10)
                .and_then(|number| number.checked_add(u64::from(digit - b'0')))
                .ok_or_else(|| Damage::at(self.bytes, start, "a number below 2^64"))?;
            self.at += 1;
        }
        // A number at the very end may be half of one: its list must go on.
        if self.at == start || self.at == self.bytes.len() {
            return Err(self.damage("an unsigned number"));
        }
        Ok(number)
    }

    /// A number that may be below zero.
    pub(super) fn signed(&mut self) -> Result<i64, Damage> {
        let below = self.take(b'-');
        let start = self.at;
        let number = i64::try_from(self.number()?).map_err(|_| Damage::at(self.bytes, start, "a number below 2^63"))?;
        Ok(if below { -number } else { number })
    }

    /// The inside of a string, escapes and all. Escapes are checked.
    pub(super) fn raw_string(&mut self) -> Result<&'a [u8], Damage> {
        self.expect(b'"', "a string")?;
        let start = self.at;
        loop {
            let rest = &self.bytes[self.at..];
            let Some(next) = rest.iter().position(|byte| *byte == b'"' || *byte == b'\\' || *byte < 32) else {
                self.at = self.bytes.len();
                return Err(self.damage("the end of a string"));
            };
            self.at += next;
            match self.bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(&self.bytes[start..self.at - 1]);
                }
                b'\\' => self.escape()?,
                _ => return Err(self.damage("a string without control characters")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Damage> {
        let length = match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') if self.bytes.get(self.at + 2..self.at + 6).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => 6,
            _ => return Err(self.damage("an escape as JSON has it")),
        };
        self.at += length;
        Ok(())
    }

    /// Passes any value, and says where it stood.
    pub(super) fn skip_value(&mut self) -> Result<Range<usize>, Damage> {
        let first = self.peek();
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Some(b'[' | b'{') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b']' | b'}') if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                Some(b'"') => {
                    self.raw_string()?;
                }
                Some(b',' | b':') if depth > 0 => self.at += 1,
                Some(b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b'+') => self.at += 1,
                _ => return Err(self.damage("a JSON value")),
            }
            let in_word = self.bytes.get(self.at).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
            if depth == 0 && (matches!(first, Some(b'[' | b'{' | b'"')) || !in_word) {
                return Ok(start..self.at);
            }
        }
    }

    /// Every key of an object, in order; `value` must pass its value.
    pub(super) fn object(&mut self, value: &mut dyn FnMut(&mut Self, &str) -> Result<(), Damage>) -> Result<(), Damage> {
        self.expect(b'{', "an object")?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let key = self.raw_string()?;
            self.expect(b':', "a colon")?;
            value(self, std::str::from_utf8(key).unwrap_or_default())?;
            if !self.take(b',') {
                return self.expect(b'}', "a comma or the end of the object");
            }
        }
    }

    /// Every element of a list; `value` must pass it.
    pub(super) fn list(&mut self, value: &mut dyn FnMut(&mut Self) -> Result<(), Damage>) -> Result<(), Damage> {
        self.expect(b'[', "a list")?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            value(self)?;
            if !self.take(b',') {
                return self.expect(b']', "a comma or the end of the list");
            }
        }
    }

    /// A list of strings; elements that are lists (the types of a header) are given one by one at depth 1.
    pub(super) fn strings(&mut self, depth: usize, found: &mut dyn FnMut(usize, String)) -> Result<(), Damage> {
        if depth > HEADER_DEPTH_MAX {
            return Err(self.damage("a header that nests less"));
        }
        self.list(&mut |cursor| match cursor.peek() {
            Some(b'[') => cursor.strings(depth + 1, found),
            _ => {
                let raw = cursor.raw_string()?;
                let mut text = Vec::new();
                unescape(raw, &mut text);
                found(depth, String::from_utf8_lossy(&text).into_owned());
                Ok(())
            }
        })
    }
}

/// A raw string as UTF-8 in which surrogates may stand alone.
pub(crate) fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut rest = raw;
    while let Some(next) = rest.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&rest[..next]);
        rest = &rest[next + 1..];
        let (byte, length) = match rest.first() {
            Some(b'b') => (8, 1),
            Some(b'f') => (12, 1),
            Some(b'n') => (10, 1),
            Some(b'r') => (13, 1),
            Some(b't') => (9, 1),
            Some(b'u') => {
                let (point, length) = escaped_point(rest);
                push_point(point, out);
                rest = &rest[length.min(rest.len())..];
                continue;
            }
            Some(other) => (*other, 1),
            None => return,
        };
        out.push(byte);
        rest = &rest[length..];
    }
    out.extend_from_slice(rest);
}

/// The code point of `uXXXX`, two of them where they make a pair, and the bytes it took.
fn escaped_point(rest: &[u8]) -> (u32, usize) {
    let unit = |at: usize| {
        let text = std::str::from_utf8(rest.get(at..at + 4)?).ok()?;
        u32::from_str_radix(text, 16).ok()
    };
    let first = unit(1).unwrap_or(0xFFFD);
    if (0xD800..0xDC00).contains(&first)
        && rest.get(5..7) == Some(b"\\u")
        && let Some(second @ 0xDC00..0xE000) = unit(7)
    {
        return (0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00), 11);
    }
    (first, 5)
}

/// A code point, surrogates included, in the manner of UTF-8.
fn push_point(point: u32, out: &mut Vec<u8>) {
    match char::from_u32(point) {
        Some(character) => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.extend([0xE0 | (point >> 12) as u8, 0x80 | (point >> 6 & 0x3F) as u8, 0x80 | (point & 0x3F) as u8]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_out_as_they_were_meant() {
        let mut out = Vec::new();
        unescape(br#"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud800x\ude00"#, &mut out);
        assert_eq!(out, [b"a\"\\/\x08\x0c\n\r\t\xc3\xa9\xf0\x9f\x98\x80\xed\xa0\x80x\xed\xb8\x80".as_slice()].concat());
    }

    #[test]
    fn values_are_passed_whole() {
        for (text, end) in [("[1,[2],{\"a\":\"]\"}],", 17), ("12,", 2), ("true}", 4), ("\"x\",", 3), ("-1.5e3 ", 6), ("{}", 2)] {
            let mut cursor = Cursor { bytes: text.as_bytes(), at: 0 };
            assert_eq!(cursor.skip_value().unwrap(), 0..end, "{text}");
        }
        for text in ["", "]", "[1", "\"a", ":"] {
            assert!(Cursor { bytes: text.as_bytes(), at: 0 }.skip_value().is_err(), "{text}");
        }
    }
}
