//! The figures that a store keeps of a recording: a few numbers a phase.

use crate::run::{Figures, Phase, SAMPLE_NS_MAX};
use heaplab_profile::{resident, resident_peak};
use heaplab_report::Analysis;
use heaplab_trace::bundle::Bundle;

/// Named moments of a run at most; a program that marks each request is measured at its first ones.
pub const PHASES_MAX: usize = 200;

/// The figures of the process that was looked at.
pub fn figures(bundle: &Bundle, analysis: &Analysis) -> Figures {
    let tables = bundle.tables();
    let (profile, process) = (&analysis.profile, analysis.process);
    let samples = resident(tables, process);
    let resident_at = |time_ns: u64| {
        let before = samples.partition_point(|(at, _)| *at <= time_ns);
        let (at, bytes) = samples[..before].last()?;
        (time_ns - at <= SAMPLE_NS_MAX).then_some(*bytes)
    };
    let mut phases: Vec<Phase> = profile
        .marks
        .iter()
        .take(PHASES_MAX)
        .map(|mark| Phase {
            name: tables.mark_name(mark.mark as usize),
            live_bytes: mark.live.bytes,
            objects: mark.live.objects,
            resident_bytes: resident_at(mark.time_ns),
        })
        .collect();
    let resident = resident_peak(tables, process).map(|peak| peak.bytes);
    for (name, moment) in [("peak", &profile.peak), ("end", &profile.end)] {
        phases.push(Phase {
            name: name.into(),
            live_bytes: moment.live.bytes,
            objects: moment.live.objects,
            resident_bytes: if name == "peak" { resident } else { None },
        });
    }
    let row = process.unwrap_or(0) as usize;
    Figures {
        program: tables.processes.get(row).map_or("", |of| of.program_name()).to_owned(),
        phases,
        allocations: profile.totals.allocations,
        requested_bytes: profile.totals.requested_bytes,
        resident_peak_bytes: resident,
    }
}
