//! Live bytes over time, with marks and the system's samples, thinned for a chart.

use super::{processes::process_name, words};
use crate::Report;
use crate::page::{compose::shorten, limits, model};
use heaplab_profile::{MarkRow, TimelineAxis, resident};

pub(crate) fn timeline(sources: &Report<'_>, left_out: &mut Vec<String>) -> model::Timeline {
    let profile = sources.profile;
    let is_time = profile.timeline.axis == TimelineAxis::Time;
    // The pass was asked for at most so many points; more would come from a caller with other
    // options.
    let group = profile.timeline.points.len().div_ceil(limits::TIMELINE_POINTS).max(1);
    let mut line = model::Timeline {
        axis: if is_time { "time" } else { "events" }.into(),
        width: profile.timeline.width.saturating_mul(group as u64),
        end: if is_time { sources.end_ns() } else { profile.totals.events },
        peak_at: if is_time { profile.peak.time_ns } else { profile.peak.row },
        ..model::Timeline::default()
    };
    for points in profile.timeline.points.chunks(group) {
        let Some(last) = points.last() else { continue };
        line.at.push(points[0].at);
        line.live_bytes.push(last.live.bytes);
        line.live_objects.push(last.live.objects);
        line.max_bytes.push(points.iter().map(|point| point.max_bytes).max().unwrap_or_default());
    }
    line.end = line.end.max(line.at.last().copied().unwrap_or_default());
    if is_time {
        let samples = resident(sources.tables, sources.process);
        for chunk in samples.chunks(samples.len().div_ceil(limits::SAMPLES).max(1)) {
            let Some((time_ns, bytes)) = chunk.iter().max_by_key(|(_, bytes)| *bytes) else {
                continue;
            };
            line.samples.time_ns.push(*time_ns);
            line.samples.resident_bytes.push(*bytes);
        }
    }
    line.begin = if is_time { begin(sources, &line) } else { 0 };
    line.marks =
        profile.marks.iter().take(limits::MARKS).map(|row| mark(sources, row, is_time)).collect();
    if profile.marks.len() > limits::MARKS {
        left_out.push(format!(
            "Timeline: {} further marks.",
            words::count((profile.marks.len() - limits::MARKS) as u64)
        ));
    }
    line
}

/// Where a process began that did not begin with the recording, or the first of its steps where
/// that is earlier.
fn begin(sources: &Report<'_>, line: &model::Timeline) -> u64 {
    let process = sources.process.and_then(|row| sources.tables.processes.get(row as usize));
    process.map_or(0, |process| process.began_ns).min(line.at.first().copied().unwrap_or_default())
}

fn mark(sources: &Report<'_>, row: &MarkRow, is_time: bool) -> model::Mark {
    let processes = &sources.tables.processes;
    let of = sources.tables.marks.get(row.mark as usize).and_then(|mark| mark.process);
    let ran = sources.tables.ran_at_mark(row.mark as usize, sources.process);
    model::Mark {
        name: shorten(&sources.tables.mark_name(row.mark as usize), limits::NAME_CHARS),
        at: if is_time { row.time_ns } else { row.row },
        live_bytes: ran.then_some(row.live.bytes),
        process: of
            .filter(|_| processes.len() > 1)
            .map(|row| process_name(sources.tables, row))
            .unwrap_or_default(),
    }
}
