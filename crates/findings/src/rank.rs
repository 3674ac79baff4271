//! In which order findings stand: what a person would mend first.
//!
//! Leaks come first, then memory that the program needs at its peak, then memory that it keeps to
//! the end, then requests and copies, which cost time. What costs nothing on the allocator recorded
//! under is no mistake of this run. How sure a finding is does not count, and stands beside it.

use crate::{Evidence, Finding, Kind, LeakPattern, Options, Rank};
use heaplab_profile::Profile;
use std::cmp::Reverse;

/// The order, as a sentence for readers of findings.
pub const ORDER: &str = "First what grows and is never freed, then what would lower the peak, each by 1 % of the peak or more; then what is live at the end, of 5 % or more; then what is spared over the run; last what costs only on another allocator.";

/// Sorts, and marks what is too small for a first screen.
pub(crate) fn sort(findings: &mut [Finding], profile: &Profile, options: &Options) {
    for finding in findings.iter_mut() {
        finding.rank = rank(finding, profile, options);
        // Churn and growth cost time: they are measured by what goes through them, and detectors
        // leave out what is no part of the run.
        let felt = match finding.kind {
            Kind::Clownshoes if finding.is_elsewhere() => finding.wasted_at_peak_bytes(),
            Kind::Clownshoes | Kind::Leak => finding.needed_bytes(),
            Kind::Growth | Kind::Churn => finding.saving.total_bytes,
        };
        finding.minor = felt < profile.peak.live.bytes / options.least_part.max(1);
    }
    findings.sort_by(|a, b| order(a).cmp(&order(b)));
}

/// Sorts by rank, by bytes, and where these are alike by requests, function and place in the
/// recording.
fn order(finding: &Finding) -> impl Ord + '_ {
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
        finding.kind,
        finding.stack(),
    )
}

fn rank(finding: &Finding, profile: &Profile, options: &Options) -> Rank {
    let needed = finding.needed_bytes();
    let is_large = needed >= options.least_at_peak(profile);
    match &finding.evidence {
        Evidence::Clownshoes(shoe) if shoe.elsewhere => Rank::Elsewhere,
        Evidence::Leak(leak) if leak.pattern == LeakPattern::Growing => {
            // Without a stack it is nobody's, and saves nothing that could be named.
            if is_large && finding.saving.total_bytes > 0 { Rank::Leak } else { Rank::OverRun }
        }
        Evidence::Leak(_) => {
            let kept = profile.peak.live.bytes / options.kept_part.max(1);
            let has_site = finding.stack() != 0;
            if has_site && needed >= kept.max(options.least_bytes) {
                Rank::Kept
            } else {
                Rank::OverRun
            }
        }
        _ if is_large => Rank::AtPeak,
        _ => Rank::OverRun,
    }
}
