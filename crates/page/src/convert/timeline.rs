//! Live bytes over time, with marks and the system's samples, thinned to what a chart can show.

use super::{Sources, words};
use crate::{compose::shorten, limits, model};
use heaplab_profile::TimelineAxis;
use heaplab_trace::tables::Tables;
use std::collections::BTreeMap;

pub(crate) fn timeline(sources: &Sources<'_>, left_out: &mut Vec<String>) -> model::Timeline {
    let profile = sources.profile;
    let is_time = profile.timeline.axis == TimelineAxis::Time;
    // The pass was asked for at most so many points; more would come from a caller with other options.
    let group = profile.timeline.points.len().div_ceil(limits::TIMELINE_POINTS).max(1);
    let mut line = model::Timeline {
        axis: if is_time { "time" } else { "events" }.into(),
        end: if is_time { profile.totals.duration_ns } else { profile.totals.events },
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
            let Some((time_ns, bytes)) = chunk.iter().max_by_key(|(_, bytes)| *bytes) else { continue };
            line.samples.time_ns.push(*time_ns);
            line.samples.resident_bytes.push(*bytes);
        }
    }
    let marks = profile.marks.iter().take(limits::MARKS);
    line.marks = marks
        .map(|mark| model::Mark {
            name: shorten(&mark.name, limits::NAME_CHARS),
            at: if is_time { mark.time_ns } else { mark.row },
            live_bytes: mark.live.bytes,
        })
        .collect();
    if profile.marks.len() > limits::MARKS {
        left_out.push(format!("Timeline: {} further marks.", words::count((profile.marks.len() - limits::MARKS) as u64)));
    }
    line
}

/// Resident bytes over time: of one process, or the sum over all that were alive.
pub(crate) fn resident(tables: &Tables, process: Option<u32>) -> Vec<(u64, u64)> {
    let mut now: BTreeMap<u32, u64> = BTreeMap::new();
    // A sample of committed bytes alone, from a JVM's log, says nothing of resident ones.
    let samples = tables.samples.iter().filter(|sample| sample.resident_bytes > 0);
    let samples = samples.filter(|sample| process.is_none_or(|process| process == sample.process));
    samples
        .map(|sample| {
            now.insert(sample.process, sample.resident_bytes);
            now.retain(|row, _| {
                tables.processes.get(*row as usize).and_then(|process| process.ended_ns).is_none_or(|ended| ended >= sample.time_ns)
            });
            (sample.time_ns, now.values().sum())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::tables::{Process, Sample};

    #[test]
    fn resident_bytes_of_all_processes_are_those_alive() {
        let sample = |time_ns, process, resident_bytes| Sample { time_ns, process, resident_bytes, ..Sample::default() };
        let tables = Tables {
            processes: vec![Process::default(), Process { ended_ns: Some(15), ..Process::default() }],
            samples: vec![sample(0, 0, 100), sample(10, 1, 50), sample(20, 0, 120)],
            ..Tables::default()
        };
        assert_eq!(resident(&tables, None), [(0, 100), (10, 150), (20, 120)]);
        assert_eq!(resident(&tables, Some(1)), [(10, 50)]);
    }
}
