//! A cursor over JSON, for the small parts of a snapshot (keys, header, allocation tree) and for
//! [`crate::rows`], which reads the whole file through it. The cursor is strict and bounded.
//! Nothing recurses, so a file of a million brackets costs a million bytes and no stack. The
//! reader's large lists have their own scanners ([`super::ints`], [`super::strings`]), which refuse
//! the same input at the same byte.

use crate::ReadError;
use std::ops::Range;

/// Bytes allowed behind a backslash.
pub(super) const ESCAPE: &str =
    "an escape of JSON (`\\n`, `\\\"`, `\\u` and four hexadecimal digits, ...)";

/// A place in the bytes of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    /// The whole file.
    pub bytes: &'a [u8],
    /// The next byte.
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    /// From the start of `range` to its end, as if the file ended there.
    pub fn over(bytes: &'a [u8], range: &Range<usize>) -> Self {
        Cursor { bytes: &bytes[..range.end], at: range.start }
    }

    pub fn error(&self, expected: impl Into<String>) -> ReadError {
        ReadError::at(self.bytes, self.at, expected)
    }

    /// The next byte that is no whitespace, not taken.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    /// Takes `byte` if it comes next.
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes `byte`, which must come next; `what` describes it in the error.
    pub fn expect(&mut self, byte: u8, what: &str) -> Result<(), ReadError> {
        if self.take(byte) { Ok(()) } else { Err(self.error(what)) }
    }

    /// Takes a string and returns the checked text between its quotes, escapes kept.
    pub fn string(&mut self, what: &str) -> Result<&'a [u8], ReadError> {
        self.expect(b'"', what)?;
        let from = self.at;
        loop {
            let Some(step) = self.bytes[self.at..]
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
            else {
                self.at = self.bytes.len();
                return Err(self.error("the end of a string"));
            };
            self.at += step;
            match self.bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(&self.bytes[from..self.at - 1]);
                }
                b'\\' => self.escape()?,
                _ => return Err(self.error("an escaped control character")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), ReadError> {
        let length = match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u')
                if self
                    .bytes
                    .get(self.at + 2..self.at + 6)
                    .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) =>
            {
                6
            }
            _ => return Err(self.error(ESCAPE)),
        };
        self.at += length;
        Ok(())
    }

    /// Takes an unsigned integer.
    #[inline]
    pub fn integer(&mut self, what: &str) -> Result<u64, ReadError> {
        self.peek();
        let from = self.at;
        let mut value: u64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            let next =
                value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
            value = next.ok_or_else(|| ReadError::at(self.bytes, from, "an integer below 2^64"))?;
            self.at += 1;
        }
        // A number at the very end may be half of one: its list must go on.
        match self.at {
            at if at == from => Err(self.error(what)),
            at if at == self.bytes.len() => Err(self.error("the text behind a number")),
            _ => Ok(value),
        }
    }

    /// Takes an integer that may be below zero.
    pub fn signed(&mut self, what: &str) -> Result<i64, ReadError> {
        let below = self.take(b'-');
        let from = self.at;
        let number = i64::try_from(self.integer(what)?)
            .map_err(|_| ReadError::at(self.bytes, from, "an integer below 2^63"))?;
        Ok(if below { -number } else { number })
    }

    /// Takes a list of strings.
    pub fn strings(&mut self, what: &str) -> Result<Vec<String>, ReadError> {
        let mut list = Vec::new();
        self.expect(b'[', what)?;
        while !self.take(b']') {
            if !list.is_empty() {
                self.expect(b',', "a comma or `]`")?;
            }
            list.push(String::from_utf8_lossy(self.string("a name in quotes")?).into_owned());
        }
        Ok(list)
    }

    /// Skips any value, and returns its range.
    pub fn skip(&mut self) -> Result<Range<usize>, ReadError> {
        self.peek();
        let from = self.at;
        // One bit an open bracket would do; a byte is simpler and still bounded by the file.
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string("a string")?;
                }
                Some(b'[' | b'{') => {
                    open.push(self.bytes[self.at] + 2);
                    self.at += 1;
                    continue;
                }
                Some(b',' | b':') if !open.is_empty() => {
                    self.at += 1;
                    continue;
                }
                Some(close @ (b']' | b'}')) if open.last() == Some(&close) => {
                    open.pop();
                    self.at += 1;
                }
                Some(b'-' | b'0'..=b'9' | b'a'..=b'z') => {
                    while let Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E') =
                        self.bytes.get(self.at)
                    {
                        self.at += 1;
                    }
                }
                _ => return Err(self.error("a value")),
            }
            if open.is_empty() {
                return Ok(from..self.at);
            }
        }
    }
}
