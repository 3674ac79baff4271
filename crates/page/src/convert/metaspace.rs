//! The metaspace's section. Its timeline has at most some 400 points and its kinds are a handful, so that nothing is left out.

use crate::model;
use heaplab_metaspace_report::Report;

/// The section.
pub fn metaspace(report: &Report, moment: &str) -> model::Metaspace {
    let statistics = &report.statistics;
    let kind = |kind: &heaplab_metaspace_report::statistics::Kind| model::MetaspaceKind {
        name: format!(
            "{}, {}",
            if kind.loader.is_empty() { "not known" } else { &kind.loader },
            if kind.class { "class" } else { "non-class" }
        ),
        arenas: kind.arenas,
        chunks: kind.in_use.chunks,
        requested_bytes: kind.requested_bytes,
        used_bytes: kind.in_use.used_bytes,
        free_bytes: kind.in_use.free_bytes,
        waste_bytes: kind.in_use.waste_bytes,
        committed_bytes: kind.in_use.committed_bytes,
    };
    let finding = |finding: &heaplab_metaspace_report::Finding| model::MetaspaceFinding {
        title: finding.title.clone(),
        advice: finding.advice.clone(),
    };
    model::Metaspace {
        moment: moment.into(),
        committed_bytes: statistics.committed_bytes(),
        used_bytes: statistics.in_use().used_bytes,
        free_chunks_bytes: statistics.free_chunks_bytes(),
        peak_bytes: report.peak.committed_bytes,
        time_ns: report.timeline.iter().map(|point| point.time_ns).collect(),
        committed: report.timeline.iter().map(|point| point.committed_bytes).collect(),
        used: report.timeline.iter().map(|point| point.used_bytes).collect(),
        kinds: statistics.kinds.iter().map(kind).collect(),
        findings: report.findings.iter().map(finding).collect(),
        text: statistics.to_string(),
    }
}
