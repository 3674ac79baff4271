//! Profile and findings of one process of a recording: what the report, the page, the tour and the studies look at.

use anyhow::{Result, bail};
use heaplab_findings::{Basis, Detectors, Findings, Options};
use heaplab_profile::{MomentRequest, ProcessPeak, Profile, process_peaks, profile};
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::tables::{Ended, Tables};
use heaplab_trace::{Event, EventSource, TraceError};
use indicatif::{ProgressBar, ProgressStyle};

/// Which process to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one with the largest peak.
    Largest,
    /// This row of the `processes` table.
    Row(u32),
    /// All at once.
    All,
}

/// What one look at a recording gave.
#[derive(Debug)]
pub struct Analysis {
    /// The process looked at; `None`: all of them.
    pub process: Option<u32>,
    /// All processes with events, the largest first, where several were looked at to choose.
    pub peaks: Vec<ProcessPeak>,
    /// Where the bytes go.
    pub profile: Profile,
    /// What to change.
    pub findings: Findings,
}

/// Reads the recording.
///
/// # Errors
/// A process that is not in the recording, and what reading fails with.
pub fn analyse(bundle: &Bundle, which: Which, basis: Option<Basis>, moments: Vec<MomentRequest>) -> Result<Analysis> {
    let tables = bundle.tables();
    let mut peaks = Vec::new();
    let process = match which {
        Which::All => None,
        Which::Row(row) if (row as usize) < tables.processes.len() => Some(row),
        Which::Row(row) => bail!("{}: there is no process {row}; {}", bundle.path().display(), known(tables)),
        Which::Largest if tables.processes.len() <= 1 => None,
        Which::Largest => {
            peaks = process_peaks(&mut Watched::new(bundle, Selection::default(), "looking for the largest process")?)?;
            peaks.first().map(|peak| peak.process)
        }
    };
    let mut detectors = Detectors::new(Options {
        basis,
        recorded_under: bundle.meta().allocator.clone(),
        ended: bundle.meta().cut.is_none() && ended(tables, process),
        ..Options::default()
    });
    let options = heaplab_profile::Options { moments, ..heaplab_profile::Options::default() };
    let mut events = Watched::new(bundle, Selection { process }, "reading")?;
    let profile = profile(tables, &mut events, &options, &mut detectors)?;
    let findings = detectors.finish(tables, &profile);
    Ok(Analysis { process, peaks, profile, findings })
}

fn known(tables: &Tables) -> String {
    match tables.processes.len() {
        0 => "the recording names none".into(),
        1 => "the only one is 0".into(),
        several => format!("they are numbered 0 to {}", several - 1),
    }
}

/// Whether the process is known to have run to its end. A trace without processes (an import) is taken at its word.
fn ended(tables: &Tables, process: Option<u32>) -> bool {
    let looked_at = |row: usize| process.is_none_or(|process| process as usize == row);
    let mut processes = tables.processes.iter().enumerate().filter(|(row, _)| looked_at(*row));
    processes.all(|(_, process)| matches!(process.ended, Ended::Exited(_)))
}

/// A bundle's events with a progress bar, on a terminal.
struct Watched {
    events: heaplab_trace::bundle::Events,
    bar: ProgressBar,
}

impl Watched {
    fn new(bundle: &Bundle, selection: Selection, what: &'static str) -> Result<Watched> {
        // The bar hides itself where standard error is no terminal.
        let bar = ProgressBar::new(bundle.meta().events).with_message(what);
        bar.set_style(ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len} events")?);
        Ok(Watched { events: bundle.events(selection)?, bar })
    }
}

impl EventSource for Watched {
    fn next_batch(&mut self, batch: &mut Vec<Event>) -> Result<(), TraceError> {
        self.events.next_batch(batch)?;
        self.bar.inc(batch.len() as u64);
        if batch.is_empty() {
            self.bar.finish_and_clear();
        }
        Ok(())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
