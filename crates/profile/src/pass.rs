//! The pass itself.

use crate::{Observer, Options, Profile};
use heaplab_trace::{EventSource, TraceError, tables::Tables};

/// Reads all events of `source` once and says what they amount to.
///
/// # Errors
/// What the source fails with, and events that no program can produce (an object born twice, a stack that is not in `tables`).
pub fn profile<S: EventSource, O: Observer>(
    tables: &Tables,
    source: &mut S,
    options: &Options,
    observer: &mut O,
) -> Result<Profile, TraceError> {
    let _ = (tables, source, options, observer);
    todo!()
}
