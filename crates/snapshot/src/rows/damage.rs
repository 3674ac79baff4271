//! What is wrong with a file, and where.

use std::fmt;

/// The first place where a file is not what a snapshot has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Byte of the file.
    pub offset: u64,
    /// What a snapshot has there.
    pub expected: &'static str,
    /// The bytes that stand there; nothing at the end of the file.
    pub found: String,
}

/// How much of what was found is shown.
const FOUND_BYTES_MAX: usize = 24;

impl Damage {
    pub(crate) fn at(bytes: &[u8], offset: usize, expected: &'static str) -> Damage {
        let offset = offset.min(bytes.len());
        let found = &bytes[offset..bytes.len().min(offset + FOUND_BYTES_MAX)];
        Damage { offset: offset as u64, expected, found: found.escape_ascii().to_string() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "byte {}: expected {}, ", self.offset, self.expected)?;
        if self.found.is_empty() { write!(out, "found the end") } else { write!(out, "found `{}`", self.found) }
    }
}

impl std::error::Error for Damage {}
