//! Why a reader refuses a file: the byte, the expected content, and the content found.

use std::fmt;

/// Why bytes are no heap snapshot: the first place that breaks the format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: expected {expected}, found {found}")]
pub struct ReadError {
    /// Where in the file, counted from 0.
    pub offset: u64,
    /// The content that the format requires there.
    pub expected: String,
    /// What stands there.
    pub found: String,
    /// Two nodes have one id: a reader that allows duplicate ids reads on.
    pub is_duplicate_id: bool,
}

impl ReadError {
    /// An error at a byte of `bytes`; the message quotes the bytes from there.
    pub(crate) fn at(bytes: &[u8], offset: usize, expected: impl Into<String>) -> ReadError {
        ReadError {
            offset: offset as u64,
            expected: expected.into(),
            found: Shown(bytes, offset).to_string(),
            is_duplicate_id: false,
        }
    }

    /// An error with the finding in words.
    pub(crate) fn saying(
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> ReadError {
        ReadError {
            offset: offset as u64,
            expected: expected.into(),
            found: found.into(),
            is_duplicate_id: false,
        }
    }
}

/// The first bytes from a place on, printable.
struct Shown<'a>(&'a [u8], usize);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(bytes, offset) = *self;
        match bytes.get(offset..) {
            _ if bytes.is_empty() => {
                f.write_str("an empty file (a writer that was killed leaves one)")
            }
            None | Some([]) => {
                f.write_str("the end of the file (it was cut, or its writer has not finished)")
            }
            Some(rest) => write!(f, "`{}`", rest[..rest.len().min(16)].escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_where_what_and_what_instead() {
        let error = ReadError::at(b"{\"a\"\n", 3, "a colon");
        assert_eq!(error.to_string(), "byte 3: expected a colon, found `\\\"\\n`");
        assert!(ReadError::at(b"{", 1, "x").to_string().contains("was cut"));
        assert!(ReadError::at(b"", 0, "x").to_string().contains("empty file"));
    }
}
