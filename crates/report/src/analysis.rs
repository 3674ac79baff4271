//! Profile and findings of one process of a recording, shared by the report, the page, the tour and
//! the studies.

use crate::page::limits;
use heaplab_dark_matter::{DarkMatter, DarkMatterError};
use heaplab_findings::{Basis, Findings, Found, Options, Rank, find};
use heaplab_profile::choose::{self, ChooseError};
use heaplab_profile::{
    At, MomentRequest, ProcessPeak, Profile, process_peaks, remapped_from_bytes,
};
use heaplab_trace::bundle::{Bundle, Meta, Selection};
use heaplab_trace::tables::{Ended, Tables};
use heaplab_trace::{BY_REACHABILITY, Event, EventSource, NOTICED_AT_COLLECTION, TraceError};

/// The results of one look at a recording.
#[derive(Debug)]
pub struct Analysis {
    /// The process; `None`: all of them, or the only one.
    pub process: Option<u32>,
    /// All processes with events, the largest first, where the largest was chosen.
    pub peaks: Vec<ProcessPeak>,
    /// Where the bytes go.
    pub profile: Profile,
    /// Findings, in their order; empty where nobody looked for them.
    pub findings: Findings,
    /// Blocks that no memory reporter names; `None`: the recording has no answers of reporters.
    pub dark_matter: Option<DarkMatter>,
}

/// The process that `wanted` names, and no peaks. If `wanted` is `None`: the process with the
/// largest peak, and the peaks of all processes, largest first.
///
/// # Errors
/// No process is so called, or the events cannot be read.
pub fn select(
    bundle: &Bundle,
    wanted: Option<&str>,
    progress: &mut dyn FnMut(u64),
) -> Result<(Selection, Vec<ProcessPeak>), ChooseError> {
    if wanted.is_some() || bundle.tables().processes.len() < 2 {
        return Ok((choose::process(bundle, wanted)?, Vec::new()));
    }
    let peaks = process_peaks(&mut Watched::new(bundle, Selection::default(), progress)?)?;
    Ok((Selection { process: peaks.first().map(|peak| peak.process) }, peaks))
}

/// Reads the recording once.
///
/// # Errors
/// The recording cannot be read.
pub fn analyse(
    bundle: &Bundle,
    selection: Selection,
    basis: Option<Basis>,
    moments: Vec<MomentRequest>,
    progress: &mut dyn FnMut(u64),
) -> Result<Analysis, TraceError> {
    analyse_with(bundle, selection, basis, moments, |options| options, progress)
}

/// Like [`analyse`] for a page ([`crate::page`]): with the ranges, and without wished moments with
/// the live objects at the first marks.
///
/// # Errors
/// The recording cannot be read.
pub fn analyse_for_page(
    bundle: &Bundle,
    selection: Selection,
    basis: Option<Basis>,
    moments: Vec<MomentRequest>,
    progress: &mut dyn FnMut(u64),
) -> Result<Analysis, TraceError> {
    let marks = bundle.tables().marks.len().min(limits::MOMENTS);
    let at_mark =
        |mark| MomentRequest { name: bundle.tables().mark_name(mark), at: At::Mark(mark as u32) };
    let moments = if moments.is_empty() { (0..marks).map(at_mark).collect() } else { moments };
    let options = heaplab_profile::ProfileOptions {
        moments,
        range_steps: limits::RANGE_STEPS,
        ..heaplab_profile::ProfileOptions::default()
    };
    read(bundle, selection, Options { basis, ..Options::default() }, options, progress)
}

/// [`analyse`] with every stack and size of the findings, so that their advice can be tried.
///
/// # Errors
/// The recording cannot be read.
pub fn analyse_whole(
    bundle: &Bundle,
    selection: Selection,
    basis: Option<Basis>,
    progress: &mut dyn FnMut(u64),
) -> Result<Analysis, TraceError> {
    analyse_with(bundle, selection, basis, Vec::new(), crate::advice::whole, progress)
}

