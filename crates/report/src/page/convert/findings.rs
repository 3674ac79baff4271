//! Findings as the page shows them.

use super::{flame::NodeOf, names::Names, sizes::allocator_name, words};
use crate::analysis::is_kept_apart;
use crate::page::{limits, model};
use crate::{Report, Saved};
use heaplab_findings::{Basis, Findings, Found, Level};
use heaplab_trace::tables::Tables;

pub(crate) fn findings(
    sources: &Report<'_>,
    node_of: &NodeOf,
    names: &mut Names,
    left_out: &mut Vec<String>,
) -> Vec<model::Finding> {
    let Report { tables, findings, .. } = *sources;
    let all = &findings.findings;
    if all.len() > limits::FINDINGS {
        left_out.push(format!(
            "Findings: the last {} of {}.",
            words::count((all.len() - limits::FINDINGS) as u64),
            words::count(all.len() as u64)
        ));
    }
    let mut numbers = 1..;
    let rows = all.iter().take(limits::FINDINGS).map(|finding| {
        let mut row = row(tables, finding, node_of, names);
        if let Some(number) = (!is_kept_apart(finding)).then(|| numbers.next()).flatten() {
            row.what_if = sources.what_if_of(number);
            row.saved = sources.saving_of(number).map_or(String::new(), Saved::words);
        }
        row
    });
    rows.collect()
}

pub(super) fn row(
    tables: &Tables,
    finding: &Found,
    node_of: &NodeOf,
    names: &mut Names,
) -> model::Finding {
    let confidence = match finding.confidence.level {
        Level::Low => "low",
        Level::Medium => "medium",
        Level::High => "high",
    };
    model::Finding {
        kind: finding.kind.name.into(),
        title: finding.title.clone(),
        advice: finding.advice.clone(),
        count: finding.count,
        count_of: finding.kind.counts.into(),
        basis: basis_name(finding.basis),
        costs: finding
            .costs
            .iter()
            .map(|cost| model::Cost {
                allocator: basis_name(cost.basis),
                peak_bytes: cost.at_peak_bytes,
                total_bytes: cost.total_bytes,
            })
            .collect(),
        saving: model::Saving {
            peak_bytes: finding.saving.at_peak_bytes,
            total_bytes: finding.saving.total_bytes,
            copied_bytes: finding.saving.copied_bytes,
            requests: finding.saving.requests,
        },
        elsewhere: finding.is_elsewhere(),
        minor: finding.minor,
        confidence: confidence.into(),
        confidence_reason: finding.confidence.reason.clone(),
        facts: finding
            .evidence
            .facts()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        sizes: sizes(finding),
        stacks: finding
            .stacks
            .iter()
            .map(|share| model::StackShare {
                count: share.count,
                bytes: share.bytes,
                frames: names.stack(tables, share.stack),
                node: node_of.get(&share.stack).copied(),
            })
            .collect(),
        stack_count: finding.stack_count,
        what_if: String::new(),
        saved: String::new(),
    }
}

/// The sorts of findings that there are, for the page's words.
pub(crate) fn kinds(findings: &Findings) -> Vec<model::Kind> {
    let mut kinds: Vec<model::Kind> = Vec::new();
    for kind in findings.findings.iter().map(|finding| finding.kind) {
        if !kinds.iter().any(|known| known.kind == kind.name) {
            kinds.push(model::Kind {
                kind: kind.name.into(),
                name: kind.title.into(),
                hint: kind.hint.into(),
                share_bytes: kind.share_bytes.into(),
                total_bytes: kind.total_bytes.into(),
            });
        }
    }
    kinds.sort_by(|a, b| a.kind.cmp(&b.kind));
    kinds
}

/// Short, for a row of choices: the measured allocator is named in the page's heading.
fn basis_name(basis: Basis) -> String {
    allocator_name("", basis)
}

pub(crate) fn uses_its_slop(
    tables: &Tables,
    findings: &Findings,
    names: &mut Names,
) -> Vec<model::UsesItsSlop> {
    let sites = findings.uses_its_slop.iter().take(limits::FINDINGS);
    sites
        .map(|site| model::UsesItsSlop {
            reads: site.usable_size_reads,
            peak_slop_bytes: site.at_peak.slop_bytes(),
            total_slop_bytes: site.requested.slop_bytes(),
            frames: names.stack(tables, site.stack),
        })
        .collect()
}

/// The sizes of a family, for a table; a single size is shown as facts.
fn sizes(finding: &Found) -> Vec<model::ShoeSize> {
    let (sizes, all) = finding.evidence.sizes();
    let rows = sizes.iter().filter(|_| all > 1);
    rows.map(|size| model::ShoeSize {
        request: size.request,
        usable: size.usable,
        free_request: size.free_request,
        count: size.requested.objects,
        peak_count: size.at_peak.objects,
        saving_peak_bytes: size.saving.at_peak_bytes,
        saving_total_bytes: size.saving.total_bytes,
    })
    .collect()
}
