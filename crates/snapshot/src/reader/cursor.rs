//! A cursor over JSON for the small parts of a snapshot: keys, header, allocation tree. Strict, and bounded: nothing recurses, so
//! that a file of a million brackets costs a million bytes and no stack. The two large lists have their own scanners
//! ([`super::ints`], [`super::strings`]).

use crate::ReadError;

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

    /// Takes `byte`, which must come next; `what` says what it would be.
    pub fn expect(&mut self, byte: u8, what: &str) -> Result<(), ReadError> {
        if self.take(byte) { Ok(()) } else { Err(self.error(what)) }
    }

    /// Takes a string and gives what stands between its quotes, escapes as they are.
    pub fn string(&mut self, what: &str) -> Result<&'a [u8], ReadError> {
        self.expect(b'"', what)?;
        let from = self.at;
        loop {
            let Some(step) = memchr::memchr2(b'"', b'\\', &self.bytes[self.at..]) else {
                self.at = self.bytes.len();
                return Err(self.error("the end of a string"));
            };
            self.at += step + 1;
            if self.bytes[self.at - 1] == b'"' {
                return Ok(&self.bytes[from..self.at - 1]);
            }
            if self.at == self.bytes.len() {
                return Err(self.error("what is escaped"));
            }
            self.at += 1;
        }
    }

    /// Takes an unsigned integer.
    pub fn integer(&mut self, what: &str) -> Result<u64, ReadError> {
        self.peek();
        let from = self.at;
        let mut value: u64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            let next = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
            value = next.ok_or_else(|| ReadError::at(self.bytes, from, "an integer below 2^64"))?;
            self.at += 1;
        }
        if self.at == from { Err(self.error(what)) } else { Ok(value) }
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

    /// Skips any value.
    pub fn skip(&mut self) -> Result<(), ReadError> {
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
                    while let Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E') = self.bytes.get(self.at) {
                        self.at += 1;
                    }
                }
                _ => return Err(self.error("a value")),
            }
            if open.is_empty() {
                return Ok(());
            }
        }
    }
}
