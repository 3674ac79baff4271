//! From the analyses' results to the page's content. Each file fills one part of the model.

mod dark_matter;
mod findings;
mod flame;
mod heap_map;
mod metaspace;
mod names;
mod processes;
mod ranges;
mod replay;
mod resident;
mod sizes;
mod sources;
mod timeline;

pub use flame::of_paths as flame_of;
pub(crate) use replay::{ratio_row, space_row};

use crate::Report;
use crate::page::{compose::shorten, limits, model};
use heaplab_profile::Lifetime;
use heaplab_text::words;
use names::Names;

/// The page of these sources.
pub fn page(sources: &Report<'_>) -> model::Page {
    let Report { meta, tables, profile, findings, .. } = *sources;
    let mut left_out = Vec::new();
    let mut names = Names::default();
    let timeline = timeline::timeline(sources, &mut left_out);
    let (flame, node_of) =
        flame::flame(tables, &flame::Measures::of(profile), &mut names, &mut left_out);
    let listed = findings::findings(sources, &node_of, &mut names, &mut left_out);
    let sizes = sizes::sizes(profile);
    let ranges = ranges::ranges(sources, &sizes, &node_of, &mut left_out);
    let uses_its_slop = findings::uses_its_slop(tables, findings, &mut names);
    let live_at_end = live_at_end(sources, &mut names, &mut left_out);
    let dark_matter =
        sources.dark_matter.map(|found| dark_matter::dark_matter(found, &mut names, &mut left_out));
    left_out.extend(findings.limits.iter().cloned());
    let resident = resident::resident(sources, &mut names, &mut left_out);
    let metaspaces = metaspace::metaspaces(sources, &mut names, &mut left_out);
    let heap_pages = heap_map::pages(sources.heaps_at, &mut left_out);
    let (mut frames, places) = names.into_rows_and_places();
    let lines = sources
        .with_sources
        .then(|| self::sources::sources(&mut frames, &places, meta.began_unix_s));
    model::Page {
        writer: concat!("heaplab ", env!("CARGO_PKG_VERSION")).into(),
        recording: recording(sources),
        totals: totals(sources),
        processes: processes::processes(sources, &mut left_out),
        threads: processes::threads(sources, &mut left_out),
        timeline,
        resident,
        sizes,
        ranges,
        slop: sizes::slop(meta, profile, findings),
        flame,
        lead: if metaspaces.is_empty() { findings.lead.clone() } else { Vec::new() },
        findings_order: heaplab_findings::ORDER.into(),
        kinds: findings::kinds(findings),
        findings: listed,
        uses_its_slop,
        live_at_end,
        dark_matter,
        lifetimes: lifetimes(&profile.lifetimes.by_time),
        lifetimes_by_bytes: lifetimes(&profile.lifetimes.by_bytes),
        replay: sources.replays.first().map(replay::replay),
        earlier_replays: replay::earlier(sources.replays),
        heap_pages,
        metaspaces,
        left_out,
        frames,
        sources: lines,
    }
}

fn recording(sources: &Report<'_>) -> model::Recording {
    let Report { meta, tables, .. } = *sources;
    let shown = sources.process.filter(|row| (*row as usize) < tables.processes.len());
    model::Recording {
        program: shorten(&meta.program, limits::NAME_CHARS),
        process: shown
            .map(|row| format!("process {}", processes::process_name(tables, row)))
            .unwrap_or_default(),
        processes: tables.processes.len(),
        allocator: meta.allocator.clone(),
        death_rule: meta.death_rule.clone(),
        stack_depth: meta.stack_depth,
        architecture: meta.architecture.clone(),
        began_unix_s: meta.began_unix_s,
        duration_ns: meta.duration_ns,
        events: sources.profile.totals.events,
        cut: meta.cut.clone(),
        losses: meta.losses.clone(),
    }
}

fn totals(sources: &Report<'_>) -> model::Totals {
    let profile = sources.profile;
    let resident = heaplab_profile::resident_peak(sources.tables, sources.process);
    model::Totals {
        allocations: profile.totals.allocations,
        frees: profile.totals.frees,
        reallocations: profile.totals.reallocations,
        moved_reallocations: (!sources.meta.moves_unknown)
            .then_some(profile.totals.moved_reallocations),
        requested_bytes: profile.totals.requested_bytes,
        failed_requests: profile.totals.failed_requests,
        peak_bytes: profile.peak.live.bytes,
        peak_objects: profile.peak.live.objects,
        peak_ns: profile.peak.time_ns,
        peak_slop_bytes: profile.is_measured().then(|| profile.peak.live.slop_bytes()),
        end_bytes: profile.end.live.bytes,
        end_objects: profile.end.live.objects,
        resident_peak_bytes: resident.map(|peak| peak.bytes),
        resident_is_kernels: resident.is_some_and(|peak| peak.is_kernels),
    }
}

fn live_at_end(
    sources: &Report<'_>,
    names: &mut Names,
    left_out: &mut Vec<String>,
) -> Vec<model::LiveStack> {
    let mut rows: Vec<_> =
        sources.profile.stacks.iter().filter(|row| row.at_end.objects > 0).collect();
    if rows.iter().all(|row| row.stack == heaplab_trace::NO_STACK) {
        return Vec::new();
    }
    rows.sort_by(|a, b| b.at_end.bytes.cmp(&a.at_end.bytes).then(a.stack.cmp(&b.stack)));
    if let Some(rest) = rows.get(limits::LIVE_STACKS..).filter(|rest| !rest.is_empty()) {
        let bytes = rest.iter().map(|row| row.at_end.bytes).sum();
        left_out.push(format!(
            "Live at the end: {} further stacks with {} together.",
            words::count(rest.len() as u64),
            words::bytes(bytes)
        ));
    }
    let rows = rows.into_iter().take(limits::LIVE_STACKS);
    rows.map(|row| model::LiveStack {
        bytes: row.at_end.bytes,
        objects: row.at_end.objects,
        frames: names.stack(sources.tables, row.stack),
    })
    .collect()
}

/// The rows begin at 0 and powers of two; each ends where twice its beginning is.
fn lifetimes(rows: &[Lifetime]) -> Vec<model::LifetimeBucket> {
    let first = rows.iter().position(|row| row.objects > 0).unwrap_or(0);
    let last = rows.iter().rposition(|row| row.objects > 0).map_or(0, |last| last + 1);
    let bucket = |row: &Lifetime| model::LifetimeBucket {
        from: row.from,
        to: row.from.saturating_mul(2).max(1),
        objects: row.objects,
        bytes: row.bytes,
    };
    rows.get(first..last).unwrap_or_default().iter().map(bucket).collect()
}
