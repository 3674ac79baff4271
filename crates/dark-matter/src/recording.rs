//! The blocks of a recording, and the name of what they are of.

use crate::{DarkMatter, DarkMatterError, find, find_at};
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::tables::{Process, process_label};

/// The blocks at the mark `at`, or when reporters were last asked.
///
/// # Errors
/// No reporter was asked, there is no such mark, or the events cannot be read.
pub fn find_in(
    bundle: &Bundle,
    selection: Selection,
    at: Option<&str>,
) -> Result<DarkMatter, DarkMatterError> {
    let events = || bundle.events(selection);
    match at {
        Some(mark) => find_at(bundle.tables(), events, mark),
        None => find(bundle.tables(), events),
    }
}

/// The selected process: `app (pid 7)`, or `all processes`.
pub fn subject(bundle: &Bundle, selection: Selection) -> String {
    let processes = &bundle.tables().processes;
    let only = (processes.len() == 1).then_some(0);
    let Some(row) = selection.process.or(only) else { return String::from("all processes") };
    match processes.get(row as usize).map_or("", Process::program_name) {
        "" => bundle.meta().program.clone(),
        program => format!("{program} (pid {})", process_label(processes, row as usize)),
    }
}
