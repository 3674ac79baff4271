//! Traces of any format: a JVM's own, or one that `heaplab_trace` knows.

use crate::{log, workload};
use heaplab_trace::import::{self, ImportOptions, Imported};
use heaplab_trace::{EventSink, TraceError};
use std::io::BufRead;

/// A format that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JVM's log of its metaspace (`-Xlog:metaspace*=trace`), JDK 17 to 25.
    Log,
    /// A metaspace workload without addresses (traces/metaspace): `#metaspace-trace 1`.
    Workload,
    /// One that knows no JVM.
    Other(import::Format),
}

/// The formats, as they are called on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum FormatName {
    /// Recognised by the first line.
    Auto,
    /// heap-replay-text.
    Text,
    /// Android's memory_replay (malloc_debug's record_allocs).
    Android,
    /// Firefox's logalloc, raw or munged.
    Logalloc,
    /// heaptrack's file, raw or interpreted.
    Heaptrack,
    /// A JVM's log of its metaspace (-Xlog:metaspace*=trace), JDK 17 to 25.
    JvmLog,
    /// A metaspace workload without addresses (#metaspace-trace 1).
    MetaspaceTrace,
    /// The stream of heaplab's recorder in an OCaml program (record --ocaml).
    Ocaml,
    /// memtrace's file of an OCaml program (MEMTRACE_RATE=1).
    Memtrace,
    /// Firefox's DMD: live blocks and the memory reporters that name them.
    Dmd,
}

impl FormatName {
    /// The format; `None`: the first line decides it.
    pub fn format(self) -> Option<Format> {
        Some(match self {
            FormatName::Auto => return None,
            FormatName::JvmLog => Format::Log,
            FormatName::MetaspaceTrace => Format::Workload,
            FormatName::Text => Format::Other(import::Format::Text),
            FormatName::Android => Format::Other(import::Format::Android),
            FormatName::Logalloc => Format::Other(import::Format::Logalloc),
            FormatName::Heaptrack => Format::Other(import::Format::Heaptrack),
            FormatName::Ocaml => Format::Other(import::Format::Ocaml),
            FormatName::Memtrace => Format::Other(import::Format::Memtrace),
            FormatName::Dmd => Format::Other(import::Format::Dmd),
        })
    }
}

/// How the formats of JVMs are called where a trace is in none.
const NAMES: &str = "a JVM's log, a metaspace trace";

/// Imports `input`, expanding compressed input; `None`: the first line decides the format.
///
/// # Errors
/// As [`heaplab_trace::import::import`].
pub fn import(
    input: impl BufRead,
    format: Option<Format>,
    options: &ImportOptions,
    sink: &mut impl EventSink,
) -> Result<Imported, TraceError> {
    let mut input = import::expand(input, options)?;
    let start = input.fill_buf().map_err(TraceError::io(&options.name, "read"))?;
    match format.or_else(|| detect(start)) {
        Some(Format::Log) => {
            import::with_lines(input, options, |lines| log::import(lines, options, sink))
        }
        Some(Format::Workload) => {
            import::with_lines(input, options, |lines| workload::import(lines, options, sink))
        }
        Some(Format::Other(format)) => import::import(input, Some(format), options, sink),
        None => Err(import::unknown(start, options, NAMES)),
    }
}

/// The format that a trace beginning with these bytes is in.
pub fn detect(start: &[u8]) -> Option<Format> {
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if line.starts_with(workload::HEADER.as_bytes()) {
        Some(Format::Workload)
    } else if line.starts_with(b"[") && line.contains(&b']') {
        Some(Format::Log)
    } else {
        import::detect(start).map(Format::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::{Event, Op};

    const LOG: &[u8] = b"[1ns][7] Arena @0x10 (non-class sm): : born.
[2ns][7] Arena @0x10 (non-class sm): requested 8 words.
[3ns][7] Metaspace::allocate: type 1 return 0x1000.
[4ns][7] Arena @0x10 (non-class sm): requested 512 words.
[5ns][7] Metaspace::allocate: type 1 return 0x2000.
[6ns][7] Arena @0x10 (non-class sm): requested 1";
    const WORKLOAD: &[u8] = b"#metaspace-trace 1\n0 b 0 n 0\n0 a 0 8 1\n0 a 0 512 1\n0 a 0 1";

    #[test]
    fn a_last_line_that_was_cut_is_dropped_leniently_and_said() {
        for (trace, last) in [(LOG, 6), (WORKLOAD, 5)] {
            let mut events: Vec<Event> = Vec::new();
            let options = ImportOptions { lenient: true, ..ImportOptions::default() };
            let done = import(trace, None, &options, &mut events).unwrap();
            let births = events.iter().filter(|event| event.op == Op::Alloc);
            assert_eq!(births.map(|event| event.size).collect::<Vec<_>>(), [64, 4096]);
            let said = format!(
                "line {last}, the last one, has no line feed: it may be half a line, and was dropped"
            );
            assert_eq!((done.meta.cut, done.meta.losses.last()), (None, Some(&said)));
        }
    }

    #[test]
    fn what_is_in_no_format_is_told_them_all() {
        let mut events: Vec<Event> = Vec::new();
        let error =
            import(&b"hello\n"[..], None, &ImportOptions::default(), &mut events).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("heaptrack, a JVM's log, a metaspace trace, heaplab's"), "{text}");
        assert_eq!(detect(b"v 10400 3\n"), Some(Format::Other(import::Format::Heaptrack)));
    }
}
