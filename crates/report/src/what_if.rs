//! The saving of a change of the program: one model, as JSON, as text and as a page.

mod page;
mod text;
mod view;

use heaplab_experiment::pair::PairResults;
use heaplab_findings::{SlopRow, slop};
use heaplab_profile::Profile;
use heaplab_trace::bundle::Origin;
use heaplab_what_if::{Changed, Done, Rule};
use serde::Serialize;
use std::path::Path;

/// All results of a change (docs/what-if-json.md).
#[derive(Debug, Serialize)]
pub struct WhatIf {
    format: &'static str,
    version: u32,
    /// The changed bundle.
    bundle: String,
    origin: Origin,
    rules: Vec<RuleDone>,
    before: Asked,
    after: Asked,
    /// Both workloads on the heaps.
    pub replay: PairResults,
}

/// The effect of a rule.
#[derive(Debug, Serialize)]
struct RuleDone {
    words: String,
    requests: u64,
    spared: u64,
    early: u64,
    added: u64,
}

/// The requests of a workload.
#[derive(Debug, Serialize)]
struct Asked {
    requests: u64,
    requested_bytes: u64,
    peak_requested_bytes: u64,
    end_requested_bytes: u64,
    slop: Vec<SlopRow>,
}

impl Asked {
    fn of(profile: &Profile) -> Asked {
        Asked {
            requests: profile.totals.requests,
            requested_bytes: profile.totals.requested_bytes,
            peak_requested_bytes: profile.peak.live.bytes,
            end_requested_bytes: profile.end.live.bytes,
            slop: slop::by_allocator(profile, None),
        }
    }
}

impl WhatIf {
    fn view(&self) -> view::View {
        view::View::of(self)
    }

    /// The result of `rules` on a recording, in the bundle at `path`; profiles before and after.
    pub fn new(
        path: &Path,
        rules: &[Rule],
        changed: Changed,
        profiles: [&Profile; 2],
        replay: PairResults,
    ) -> WhatIf {
        let [before, after] = profiles.map(Asked::of);
        WhatIf {
            format: "heaplab-what-if",
            version: 1,
            bundle: path.display().to_string(),
            rules: rules.iter().zip(&changed.done).map(RuleDone::of).collect(),
            origin: changed.origin,
            before,
            after,
            replay,
        }
    }
}

impl RuleDone {
    fn of((rule, done): (&Rule, &Done)) -> RuleDone {
        let Done { requests, spared, early, added } = *done;
        RuleDone { words: rule.words(), requests, spared, early, added }
    }
}