/// [`analyse`] with other options of the findings.
///
/// # Errors
/// The recording cannot be read.
pub fn analyse_with(
    bundle: &Bundle,
    selection: Selection,
    basis: Option<Basis>,
    moments: Vec<MomentRequest>,
    adjust: impl FnOnce(Options) -> Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Analysis, TraceError> {
    let options =
        heaplab_profile::ProfileOptions { moments, ..heaplab_profile::ProfileOptions::default() };
    let detection = adjust(Options { basis, ..Options::default() });
    read(bundle, selection, detection, options, progress)
}

/// Makes the pass. The recording decides some options, filled in here.
fn read(
    bundle: &Bundle,
    selection: Selection,
    detection: Options,
    options: heaplab_profile::ProfileOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Analysis, TraceError> {
    let tables = bundle.tables();
    let process = selection.process;
    let remapped_from_bytes = remapped_from_bytes(&bundle.meta().allocator);
    let detection = Options {
        process,
        recorded_under: bundle.meta().allocator.clone(),
        moves_known: !bundle.meta().moves_unknown,
        remapped_from_bytes,
        ended: bundle.meta().cut.is_none() && ended(tables, process),
        ..detection
    };
    let options = heaplab_profile::ProfileOptions { remapped_from_bytes, ..options };
    let mut events = Watched::new(bundle, selection, progress)?;
    let (profile, mut findings) =
        find(tables, &mut events, &options, detection).map_err(choose::of_recording(bundle))?;
    if !is_mallocs(bundle.meta(), tables) {
        let Findings { counts, counts_at_peak, .. } = findings;
        findings = Findings { counts, counts_at_peak, ..Findings::default() };
    }
    let dark_matter = dark_matter(bundle, selection)?;
    Ok(Analysis { process, peaks: Vec::new(), profile, findings, dark_matter })
}

/// Reads the events again where reporters were asked.
fn dark_matter(bundle: &Bundle, selection: Selection) -> Result<Option<DarkMatter>, TraceError> {
    let tables = bundle.tables();
    if !tables.marks.iter().any(|mark| mark.name == heaplab_dark_matter::ASKED) {
        return Ok(None);
    }
    match heaplab_dark_matter::find(tables, || bundle.events(selection)) {
        Ok(found) => Ok(Some(found)),
        Err(DarkMatterError::NeverAsked | DarkMatterError::NoMark { .. }) => Ok(None),
        Err(DarkMatterError::Unread(error)) => Err(error),
    }
}

/// Whether the blocks are malloc's: slop, clownshoes, growth, churn and leaks belong to those. A
/// block of metaspace dies with its loader and lies where its arena has room. An object of a heap
/// that collects has exactly the requested size, and nobody frees it.
pub(crate) fn is_mallocs(meta: &Meta, tables: &Tables) -> bool {
    !heaplab_jvm::is_metaspace(tables) && !is_collected(meta)
}

/// Whether a collector found the dead.
pub(crate) fn is_collected(meta: &Meta) -> bool {
    [NOTICED_AT_COLLECTION, BY_REACHABILITY].contains(&meta.death_rule.as_str())
}

/// The profile alone, the same as in [`analyse`].
///
/// # Errors
/// The recording cannot be read.
pub fn profile_of(
    bundle: &Bundle,
    selection: Selection,
    progress: &mut dyn FnMut(u64),
) -> Result<Profile, TraceError> {
    let mut events = Watched::new(bundle, selection, progress)?;
    let remapped_from_bytes = remapped_from_bytes(&bundle.meta().allocator);
    let options = heaplab_profile::ProfileOptions {
        remapped_from_bytes,
        ..heaplab_profile::ProfileOptions::default()
    };
    Profile::of(bundle.tables(), &mut events, &options).map_err(choose::of_recording(bundle))
}

/// The findings that a report numbers, in their order: not what came once, stayed and is little,
/// which it lists apart.
pub fn numbered(findings: &Findings) -> Vec<&Found> {
    findings.findings.iter().filter(|finding| !is_kept_apart(finding)).collect()
}

/// Whether it is listed under objects live at the end, not under changes.
pub(crate) fn is_kept_apart(finding: &Found) -> bool {
    finding.evidence.came_once() && finding.rank != Rank::Kept
}

/// Whether the process is known to have run to its end. A trace without processes (an import) is
/// taken at its word.
fn ended(tables: &Tables, process: Option<u32>) -> bool {
    let looked_at = |row: usize| process.is_none_or(|process| process as usize == row);
    let mut processes = tables.processes.iter().enumerate().filter(|(row, _)| looked_at(*row));
    processes.all(|(_, process)| matches!(process.ended, Ended::Exited(_)))
}

/// A bundle's events; `progress` gets the number read so far.
struct Watched<'p> {
    events: heaplab_trace::bundle::Events,
    progress: &'p mut dyn FnMut(u64),
}

impl Watched<'_> {
    fn new<'p>(
        bundle: &Bundle,
        selection: Selection,
        progress: &'p mut dyn FnMut(u64),
    ) -> Result<Watched<'p>, TraceError> {
        Ok(Watched { events: bundle.events(selection)?, progress })
    }
}

impl EventSource for Watched<'_> {
    fn next_batch(&mut self, batch: &mut Vec<Event>) -> Result<(), TraceError> {
        self.events.next_batch(batch)?;
        (self.progress)(batch.len() as u64);
        Ok(())
    }
}
