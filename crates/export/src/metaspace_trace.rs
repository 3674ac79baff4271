//! The workload of a metaspace as text, `#metaspace-trace 1`.

use crate::ExportError;
use heaplab_jvm::workload::{Writer, Written};
use heaplab_profile::choose;
use heaplab_trace::EventSink;
use heaplab_trace::EventSource;
use heaplab_trace::bundle::{Bundle, EVENTS_FILE, Selection};
use std::io::Write;
use std::path::Path;

/// Writes the workload of the JVM `process`, by default of the one with the largest peak. Errors
/// name `path` as the output.
///
/// # Errors
/// `process` does not exist or names several JVMs, the recording cannot be read or has content that
/// the format cannot express, or the output fails.
pub fn write_metaspace_trace(
    bundle: &Bundle,
    process: Option<&str>,
    out: &mut dyn Write,
    path: &Path,
) -> Result<Written, ExportError> {
    let selection = choose::process(bundle, process)?;
    if selection.process.is_none() && bundle.tables().processes.len() > 1 {
        return Err(ExportError::SeveralWorkloads);
    }
    let source = bundle.path().join(EVENTS_FILE);
    let mut writer =
        Writer::new(out, path.to_path_buf(), source, bundle.tables(), selection.process)?;
    bundle.events(Selection::default())?.for_each(|event| writer.push(event))?;
    Ok(writer.finish()?.1)
}
