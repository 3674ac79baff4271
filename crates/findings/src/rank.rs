//! The order of findings: first the one that a person would mend first.
//!
//! Leaks come first, then memory that the program needs at its peak, then memory that it keeps to
//! the end, then requests and copies, which cost time. Findings without a cost on the recorded
//! allocator come last. Certainty does not count; it is shown beside the finding.

use crate::finding::Run;
use crate::{Found, Rank};
use std::cmp::Reverse;

/// The order, as a sentence for readers of findings.
pub const ORDER: &str = "First what grows and is never freed, then what would lower the peak, each by 1 % of the peak or more; then what is live at the end, of 5 % or more; then what is spared over the run; last what costs only on another allocator.";

/// Sorts, and marks findings too small for a first screen.
pub(crate) fn sort(findings: &mut [Found], run: &Run<'_>) {
    let least = run.profile.peak.live.bytes / run.options.least_part.max(1);
    for finding in findings.iter_mut() {
        finding.rank = finding.evidence.rank(finding, run);
        finding.minor = finding.evidence.felt_bytes(finding) < least;
    }
    findings.sort_by(|a, b| order(a).cmp(&order(b)));
}

/// Sorts by rank and bytes; equal ones by requests, function and place in the recording.
fn order(finding: &Found) -> impl Ord + '_ {
    let needed = match finding.rank {
        Rank::OverRun => 0,
        Rank::Elsewhere => finding.saving.at_peak_bytes,
        Rank::Leak | Rank::AtPeak | Rank::Kept => finding.needed_bytes(),
    };
    let numbers = (needed, finding.saving.total_bytes, finding.count);
    (
        finding.rank,
        finding.minor,
        Reverse(numbers),
        &finding.function,
        finding.kind.name,
        finding.stack(),
    )
}
