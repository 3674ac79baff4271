//! Other tools' traces as events.
//!
//! Each importer takes a stream of bytes and pushes events; it holds only live objects and the
//! tables. Compressed input (zstd, gzip) is recognised by its first bytes and expanded during
//! reading, at most [`EXPANSION_LIMIT`]-fold.
//!
//! A trace that frees a block it never allocated is refused, because every measurement of it would
//! be wrong. With [`ImportOptions::lenient`] such lines are dropped, counted, and named in
//! `meta.losses`, and so is a last line without a line feed.

mod android;
mod dmd;
mod heaptrack;
mod import_state;
pub mod lines;
mod logalloc;
mod managed;
mod memtrace;
mod ocaml;
mod text;

pub use text::TextWriter;

use crate::bundle::Meta;
use crate::tables::Tables;
use crate::{EventSink, TraceError};
use import_state::Book;
use lines::Lines;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

/// Most growth of compressed input (beyond the first 64 MiB).
pub const EXPANSION_LIMIT: u64 = 2000;

/// A format that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// heap-replay-text 1: one letter, numbers; names an object by the number of allocations since
    /// its own.
    Text,
    /// Android's memory_replay (malloc_debug's record_allocs): `tid: malloc ptr size`, with or
    /// without time stamps.
    Android,
    /// Firefox's logalloc: `pid tid malloc(32)=0x7f90495120e0`, raw or munged.
    Logalloc,
    /// heaptrack's own file, raw or interpreted.
    Heaptrack,
    /// heaplab's recorder for OCaml programs (`ocaml/`).
    Ocaml,
    /// memtrace's file; of a rate below 1 a profile.
    Memtrace,
    /// Firefox's DMD: live blocks and who reports them, as JSON.
    Dmd,
}

/// ImportOptions of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Source of the bytes, for messages and `meta.program`.
    pub name: PathBuf,
    /// Drop lines that contradict the order of events, and a last line that may have been cut, and
    /// report them, instead of refusing the trace.
    pub lenient: bool,
}

/// The result beside the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The tables that the events refer to.
    pub tables: Tables,
    /// Facts about the recording; writing a bundle fills in the counts.
    pub meta: Meta,
}

/// Imports `input`, expanding it if compressed; `None`: detect the format by its first line.
pub fn import(
    input: impl BufRead,
    format: Option<Format>,
    options: &ImportOptions,
    sink: &mut impl EventSink,
) -> Result<Imported, TraceError> {
    let mut input = expand(input, options)?;
    let start = input.fill_buf().map_err(TraceError::io(&options.name, "read"))?;
    let format = match format.or_else(|| detect(start)) {
        Some(format) => format,
        None => return Err(unknown(start, options, "")),
    };
    match format {
        Format::Ocaml => return ocaml::import(input, options, sink),
        Format::Memtrace => return memtrace::import(input, options, sink),
        Format::Dmd => return dmd::import(input, options, sink),
        _ => {}
    }
    with_lines(input, options, |lines| match format {
        Format::Text => text::import(lines, Book::new(options, sink)),
        Format::Android => android::import(lines, Book::new(options, sink)),
        Format::Logalloc => logalloc::import(lines, Book::new(options, sink)),
        Format::Heaptrack => heaptrack::import(lines, Book::new(options, sink)),
        Format::Ocaml | Format::Memtrace | Format::Dmd => unreachable!("bytes, not lines"),
    })
}

/// The error for a trace that begins with these bytes, in an unknown format; `others` are formats
/// that the caller knows.
pub fn unknown(start: &[u8], options: &ImportOptions, others: &str) -> TraceError {
    let comma = if others.is_empty() { "" } else { ", " };
    TraceError::Malformed {
        path: options.name.clone(),
        place: "line 1".into(),
        expected: format!(
            "heap-replay-text, Android memory_replay, Firefox logalloc or DMD, heaptrack{comma}{others}, heaplab's stream of an OCaml program or memtrace's (name it with --format)"
        ),
        found: format!("\"{}\"", lines::shown(start)),
    }
}

/// Imports a format of lines, and reports a last line that may have been cut.
///
/// # Errors
/// What `import` fails with.
pub fn with_lines<R: BufRead>(
    input: R,
    options: &ImportOptions,
    import: impl FnOnce(&mut Lines<R>) -> Result<Imported, TraceError>,
) -> Result<Imported, TraceError> {
    let mut lines = Lines::new(input, &options.name);
    if options.lenient {
        lines.drop_cut();
    }
    let done = import(&mut lines);
    let mut done = done.map_err(|error| if lines.line().is_cut() { cut(error) } else { error })?;
    if let Some(number) = lines.dropped() {
        done.meta.losses.push(format!(
            "line {number}, the last one, has no line feed: it may be half a line, and was dropped"
        ));
    }
    Ok(done)
}

