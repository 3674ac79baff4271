//! Which process of a recording to look at.

use heaplab_trace::{EventSource, TraceError};
use serde::Serialize;

/// The size of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct ProcessPeak {
    /// Row of the `processes` table.
    pub process: u32,
    /// Its events.
    pub events: u64,
    /// Most live requested bytes.
    pub peak_bytes: u64,
}

/// The peaks of all processes that have events, largest first.
///
/// # Errors
/// What the source fails with.
pub fn process_peaks<S: EventSource>(source: &mut S) -> Result<Vec<ProcessPeak>, TraceError> {
    let _ = source;
    todo!()
}
