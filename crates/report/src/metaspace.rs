//! The metaspaces of a recording's JVMs, at moments as a user names them.

use heaplab_findings::{Found, metaspace as wastes};
use heaplab_jvm::asked::{Asked, asked};
use heaplab_jvm::{At, Report, has_chunks, reports};
use heaplab_profile::choose::{self, ChooseError};
use heaplab_trace::bundle::{Bundle, Selection};

/// JVMs that are looked at in one pass over the recording: each needs memory for what its metaspace
/// holds.
const JVMS_A_PASS: usize = 64;

/// Looks at a JVM of a recording, if that is one of metaspaces: the JVM of row `process`, at its
/// end, or at the moment `wanted`.
///
/// # Errors
/// A moment that nobody knows, or the events cannot be read.
pub fn look(
    bundle: &Bundle,
    process: u32,
    wanted: Option<&str>,
) -> Result<Option<Report>, ChooseError> {
    Ok(of_each(bundle, &[process], wanted)?.pop().map(|of| of.report))
}

/// What the JVM of a row held.
#[derive(Debug)]
pub struct OfProcess {
    /// Row of `processes`.
    pub process: u32,
    /// What it held.
    pub report: Report,
    /// Its largest wastes.
    pub findings: Vec<Found>,
}

/// What each of these JVMs held; none if the recording is of something else.
///
/// # Errors
/// As [`look`].
pub fn of_each(
    bundle: &Bundle,
    jvms: &[u32],
    wanted: Option<&str>,
) -> Result<Vec<OfProcess>, ChooseError> {
    let tables = bundle.tables();
    let mut found = Vec::new();
    if !has_chunks(tables) {
        return Ok(found);
    }
    for jvms in jvms.chunks(JVMS_A_PASS) {
        // Which moment a mark is may depend on the process, where names come twice.
        let selection = Selection { process: jvms.first().copied().filter(|_| jvms.len() == 1) };
        let at = wanted
            .map(|text| choose::moment(tables, selection, text))
            .transpose()?
            .map_or(At::End, |moment| At::of(tables, moment));
        let mut events = bundle.events(Selection::default())?;
        let reports =
            reports(tables, &mut events, jvms, at).map_err(choose::of_recording(bundle))?;
        found.extend(jvms.iter().zip(reports).map(|(process, report)| {
            let findings = wastes::findings(&report.statistics, &report.requests);
            OfProcess { process: *process, report, findings }
        }));
    }
    Ok(found)
}

/// What was asked of one JVM's metaspace until the moment `wanted` (the end).
///
/// # Errors
/// As [`look`].
pub fn asked_of(bundle: &Bundle, process: u32, wanted: Option<&str>) -> Result<Asked, ChooseError> {
    let tables = bundle.tables();
    let selection = Selection { process: Some(process) };
    let moment = wanted.map(|text| choose::moment(tables, selection, text)).transpose()?;
    let moment = moment.map_or(At::End, |moment| At::of(tables, moment));
    let look_at = |moment| {
        asked(tables, &mut bundle.events(Selection::default())?, process, moment)
            .map_err(choose::of_recording(bundle))
    };
    let found = look_at(moment)?;
    Ok(if moment == At::Peak { look_at(At::Row(found.peak_row))? } else { found })
}
