//! The parts of resident memory, over time and at its largest reading.

use super::names::Names;
use crate::Report;
use crate::page::{compose::shorten, limits, model};
use heaplab_profile::{KindsAt, resident_kinds, resident_parts};
use heaplab_trace::tables::ResidentKind;

/// The section's model; `None`: the recording has no readings.
pub fn resident(
    sources: &Report<'_>,
    names: &mut Names,
    left_out: &mut Vec<String>,
) -> Option<model::Resident> {
    let all = resident_parts(sources.tables, sources.process)?;
    let moments = resident_kinds(sources.tables, sources.process);
    let group = moments.len().div_ceil(limits::READINGS).max(1);
    let largest = |moments: &[KindsAt]| moments.iter().max_by_key(|at| at.total()).cloned();
    let moments: Vec<KindsAt> = moments.chunks(group).filter_map(largest).collect();
    let kind = |(place, (_, kind)): (usize, &(ResidentKind, &'static str))| {
        let bytes: Vec<u64> = moments.iter().map(|at| at.bytes[place]).collect();
        bytes.iter().any(|bytes| *bytes > 0).then_some(model::ResidentKindRow { kind, bytes })
    };
    if all.parts.len() > limits::RESIDENT_PARTS {
        left_out.push(format!(
            "Parts of resident memory: the {} smallest.",
            all.parts.len() - limits::RESIDENT_PARTS
        ));
    }
    let parts = all.parts.iter().take(limits::RESIDENT_PARTS).map(|part| model::ResidentPartRow {
        label: shorten(&part.words(), limits::NAME_CHARS),
        bytes: part.bytes,
        huge_bytes: part.huge_bytes,
        mappings: part.mappings,
        frames: names.stack(sources.tables, part.stack),
    });
    Some(model::Resident {
        time_ns: moments.iter().map(|at| at.time_ns).collect(),
        kinds: ResidentKind::ALL.iter().enumerate().filter_map(kind).collect(),
        at_ns: all.time_ns,
        bytes: all.bytes,
        parts: parts.collect(),
    })
}
