//! The metaspaces of a recording's JVMs, at moments as a user names them.

use crate::text::metaspace as text;
use crate::{DEFAULT_MODEL, JvmMetaspace, ModelError, on_model};
use heaplab_findings::{Found, metaspace as wastes};
use heaplab_jvm::asked::{Asked, asked};
use heaplab_jvm::{At, Report, has_chunks, reports};
use heaplab_profile::choose::{self, ChooseError};
use heaplab_text::paint::Look;
use heaplab_trace::bundle::{Bundle, Selection};

/// JVMs that are looked at in one pass over the recording: each needs memory for what its metaspace
/// holds.
const JVMS_A_PASS: usize = 64;

/// Looks at a JVM of a recording, if that is one of metaspaces: the JVM of row `process`, at its
/// end, or at the moment `wanted`.
///
/// # Errors
/// The moment is unknown, or the events cannot be read.
pub fn look(
    bundle: &Bundle,
    process: u32,
    wanted: Option<&str>,
) -> Result<Option<Report>, ChooseError> {
    Ok(of_each(bundle, &[process], wanted)?.pop().map(|of| of.report))
}

/// The contents of one JVM's metaspace.
#[derive(Debug)]
pub struct OfProcess {
    /// Row of `processes`.
    pub process: u32,
    /// The contents.
    pub report: Report,
    /// Its largest wastes.
    pub findings: Vec<Found>,
}

impl OfProcess {
    /// As a report shows it; `moment`: "At the end".
    pub fn at<'a>(&'a self, moment: &'a str) -> JvmMetaspace<'a> {
        let OfProcess { process, report, findings } = self;
        JvmMetaspace { process: *process, report, findings, moment }
    }
}

/// The metaspace of each of these JVMs; none if the recording is of another program.
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
        // Where names of marks come twice, a mark's moment may depend on the process.
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

/// The requests to one JVM's metaspace until the moment `wanted` (by default the end).
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

/// The contents of each JVM's metaspace as text. A recording without chunks shows the requests, and
/// what [`DEFAULT_MODEL`] would hold for them.
///
/// # Errors
/// As [`look`], or the model cannot run the workload.
pub fn listing(
    bundle: &Bundle,
    jvms: &[u32],
    at: Option<&str>,
    look: &Look,
) -> Result<String, ModelError> {
    if has_chunks(bundle.tables()) {
        let each = of_each(bundle, jvms, at)?;
        return Ok(each.iter().map(|of| text::text(bundle, of, at, look)).collect());
    }
    let mut listing = String::new();
    for jvm in jvms {
        let asked = asked_of(bundle, *jvm, at)?;
        listing += &text::asked_text(bundle, *jvm, &asked, at, DEFAULT_MODEL, look);
        // The peak of the requests is no moment of a model.
        let moment = at.filter(|at| *at != "peak");
        listing += &on_model(bundle, *jvm, DEFAULT_MODEL, moment)?;
    }
    Ok(listing)
}

/// Changes in each JVM's metaspace between two moments, for a terminal.
///
/// # Errors
/// As [`look`].
pub fn changes(
    bundle: &Bundle,
    jvms: &[u32],
    [from, to]: [&str; 2],
    shown: &Look,
) -> Result<String, ChooseError> {
    let mut changes = String::new();
    for jvm in jvms {
        if let Some(before) = look(bundle, *jvm, Some(from))?
            && let Some(after) = look(bundle, *jvm, Some(to))?
        {
            changes += &text::between((from, &before), (to, &after), shown);
        }
    }
    Ok(changes)
}
