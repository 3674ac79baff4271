//! What trying a finding's advice on the recording gave, beside what was estimated.

use heaplab_text::words::{bytes, count};
use serde::Serialize;

/// What one finding's advice came to on a real heap.
#[derive(Clone, Debug, Serialize)]
pub struct Saved {
    /// The finding's number in the report.
    pub finding: usize,
    /// The heap.
    pub heap: String,
    /// What the finding estimates for the peak.
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
