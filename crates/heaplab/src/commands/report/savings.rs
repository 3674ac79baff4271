//! `report --verify-savings`: each finding's advice done to the recording and replayed, so that the
//! estimated saving has a measured one beside it.

use super::super::what_if::{Replay, analysed, replayed};
use crate::heaps;
use anyhow::{Context, Result};
use heaplab_findings::Basis;
use heaplab_report::{Analysis, Saved, advice, numbered, profile_of};
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_what_if::{WhatIfError, change};

/// Tries the first `most` findings, one by one.
///
/// # Errors
/// The recording cannot be read, changed or replayed.
pub fn verified(
    bundle: &Bundle,
    selection: Selection,
    basis: Option<Basis>,
    shown: &Analysis,
    most: usize,
) -> Result<Vec<Saved>> {
    // The same findings with every stack of theirs.
    let whole = analysed(bundle, selection, basis)?;
    let folder = tempfile::tempdir().context("cannot make a folder for changed workloads")?;
    let mut saved = Vec::new();
    for (number, finding) in (1..).zip(numbered(&whole.findings)).take(most) {
        let Some(rule) = advice::rule(finding) else { continue };
        eprintln!("trying finding {number}: {}", rule.words());
        let path = folder.path().join(format!("finding-{number}.heaplab"));
        match change(bundle, &[rule], selection.process, &path, |_| ()) {
            // What is found by other means than requests can't be tried, and the others can.
            Err(error @ WhatIfError::Nothing { .. }) => {
                eprintln!("heaplab: finding {number} was not tried: {error}");
                continue;
            }
            changed => changed?,
        };
        let after = Bundle::open(&path)?;
        let profile = profile_of(&after, selection, &mut |_| {})?;
        let heap = advice::heap_of(finding, &bundle.meta().allocator);
        let how = Replay { space_only: true, reps: 1, limit_s: 600, quiet: true };
        let specs = heaps::parse_list(heap)?;
        let results = replayed([bundle, &after], selection, &specs, &how)?;
        let Some((was, would_be)) = results.peaks(heap) else { continue };
        saved.push(Saved {
            finding: number,
            heap: heap.into(),
            estimated_at_peak_bytes: finding.saving.at_peak_bytes,
            peak_resident_bytes: [was, would_be],
            peak_requested_bytes: [shown.profile.peak.live.bytes, profile.peak.live.bytes],
            requests: [shown.profile.totals.requests, profile.totals.requests],
        });
    }
    Ok(saved)
}