/// An error in a last line that has no line feed.
fn cut(error: TraceError) -> TraceError {
    match error {
        TraceError::Malformed { path, place, expected, found } => {
            let found = format!(
                "{found} without a line feed, as in a truncated file (--lenient drops such a line)"
            );
            TraceError::Malformed { path, place, expected, found }
        }
        other => other,
    }
}

/// The text of a small file beside a trace, expanded if compressed; at most 256 MB.
pub fn text(input: impl BufRead) -> io::Result<String> {
    let mut text = String::new();
    expanded(input)?.take(256 << 20).read_to_string(&mut text)?;
    Ok(text)
}

/// The format of a trace with this beginning.
pub fn detect(start: &[u8]) -> Option<Format> {
    if start.starts_with(&memtrace::MAGIC) {
        return Some(Format::Memtrace);
    }
    if start.trim_ascii_start().starts_with(b"{") {
        return Some(Format::Dmd);
    }
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let mut words = line.split_ascii_whitespace();
    let (first, second) = (words.next()?, words.next().unwrap_or_default());
    if line.starts_with("# heap-replay-text")
        || (first.len() == 1 && "aAcmrf".contains(first) && number(second))
    {
        return Some(Format::Text);
    }
    if line.starts_with(ocaml::HEADER) {
        return Some(Format::Ocaml);
    }
    if first == "v" && u64::from_str_radix(second, 16).is_ok() {
        return Some(Format::Heaptrack);
    }
    if first.strip_suffix(':').is_some_and(number) {
        return Some(Format::Android);
    }
    (number(first) && line.contains('(')).then_some(Format::Logalloc)
}

fn number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The content of `input`, expanded if it begins like zstd or gzip.
///
/// # Errors
/// It cannot be read.
pub fn expand<'a>(
    input: impl BufRead + 'a,
    options: &ImportOptions,
) -> Result<Box<dyn BufRead + 'a>, TraceError> {
    expanded(input).map_err(TraceError::io(&options.name, "read"))
}

fn expanded<'a>(mut input: impl BufRead + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let start = input.fill_buf()?;
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(Counted { input, taken: 0 })?;
        decoder.window_log_max(27)?;
        let bounded = Bounded {
            given: 0,
            unpack: "zstdcat",
            taken: |decoder: &zstd::stream::read::Decoder<'_, Counted<_>>| decoder.get_ref().taken,
            decoder,
        };
        return Ok(Box::new(BufReader::with_capacity(1 << 16, bounded)));
    }
    if start.starts_with(&[0x1f, 0x8b]) {
        let decoder = flate2::bufread::MultiGzDecoder::new(Counted { input, taken: 0 });
        let bounded = Bounded {
            given: 0,
            unpack: "zcat",
            taken: |decoder: &flate2::bufread::MultiGzDecoder<Counted<_>>| decoder.get_ref().taken,
            decoder,
        };
        return Ok(Box::new(BufReader::with_capacity(1 << 16, bounded)));
    }
    Ok(Box::new(input))
}

/// Counts the bytes read through it.
struct Counted<R> {
    input: R,
    taken: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(out)?;
        self.taken += length as u64;
        Ok(length)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, length: usize) {
        self.taken += length as u64;
        self.input.consume(length);
    }
}

/// Fails if a decoder gives far more than it takes, and locates damage in compressed data.
struct Bounded<D, T> {
    decoder: D,
    /// The command that unpacks such files.
    unpack: &'static str,
    taken: T,
    given: u64,
}

impl<D: Read, T: Fn(&D) -> u64> Read for Bounded<D, T> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(out);
        let length =
            read.map_err(|error| damaged(&error, (self.taken)(&self.decoder), self.unpack))?;
        self.given += length as u64;
        let taken = (self.taken)(&self.decoder);
        if self.given > 64 << 20 && self.given > taken.saturating_mul(EXPANSION_LIMIT) {
            let message = format!(
                "{taken} compressed bytes expand to {} and more, over {EXPANSION_LIMIT}-fold",
                self.given
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(length)
    }
}

/// The error for compressed data that cannot be expanded from byte `taken` on.
fn damaged(error: &io::Error, taken: u64, unpack: &str) -> io::Error {
    let what = if error.kind() == io::ErrorKind::UnexpectedEof {
        format!("the compressed data ends in the middle, after {taken} bytes: the file was cut")
    } else {
        format!("the compressed data is damaged before its byte {taken}: {error}")
    };
    let message = format!(
        "{what}. Fetch it again, or import what there is: {unpack} FILE | head -n -1 | heaplab import - -o BUNDLE"
    );
    io::Error::new(error.kind(), message)
}

#[cfg(test)]
mod tests;
