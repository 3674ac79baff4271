//! Traces of any format: a JVM's own, or one that `heaplab_trace` knows.

use crate::{log, workload};
use heaplab_trace::import::{self, Imported, Options};
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

/// How the formats of JVMs are called where a trace is in none.
const NAMES: &str = "a JVM's log, a metaspace trace";

/// Imports `input`, expanding it if it is compressed; `None`: the format is told from its first
/// line.
///
/// # Errors
/// As [`heaplab_trace::import::import`].
pub fn import(
    input: impl BufRead,
    format: Option<Format>,
    options: &Options,
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
