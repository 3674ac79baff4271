//! What counts as a finding, with the defaults and why they are so.

use crate::Basis;
use heaplab_profile::Profile;
use heaplab_size_class::Allocator;

/// Thresholds. None is tuned to a sample: each is a share of the run, or where a cost begins to be
/// felt.
#[derive(Clone, Debug)]
pub struct Options {
    /// The allocator to judge by; `None`: for each finding the one recorded under, or where it
    /// costs nothing there the one of jemalloc and mimalloc on which it costs most.
    pub basis: Option<Basis>,
    /// A request is "a few bytes over" a class if it exceeds the class by at most this many: a
    /// terminator, a header, a page's book-keeping.
    pub over_max_bytes: u64,
    /// ... and by at most this part (one over it) of the distance to the next class, so that at
    /// least half of the step is wasted.
    pub over_max_part: u64,
    /// ... and by at most this part (one over it) of itself: eight bytes are few beside 4,096 and
    /// many beside 16.
    pub over_max_share: u64,
    /// Findings that waste less than this part (one over it) of the requested bytes, at the peak
    /// and in total, are left out.
    pub least_part: u64,
    /// ... and those that waste less than so many bytes.
    pub least_bytes: u64,
    /// A finding that saves less than this part (one over it) of the peak there ranks by its saving
    /// over the run.
    pub peak_part: u64,
    /// What came at one time and is live at the end ranks among the findings from this part (one
    /// over it) of the peak on.
    pub kept_part: u64,
    /// Missing symbols are worth a hint where functions without a name asked for this part (one
    /// over it) of the bytes.
    pub nameless_part: u64,
    /// The process looked at, a row of `processes`; `None`: all.
    pub process: Option<u32>,
    /// A buffer that grew fewer times is not a chain.
    pub growth_steps: u32,
    /// Growth by this factor or more is as good as doubling.
    pub good_factor: f64,
    /// From this size on a buffer is large: a fresh one costs page faults rather than a free list's
    /// pop.
    pub large_bytes: u64,
    /// An object is short-lived if it is freed before this many more bytes were requested.
    pub short_lived_bytes: u64,
    /// A site rebuilds its state when it asked for so many times more objects than it ever had
    /// alive.
    pub rebuilt_times: u64,
    /// Stacks with equal innermost frames, this many, are the same site. Frames further out only
    /// tell the caller.
    pub site_frames: usize,
    /// Stacks listed with a finding.
    pub stacks_per_finding: usize,
    /// Sizes listed with a finding.
    pub sizes_per_finding: usize,
    /// Rows of the counts tables.
    pub counts_rows: usize,
    /// The name of the allocator recorded under, for sentences; empty: not known.
    pub recorded_under: String,
    /// Whether the recording has the program's end: objects live at a cut may be freed later.
    pub ended: bool,
    /// Whether the recording says which reallocations moved; an import may not.
    pub moves_known: bool,
    /// From this size on a move may have been made without copying;
    /// [`heaplab_profile::remapped_from_bytes`] knows for which allocator.
    pub remapped_from_bytes: u64,
    /// Most distinguished pairs of stack and size.
    pub pair_limit: usize,
}

impl Options {
    /// Whether the program ran on a sanitizer's allocator: AddressSanitizer's and its siblings', as
    /// the recorder names them.
    pub fn recorded_under_sanitizer(&self) -> bool {
        self.recorded_under.split(' ').next().is_some_and(|name| name.ends_with("Sanitizer"))
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            basis: None,
            over_max_bytes: 512,
            over_max_part: 2,
            over_max_share: 8,
            least_part: 1000,
            least_bytes: 1024,
            peak_part: 100,
            kept_part: 20,
            nameless_part: 10,
            process: None,
            growth_steps: 4,
            good_factor: 1.4,
            large_bytes: 64 * 1024,
            short_lived_bytes: 1024 * 1024,
            rebuilt_times: 100,
            site_frames: 5,
            stacks_per_finding: 8,
            sizes_per_finding: 32,
            counts_rows: 100,
            recorded_under: String::new(),
            ended: true,
            moves_known: true,
            remapped_from_bytes: u64::MAX,
            pair_limit: 1 << 18,
        }
    }
}

impl Options {
    /// Whether a waste is worth mentioning: a part of the peak or of all that was requested.
    pub(crate) fn is_worth(&self, profile: &Profile, at_peak_bytes: u64, total_bytes: u64) -> bool {
        at_peak_bytes >= self.least(profile.peak.live.bytes)
            || total_bytes >= self.least(profile.totals.requested_bytes)
    }

    /// The table to judge by that no report compares unasked.
    pub fn asked_table(&self) -> Option<Allocator> {
        let Some(Basis::Table(allocator)) = self.basis else { return None };
        Allocator::NAMED.contains(&allocator).then_some(allocator)
    }

    /// The least bytes at the peak by which a finding ranks before those that save over the run.
    pub(crate) fn least_at_peak(&self, profile: &Profile) -> u64 {
        self.least_bytes.max(profile.peak.live.bytes / self.peak_part.max(1))
    }

    /// The allocator recorded under, where its usable sizes were measured.
    pub(crate) fn recorded(&self, profile: &Profile) -> Option<&str> {
        let name = match self.recorded_under.as_str() {
            "" => "the allocator recorded under",
            name => name,
        };
        profile.is_measured().then_some(name)
    }

    /// The least part of so many bytes that is worth mentioning.
    pub fn least(&self, of_bytes: u64) -> u64 {
        self.least_bytes.max(of_bytes / self.least_part.max(1))
    }
}
