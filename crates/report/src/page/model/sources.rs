//! Lines of source files that the page holds, where they were asked for.

use heaplab_text::words::plural;
use serde::Serialize;
use std::path::Path;

/// Lines read from source files.
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

impl Sources {
    /// A sentence on the included source lines, for the user who writes the page.
    pub fn words(&self) -> String {
        let folder = |path: &String| Some(Path::new(path).parent()?.display().to_string());
        let mut folders: Vec<String> = self.files.iter().filter_map(folder).collect();
        folders.dedup();
        let more = folders.len().saturating_sub(3);
        folders.truncate(3);
        let more = if more > 0 { format!(" and {more} more folders") } else { String::new() };
        let from = match folders.is_empty() {
            true => String::new(),
            false => format!(" in {}{more}", folders.join(", ")),
        };
        format!(
            "the page holds {} around places in {}{from}; {} that debug information names could \
             not be read",
            plural(self.excerpts.len() as u64, "excerpt"),
            plural(self.files.len() as u64, "file"),
            plural(self.missing_files as u64, "file"),
        )
    }
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
