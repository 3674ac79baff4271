//! Printing to readers that may have gone.
//!
//! The standard library's `println!` and `eprintln!` panic when the reader of a pipe has seen
//! enough (`| head`). The macros here take their place where `#[macro_use]` imports them:
//! [`println!`](crate::println) and [`print!`](crate::print) give a `Result`,
//! [`eprintln!`](crate::eprintln) gives up in silence.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use thiserror::Error;

/// Why output did not arrive.
#[derive(Debug, Error)]
pub enum OutputError {
    /// Standard output's reader has gone: it has seen enough. This ends a command and is not a
    /// failure.
    #[error("nobody reads standard output any more")]
    ReaderGone,
    /// Writing to standard output failed.
    #[error("cannot write to standard output")]
    StandardOutput(#[source] io::Error),
    /// A binary format would go to a terminal.
    #[error(
        "standard output is a terminal and this format is binary: write to a file with -o FILE, or into a pipe"
    )]
    BinaryOnTerminal,
    /// The path is a folder's.
    #[error("{} is the name of a folder, and a file is to be written: name a file in it", .0.display())]
    Folder(PathBuf),
    /// The path has no last part.
    #[error("{} is not the name of a file", .0.display())]
    NoFileName(PathBuf),
    /// The file cannot be opened, written or given its name.
    #[error("cannot {action} {}", path.display())]
    File {
        /// Open, write or name.
        action: &'static str,
        /// The file, as the user named it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Prints to standard output: a `Result`.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

/// Prints a line to standard output: a `Result`.
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints to standard error, fitted to its terminal.
#[macro_export]
macro_rules! eprint {
    ($($text:tt)*) => { $crate::output::note(format_args!($($text)*)) };
}

/// Prints a line to standard error, fitted to its terminal.
#[macro_export]
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::note(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to standard output.
///
/// # Errors
/// [`OutputError::ReaderGone`], or standard output cannot be written.
pub fn print(text: fmt::Arguments) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    out.write_fmt(text).and_then(|()| out.flush()).map_err(to_standard_output)
}

/// Gives `write` standard output, for texts too large to build in memory.
///
/// # Errors
/// [`OutputError::ReaderGone`], or standard output cannot be written.
pub fn printed(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), OutputError> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(to_standard_output)
}

/// Writes to standard error, where one still reads it. A person's lines fit the terminal; into a
/// file or a pipe they go whole, unless `COLUMNS` asks otherwise.
pub fn note(text: fmt::Arguments) {
    let mut out = io::stderr().lock();
    let _ = match crate::error_width() {
        Some(width) => out.write_all(fitted(&text.to_string(), width).as_bytes()),
        None => out.write_fmt(text),
    };
}

/// An error and its causes, without causes that the text before them already has. Nothing in it
/// moves the cursor: the name of a file may hold any bytes.
pub fn message<'e>(causes: impl Iterator<Item = &'e (dyn Error + 'static)>) -> String {
    let mut text = String::new();
    for cause in causes.map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text.chars()
        .flat_map(|letter| {
            if heaplab_text::lines::misleads(letter) && letter != '\n' {
                letter.escape_default().collect()
            } else {
                vec![letter]
            }
        })
        .collect()
}

/// Breaks every line that is too long; its rest is indented like its beginning.
fn fitted(text: &str, width: usize) -> String {
    let line = |line: &str| {
        if line.chars().count() <= width {
            return line.to_string();
        }
        let words = line.trim_start();
        let indent = &line[..line.len() - words.len()];
        let lines = heaplab_text::lines::wrap(words, width.saturating_sub(indent.len()));
        lines.iter().map(|line| format!("{indent}{line}")).collect::<Vec<_>>().join("\n")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Why writing to standard output failed.
pub(crate) fn to_standard_output(error: io::Error) -> OutputError {
    match error.kind() {
        io::ErrorKind::BrokenPipe => OutputError::ReaderGone,
        _ => OutputError::StandardOutput(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Error)]
    #[error("{0}")]
    struct Said(&'static str, #[source] Option<Box<Said>>);

    #[test]
    fn an_error_says_everything_once_and_moves_no_cursor() {
        let whole = |words: &[&'static str]| {
            let first =
                words.iter().rev().fold(None, |below, word| Some(Box::new(Said(word, below))));
            let mut causes: Vec<&(dyn Error + 'static)> = vec![first.as_deref().unwrap()];
            while let Some(cause) = causes[causes.len() - 1].source() {
                causes.push(cause);
            }
            message(causes.into_iter())
        };
        assert_eq!(
            whole(&["reading\nfailed", "cannot open a\x1b[2Jb: no such file", "no such file"]),
            "reading\nfailed: cannot open a\\u{1b}[2Jb: no such file"
        );
        let refused = "nobody answers: refused; is it on?";
        assert_eq!(whole(&[refused, "refused"]), refused);
    }

    #[test]
    fn long_lines_are_broken_and_indented_as_they_began() {
        assert_eq!(
            fitted("heaplab: one two three\n  four five six\n", 13),
            "heaplab: one\ntwo three\n  four five\n  six\n"
        );
        assert_eq!(fitted("short  as it is\n", 40), "short  as it is\n");
    }
}
