//! What was asked for is wrong: exit code 2.

use std::fmt;

/// A word that heaplab does not know, or a name (of a process, a moment, a class) that is not in
/// the file it was asked of. Asking differently helps, whereas a failure would happen again.
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
