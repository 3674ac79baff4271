//! Mistakes in the request: exit code 2.

use std::fmt;

/// An unknown word, or a name (of a process, a moment, a class) that the file does not contain.
/// Another request helps, whereas a failure would happen again.
#[derive(Debug)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Returns [`UsageError`] with these words.
macro_rules! misasked {
    ($($text:tt)*) => { return Err($crate::usage_error::UsageError(format!($($text)*)).into()) };
}
