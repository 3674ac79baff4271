//! Findings as the page shows them.

use super::{names::Names, sizes::allocator_name, words};
use crate::{limits, model};
use heaplab_findings::{
    Basis, Cause, Churn, ChurnPattern, Clownshoe, Evidence, Finding, Findings, Growth,
    GrowthStrategy, Kind, Leak, LeakClock, LeakPattern, Level, Through,
};
use heaplab_trace::tables::Tables;

pub(crate) fn findings(
    tables: &Tables,
    findings: &Findings,
    names: &mut Names,
    left_out: &mut Vec<String>,
) -> Vec<model::Finding> {
    let all = &findings.findings;
    if all.len() > limits::FINDINGS {
        left_out.push(format!(
            "Findings: the last {} of {}.",
            words::count((all.len() - limits::FINDINGS) as u64),
            words::count(all.len() as u64)
        ));
    }
    all.iter().take(limits::FINDINGS).map(|finding| row(tables, finding, names)).collect()
}

fn row(tables: &Tables, finding: &Finding, names: &mut Names) -> model::Finding {
    let (kind, count_of) = match finding.kind {
        Kind::Clownshoes => ("clownshoes", "request"),
        Kind::Growth => ("growth", "chain"),
        Kind::Churn => ("churn", "request"),
        Kind::Leak => ("leak", "object"),
    };
    let confidence = match finding.confidence.level {
        Level::Low => "low",
        Level::Medium => "medium",
        Level::High => "high",
    };
    model::Finding {
        kind: kind.into(),
        title: finding.title.clone(),
        advice: finding.advice.clone(),
        count: finding.count,
        count_of: count_of.into(),
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
        facts: facts(&finding.evidence),
        sizes: sizes(&finding.evidence),
        stacks: finding
            .stacks
            .iter()
            .map(|share| model::StackShare {
                count: share.count,
                bytes: share.bytes,
                frames: names.stack(tables, share.stack),
            })
            .collect(),
        stack_count: finding.stack_count,
    }
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

fn facts(evidence: &Evidence) -> Vec<(String, String)> {
    let facts = match evidence {
        Evidence::Clownshoes(clownshoe) => clownshoe_facts(clownshoe),
        Evidence::Growth(growth) => growth_facts(growth),
        Evidence::Churn(churn) => churn_facts(churn),
        Evidence::Leak(leak) => leak_facts(leak),
    };
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn clownshoe_facts(clownshoe: &Clownshoe) -> Vec<(&'static str, String)> {
    let rounds = |sizes: &[u64]| {
        let words: Vec<String> = sizes.iter().take(6).map(|size| words::count(*size)).collect();
        format!("{}{}", words.join("; "), if sizes.len() > 6 { "; ..." } else { "" })
    };
    let cause = match &clownshoe.cause {
        Cause::ConstantHeader { bytes, round_sizes } => {
            format!("a header of {bytes} bytes, seen on {}", rounds(round_sizes))
        }
        Cause::Terminator { bytes } => format!("a terminator of {bytes} bytes"),
        Cause::RoundPlusVarying { round_sizes, least_bytes, most_bytes } => {
            format!("{} and a part of {least_bytes} to {most_bytes} bytes", rounds(round_sizes))
        }
        Cause::RoundPlusConstant { round, bytes } => {
            format!("{} and a constant {bytes}", words::count(*round))
        }
        Cause::Coincidence => "no pattern: perhaps coincidence".into(),
    };
    let mut facts = vec![("Probable cause", cause)];
    if clownshoe.size_count <= 1 {
        let size = clownshoe.first();
        let becomes = (
            words::count(size.request),
            words::count(size.usable),
            words::count(size.usable.saturating_sub(size.request)),
        );
        facts.insert(
            0,
            ("Request becomes", format!("{} → {} B ({} B slop)", becomes.0, becomes.1, becomes.2)),
        );
        facts.insert(
            1,
            ("Request that costs nothing", format!("{} B", words::count(size.free_request))),
        );
        facts.push(("Live at peak", words::count(size.at_peak.objects)));
    } else if clownshoe.size_count > clownshoe.sizes.len() as u64 {
        facts.push((
            "Sizes",
            format!(
                "{}, of which those that would save most are listed",
                words::count(clownshoe.size_count)
            ),
        ));
    }
    facts
}

/// The sizes of a family, for a table; one size alone is told as facts.
fn sizes(evidence: &Evidence) -> Vec<model::ShoeSize> {
    let Evidence::Clownshoes(clownshoe) = evidence else { return Vec::new() };
    let rows = clownshoe.sizes.iter().filter(|_| clownshoe.size_count > 1);
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

fn growth_facts(growth: &Growth) -> Vec<(&'static str, String)> {
    let strategy = match growth.strategy {
        GrowthStrategy::JustEnough { mean_step_bytes } => {
            format!("just enough, about {mean_step_bytes:.0} B a step")
        }
        GrowthStrategy::Linear { step_bytes } => {
            format!("linear, {} a step", words::bytes(step_bytes))
        }
        GrowthStrategy::Exponential { factor } => format!("exponential, {factor:.3}×"),
        GrowthStrategy::Irregular => "irregular".into(),
    };
    let through = match growth.through {
        Through::Realloc => "realloc",
        Through::AllocateCopyFree => "allocate, copy, free (inferred)",
    };
    vec![
        ("Growth", strategy),
        ("Through", through.into()),
        (
            "Steps",
            format!(
                "{} (doubling: {})",
                words::count(growth.steps),
                words::count(growth.doubling_steps)
            ),
        ),
        (
            "Asked for cumulatively",
            format!(
                "{} (doubling: {})",
                words::bytes(growth.cumulative_bytes),
                words::bytes(growth.doubling_cumulative_bytes)
            ),
        ),
        (
            "Copied",
            format!(
                "{} (doubling: at most {})",
                growth.copied(),
                words::bytes(growth.doubling_copied_bytes)
            ),
        ),
        ("Longest chain, bytes", sample(growth)),
    ]
}

fn sample(growth: &Growth) -> String {
    let mut out = String::new();
    for (index, size) in growth.sample.iter().enumerate() {
        match growth.sample_gap {
            Some((after, left_out)) if after == index => {
                out.push_str(&format!(" → … {} more … → ", words::count(left_out)))
            }
            _ if index > 0 => out.push_str(" → "),
            _ => {}
        }
        out.push_str(&words::count(*size));
    }
    out
}

fn churn_facts(churn: &Churn) -> Vec<(&'static str, String)> {
    let pattern = match churn.pattern {
        ChurnPattern::LargeShortLived => "large buffers that live shortly",
        ChurnPattern::Rebuilt => "the same state built again for each item",
    };
    let sizes: Vec<String> = churn
        .sizes
        .iter()
        .take(5)
        .map(|(size, count)| format!("{} B ({}×)", words::count(*size), words::count(*count)))
        .collect();
    let mut facts = vec![
        ("Pattern", pattern.into()),
        ("Asked for", words::bytes(churn.requested_bytes)),
        (
            "Most alive at once",
            format!(
                "{}{}",
                if churn.most_live_is_bound { "at most " } else { "" },
                words::count(churn.most_live)
            ),
        ),
        ("Median life", format!("{} asked for meanwhile", words::bytes(churn.median_life_bytes))),
        ("Sizes", sizes.join(", ")),
    ];
    if churn.zeroed_bytes > 0 {
        facts.push(("Zeroed", words::bytes(churn.zeroed_bytes)));
    }
    facts
}

fn leak_facts(leak: &Leak) -> Vec<(&'static str, String)> {
    let pattern = match leak.pattern {
        LeakPattern::Growing => "born throughout: it grows with time or work",
        LeakPattern::OneOff => "born at one time: a table or a cache, most often",
    };
    let eighths: Vec<String> =
        leak.born_by_eighth.iter().map(|bytes| words::bytes(*bytes)).collect();
    vec![
        ("Pattern", pattern.into()),
        (
            "Live at the end",
            format!(
                "{} in {}",
                words::bytes(leak.at_end.bytes),
                words::plural(leak.at_end.objects, "object")
            ),
        ),
        ("Freed by this site", words::plural(leak.freed, "object")),
        (
            match leak.eighths_of {
                LeakClock::Time => "Born in each eighth of the run",
                LeakClock::Allocations => "Born in each eighth of the run's allocations",
            },
            eighths.join(", "),
        ),
    ]
}
