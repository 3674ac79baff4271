//! Lines of source files that the page holds, where they were asked for.

use serde::Serialize;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sources {
    /// Lines around places.
    pub excerpts: Vec<Excerpt>,
    /// The files that were read, by path.
    pub files: Vec<String>,
    /// Files named by debug information that are not here, or no text of a reasonable length.
    pub missing_files: usize,
    /// Places whose lines were left out, because there are too many.
    pub left_out: usize,
}

/// Lines around a place.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Excerpt {
    /// Number of the first of `lines`, counted from 1.
    pub first_line: u32,
    /// The line of the place.
    pub line: u32,
    /// The text.
    pub lines: Vec<String>,
    /// Whether the file changed after the recording began.
    pub changed: bool,
}
