//! Lines of a stream, bounded, with their numbers; and words within a line.

use crate::TraceError;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// Longest line read, bytes.
const LINE_LIMIT: u64 = 1 << 20;

/// The lines of a trace.
pub struct Lines<R> {
    input: R,
    path: PathBuf,
    line: Vec<u8>,
    number: u64,
    whole: bool,
    drops_cut: bool,
    dropped: Option<u64>,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`; messages call it `path`.
    pub fn new(input: R, path: &Path) -> Lines<R> {
        Lines {
            input,
            path: path.into(),
            line: Vec::new(),
            number: 0,
            whole: false,
            drops_cut: false,
            dropped: None,
        }
    }

    /// Leaves out a last line without a line feed from here on: it may have been cut, and half a
    /// number is a number.
    pub fn drop_cut(&mut self) {
        self.drops_cut = true;
    }

    /// The number of the last line, if left out.
    pub fn dropped(&self) -> Option<u64> {
        self.dropped
    }

    /// Goes to the next line that is not blank; false at the end.
    pub fn advance(&mut self) -> Result<bool, TraceError> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut bounded = (&mut self.input).take(LINE_LIMIT + 1);
            let length =
                bounded.read_until(b'\n', &mut self.line).map_err(|error| self.unread(error))?;
            if length == 0 {
                return Ok(false);
            }
            if length as u64 > LINE_LIMIT {
                let place = format!("line {}", self.number);
                let (what, found) = ("the length of the line", length as u64);
                return Err(TraceError::Limit {
                    path: self.path.clone(),
                    place,
                    what,
                    found,
                    limit: LINE_LIMIT,
                });
            }
            self.whole = self.line.last() == Some(&b'\n');
            while self.line.last().is_some_and(u8::is_ascii_whitespace) {
                self.line.pop();
            }
            if !self.line.is_empty() {
                if !self.whole && self.drops_cut {
                    self.dropped = Some(self.number);
                    return Ok(false);
                }
                return Ok(true);
            }
        }
    }

    fn unread(&self, error: std::io::Error) -> TraceError {
        let placed = std::io::Error::new(error.kind(), format!("line {}: {error}", self.number));
        TraceError::Io { path: self.path.clone(), action: "read", source: placed }
    }

    /// Whether the line ended in a line feed; the last one of a cut file does not.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// The line.
    pub fn line(&self) -> Line<'_> {
        Line {
            rest: &self.line,
            whole: &self.line,
            is_cut: !self.whole,
            number: self.number,
            path: &self.path,
        }
    }
}

/// A line being parsed from the front.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    rest: &'a [u8],
    whole: &'a [u8],
    is_cut: bool,
    number: u64,
    path: &'a Path,
}

impl<'a> Line<'a> {
    /// Whether it has no line feed: it is the last one, and may be incomplete.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// All of it.
    pub fn whole(&self) -> &'a [u8] {
        self.whole
    }

    /// The unparsed rest.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Its number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// This line with another rest.
    pub fn with_rest(self, rest: &'a [u8]) -> Line<'a> {
        Line { rest, ..self }
    }

    /// The next word, empty at the end.
    pub fn word(&mut self) -> &'a [u8] {
        let rest = self.rest.trim_ascii_start();
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word
    }

    /// The next word as a decimal number.
    pub fn decimal(&mut self, what: &str) -> Result<u64, TraceError> {
        let word = self.word();
        decimal(word).ok_or_else(|| self.wrong(format!("{what}, a decimal number under 2^64")))
    }

    /// The next word as a hexadecimal number, with or without 0x.
    pub fn hexadecimal(&mut self, what: &str) -> Result<u64, TraceError> {
        let word = self.word();
        hexadecimal(word.strip_prefix(b"0x").unwrap_or(word))
            .ok_or_else(|| self.wrong(format!("{what}, a hexadecimal number")))
    }

    /// Fails if anything follows.
    pub fn end(&mut self) -> Result<(), TraceError> {
        if self.rest.trim_ascii().is_empty() {
            Ok(())
        } else {
            Err(self.wrong("nothing more on the line"))
        }
    }

    /// An error about the line's content.
    pub fn wrong(&self, expected: impl Into<String>) -> TraceError {
        TraceError::Malformed {
            path: self.path.into(),
            place: format!("line {}", self.number),
            expected: expected.into(),
            found: format!("\"{}\"", shown(self.whole)),
        }
    }
}

/// The start of some bytes, in a form for messages.
pub fn shown(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let start = &line[..line.len().min(80)];
    format!("{}{}", start.escape_ascii(), if start.len() < line.len() { "..." } else { "" })
}

/// A decimal number.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(digit.into()) }
    })
}

/// A hexadecimal number without prefix.
pub fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = (*digit as char).to_digit(16)?;
        if value >> 60 != 0 { None } else { Some(value << 4 | u64::from(digit)) }
    })
}
