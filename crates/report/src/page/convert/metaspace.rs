//! The metaspace's section, one part a JVM. A timeline has at most some 400 points and kinds are a
//! handful, so that nothing of a part is left out.

use super::findings;
use super::flame::NodeOf;
use super::names::Names;
use crate::page::{compose::shorten, limits, model};
use crate::{JvmMetaspace, Report};
use heaplab_findings::Found;
use heaplab_text::words::bytes;

/// The parts, those of the largest peaks first.
pub fn metaspaces(
    sources: &Report<'_>,
    names: &mut Names,
    left_out: &mut Vec<String>,
) -> Vec<model::Metaspace> {
    let mut jvms: Vec<&JvmMetaspace<'_>> = sources.metaspaces.iter().collect();
    jvms.sort_by_key(|jvm| std::cmp::Reverse(jvm.report.peak.committed_bytes));
    let rest = jvms.split_off(jvms.len().min(limits::METASPACES));
    if let Some(largest) = rest.first() {
        let peak = bytes(largest.report.peak.committed_bytes);
        left_out.push(format!(
            "the metaspaces of {} more JVMs, of which none committed more than {peak}",
            rest.len()
        ));
    }
    jvms.into_iter().map(|jvm| metaspace(sources, jvm, names)).collect()
}

/// The name of a JVM among several.
fn name(sources: &Report<'_>, process: u32) -> String {
    let Some(process) =
        sources.tables.processes.get(process as usize).filter(|_| sources.metaspaces.len() > 1)
    else {
        return String::new();
    };
    let program = process.executable.rsplit('/').next().unwrap_or_default();
    let arguments = process.arguments.get(1..).unwrap_or_default().join(" ");
    shorten(&format!("JVM {}: {program} {arguments}", process.pid), limits::NAME_CHARS)
}

fn metaspace(sources: &Report<'_>, jvm: &JvmMetaspace<'_>, names: &mut Names) -> model::Metaspace {
    let JvmMetaspace { process, report, findings: wastes, moment } = *jvm;
    let statistics = &report.statistics;
    let kind = |kind: &heaplab_jvm::statistics::Kind| model::MetaspaceKind {
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
    let row = |finding: &Found| {
        let row = findings::row(sources.tables, finding, &NodeOf::new(), names);
        model::Finding {
            title: in_units_of_the_page(&row.title),
            advice: in_units_of_the_page(&row.advice),
            ..row
        }
    };
    model::Metaspace {
        jvm: name(sources, process),
        moment: moment.into(),
        committed_bytes: statistics.committed_bytes(),
        used_bytes: statistics.in_use().used_bytes,
        free_chunks_bytes: statistics.free_chunks_bytes(),
        peak_bytes: report.peak.committed_bytes,
        time_ns: report.timeline.iter().map(|point| point.time_ns).collect(),
        committed: report.timeline.iter().map(|point| point.committed_bytes).collect(),
        used: report.timeline.iter().map(|point| point.used_bytes).collect(),
        kinds: statistics.kinds.iter().map(kind).collect(),
        findings: wastes.iter().map(row).collect(),
        text: statistics.to_string(),
    }
}

/// Texts about a metaspace use jcmd's units, whose KB are 1,024 bytes; the page calls them KiB
/// everywhere.
fn in_units_of_the_page(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for (index, word) in text.split(' ').enumerate() {
        let follows_number = out.ends_with(|last: char| last.is_ascii_digit());
        if index > 0 {
            out.push(' ');
        }
        let unit = ["KB", "MB", "GB"].into_iter().find(|unit| word.starts_with(unit));
        match unit.filter(|_| follows_number && !word[2..].starts_with(char::is_alphanumeric)) {
            Some(unit) => {
                out.push_str(&unit[..1]);
                out.push_str("iB");
                out.push_str(&word[2..]);
            }
            None => out.push_str(word),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_the_page() {
        let words = "4 KB and 190.00 KB; up to 2 MB: KB alone and 3 KBs stay";
        let expected = "4 KiB and 190.00 KiB; up to 2 MiB: KB alone and 3 KBs stay";
        assert_eq!(in_units_of_the_page(words), expected);
    }
}
