//! Tries a finding's advice on the recording and compares the result with the estimate.

use crate::{Analysis, advice, numbered, profile_of};
use heaplab_experiment::trial::{Trial, TrialError};
use heaplab_heap::FamilyError;
use heaplab_replay::Families;
use heaplab_text::words::{bytes, count};
use heaplab_trace::TraceError;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_what_if::{WhatIfError, change};
use serde::Serialize;
use std::path::Path;

/// Why no finding was tried.
#[derive(Debug, thiserror::Error)]
pub enum SavingsError {
    /// A changed recording cannot be read.
    #[error(transparent)]
    Unread(#[from] TraceError),
    /// The recording cannot be changed.
    #[error(transparent)]
    Unchanged(#[from] WhatIfError),
    /// A finding's allocator is no heap of the lab.
    #[error("{0}")]
    Heap(#[from] FamilyError),
    /// The recordings cannot be replayed.
    #[error(transparent)]
    Trial(#[from] TrialError),
}

/// The result of one finding's advice on a real heap.
#[derive(Clone, Debug, Serialize)]
pub struct Saved {
    /// The finding's number in the report.
    pub finding: usize,
    /// The heap.
    pub heap: String,
    /// The finding's estimate for the peak.
    pub estimated_at_peak_bytes: u64,
    /// Peak resident bytes, as recorded and changed.
    pub peak_resident_bytes: [u64; 2],
    /// Most bytes requested at once, as recorded and changed.
    pub peak_requested_bytes: [u64; 2],
    /// Requests of the run, as recorded and changed.
    pub requests: [u64; 2],
}

impl Saved {
    /// A sentence for a person.
    pub fn words(&self) -> String {
        let [was, would_be] = self.peak_resident_bytes;
        let more = if would_be > was { "more" } else { "less" };
        let peak = match was.abs_diff(would_be) {
            0 => "the peak stays the same".into(),
            difference => format!("{} {more} at the peak", bytes(difference)),
        };
        let [was_asked, asked] = self.requests;
        let requests = match was_asked.abs_diff(asked) {
            0 => String::new(),
            1 => format!(", one request {}", if asked > was_asked { "more" } else { "less" }),
            by => format!(
                ", {} requests {}",
                count(by),
                if asked > was_asked { "more" } else { "fewer" }
            ),
        };
        let estimated = match self.estimated_at_peak_bytes {
            0 => "nothing was estimated for the peak".into(),
            estimated => format!("{} were estimated", bytes(estimated)),
        };
        format!(
            "Replayed so on {}: {peak} ({} resident in the place of {}; {estimated}){requests}.",
            self.heap,
            bytes(would_be),
            bytes(was)
        )
    }
}

/// A recording whose findings are tried.
#[derive(Clone, Copy, Debug)]
pub struct Tried<'a> {
    /// The recording.
    pub bundle: &'a Bundle,
    /// The process.
    pub selection: Selection,
    /// The findings, with every stack and size ([`advice::whole`]).
    pub analysis: &'a Analysis,
}

impl Tried<'_> {
    /// Applies the advice of the first `most` findings, one by one, and replays each on the
    /// finding's allocator. Changed recordings go to `folder` and stay there. `say` gets a line
    /// about each.
    ///
    /// # Errors
    /// The recording cannot be read, changed or replayed.
    pub fn savings(
        &self,
        most: usize,
        families: &Families,
        trial: &Trial,
        folder: &Path,
        say: &mut dyn FnMut(String),
    ) -> Result<Vec<Saved>, SavingsError> {
        let Tried { bundle, selection, analysis } = *self;
        let mut saved = Vec::new();
        for (number, finding) in (1..).zip(numbered(&analysis.findings)).take(most) {
            let Some(rule) = advice::rule(finding) else { continue };
            say(format!("trying finding {number}: {}", rule.words()));
            let path = folder.join(format!("finding-{number}.heaplab"));
            match change(bundle, &[rule], selection.process, &path, |_| ()) {
                // Findings that do not concern requests cannot be tried; the others can.
                Err(error @ WhatIfError::Nothing { .. }) => {
                    say(format!("heaplab: finding {number} was not tried: {error}"));
                    continue;
                }
                changed => changed?,
            };
            let after = Bundle::open(&path)?;
            let profile = profile_of(&after, selection, &mut |_| {})?;
            let heap = advice::heap_of(finding, &bundle.meta().allocator);
            let heaps = families.parse_list(heap)?;
            let results = trial.replay([bundle, &after], selection, &heaps, |_| ())?;
            let Some((was, would_be)) = results.peaks(heap) else { continue };
            let before = &analysis.profile;
            saved.push(Saved {
                finding: number,
                heap: heap.into(),
                estimated_at_peak_bytes: finding.saving.at_peak_bytes,
                peak_resident_bytes: [was, would_be],
                peak_requested_bytes: [before.peak.live.bytes, profile.peak.live.bytes],
                requests: [before.totals.requests, profile.totals.requests],
            });
        }
        Ok(saved)
    }
}
