//! Findings as data: `report` prints them, `report --json` writes them, the page shows them.

use crate::finding::{Finding, Kind};
use heaplab_profile::Amount;
use heaplab_size_class::Allocator;
use heaplab_trace::StackId;
use serde::{Serialize, Serializer};

/// Everything that was found in one process of a recording.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// The first sentences of a report: how little of the process is explained, or that nothing is
    /// worth changing. Empty: the findings come first.
    pub lead: Vec<String>,
    /// The findings, in the order of [`crate::ORDER`].
    pub findings: Vec<Found>,
    /// Sites with slop that read their usable size: they may use the slop, so it is not called
    /// waste.
    pub uses_its_slop: Vec<UsesItsSlop>,
    /// Requested against usable bytes on each allocator, the measured one first.
    pub slop: Vec<SlopRow>,
    /// The counts table of the whole run, on the basis asked for.
    pub counts: CountsTable,
    /// The counts table of live requests at the peak, on the same basis.
    pub counts_at_peak: CountsTable,
    /// Details that a limit merged, each a sentence; empty: none.
    pub limits: Vec<String>,
}

/// On which allocator a figure holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Basis {
    /// The allocator recorded under, by its measured usable sizes.
    #[default]
    Measured,
    /// By a table of size classes.
    Table(Allocator),
}

impl Basis {
    /// The name on a command line and in JSON: "measured" or the allocator's name.
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Table(allocator) => allocator.name(),
        }
    }

    /// The name in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Basis::Measured => "the allocator recorded under",
            Basis::Table(allocator) => allocator.title(),
        }
    }

    /// The basis of this name.
    pub fn from_name(name: &str) -> Option<Basis> {
        if name == "measured" {
            Some(Basis::Measured)
        } else {
            Allocator::from_name(name).map(Basis::Table)
        }
    }
}

impl Serialize for Basis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One thing to change.
#[derive(Debug, Serialize)]
pub struct Found {
    /// Which sort.
    pub kind: Kind,
    /// The rank.
    pub rank: Rank,
    /// Whether the finding is too small for the first screen: under a thousandth of the peak.
    pub minor: bool,
    /// The function with the largest share, as a person would name it; empty: no stack.
    pub function: String,
    /// One line, without a full stop: function, bytes, what to do.
    pub title: String,
    /// The bytes of the title, without the function and what to do.
    pub what: String,
    /// The present cost, a sentence.
    pub cost: String,
    /// What to do, a sentence or two with numbers.
    pub advice: String,
    /// The number of requests, chains or objects, as [`Kind`] says.
    pub count: u64,
    /// The cost on each allocator on which there is one, the judged one first.
    pub costs: Vec<Cost>,
    /// The allocator by which it was judged: the one asked for; or else the one recorded under,
    /// where a change would save anything there; or else the one of jemalloc and mimalloc on which
    /// it costs most.
    pub basis: Basis,
    /// The saving of the change on that allocator.
    pub saving: Saving,
    /// How sure this is, and why.
    pub confidence: Confidence,
    /// The stacks it comes from, the largest share first; at most `Options::stacks_per_finding`.
    pub stacks: Vec<StackShare>,
    /// How many stacks there are in all.
    pub stack_count: u64,
    /// How many functions they are of.
    pub function_count: u64,
    /// The kind's own evidence.
    #[serde(serialize_with = "as_json")]
    pub evidence: Box<dyn Finding>,
}

impl Found {
    /// The part that a detector fills in before the words are made.
    pub(crate) fn draft(basis: Basis, evidence: impl Finding) -> Found {
        Found {
            kind: evidence.kind(),
            rank: Rank::OverRun,
            minor: false,
            function: String::new(),
            title: String::new(),
            what: String::new(),
            cost: String::new(),
            advice: String::new(),
            count: 0,
            costs: Vec::new(),
            basis,
            saving: Saving::default(),
            confidence: Confidence { level: Level::High, reason: String::new() },
            stacks: Vec::new(),
            stack_count: 0,
            function_count: 0,
            evidence: Box::new(evidence),
        }
    }

    /// The stack with the largest share; 0: none was recorded.
    pub fn stack(&self) -> StackId {
        self.stacks.first().map_or(0, |share| share.stack)
    }

    /// Whether it costs only on another allocator than the one recorded under, and so ranks last.
    /// Never where an allocator was asked for.
    pub fn is_elsewhere(&self) -> bool {
        self.rank == Rank::Elsewhere
    }

    /// Bytes for the ranking: those that the program would no longer need at its peak, or those
    /// that it never gives back.
    pub fn needed_bytes(&self) -> u64 {
        self.evidence.needed_bytes(self)
    }

    /// The evidence, if it is of the kind `E`.
    pub fn evidence<E: Finding>(&self) -> Option<&E> {
        self.evidence.as_any().downcast_ref()
    }

    /// Bytes now wasted at the peak, on the judged allocator.
    pub fn wasted_at_peak_bytes(&self) -> u64 {
        self.costs.first().map_or(0, |cost| cost.at_peak_bytes)
    }

    /// Bytes now wasted over the whole run, on the judged allocator.
    pub fn wasted_total_bytes(&self) -> u64 {
        self.costs.first().map_or(0, |cost| cost.total_bytes)
    }
}

/// The evidence with its kind.
fn as_json<S: Serializer>(
    evidence: &impl std::ops::Deref<Target = dyn Finding>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut value = evidence.to_json();
    value["kind"] = evidence.kind().name.into();
    value.serialize(serializer)
}

/// The order in which a person would mend findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rank {
    /// Never freed, more with every turn, and a hundredth of the peak or more.
    Leak,
    /// Would lower the peak by a hundredth or more.
    AtPeak,
    /// Came at one time, is live at the end, and a twentieth of the peak or more.
    Kept,
    /// Spares requests, copies and bytes over the run.
    OverRun,
    /// Costs only on another allocator than the one recorded under.
    Elsewhere,
}

/// Bytes wasted on one allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Where.
    pub basis: Basis,
    /// Wasted by objects live at the peak.
    pub at_peak_bytes: u64,
    /// Wasted by all requests of the run; for a leak, bytes held at the end.
    pub total_bytes: u64,
}

/// The saving of a change on the judged allocator, less the payload that a header pushes into
/// further blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Saving {
    /// Bytes at the peak.
    pub at_peak_bytes: u64,
    /// Bytes asked for over the whole run.
    pub total_bytes: u64,
    /// Bytes known to be copied or zeroed that the change would spare: a lower bound. 0 if no move
    /// was seen; the evidence has the upper bound.
    pub copied_bytes: u64,
    /// Requests that would no longer be made.
    pub requests: u64,
}

/// How sure a finding is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Confidence {
    /// In one word.
    pub level: Level,
    /// Why, as half a sentence: "every request was measured".
    pub reason: String,
}

/// Confidence in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A guess worth a look.
    Low,
    /// Likely; one link is inferred.
    Medium,
    /// Counted.
    High,
}

/// A stack's part of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StackShare {
    /// Row of the `stacks` table.
    pub stack: StackId,
    /// Its part of [`Found::count`].
    pub count: u64,
    /// Its part of the bytes that the finding is about: slop over the run, bytes beyond what
    /// doubling asks for, bytes asked for, or bytes live at the end, by kind.
    pub bytes: u64,
}

/// A site with slop that asks how much it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UsesItsSlop {
    /// Row of the `stacks` table.
    pub stack: StackId,
    /// How often it asked.
    pub usable_size_reads: u64,
    /// Its requests.
    pub requested: Amount,
    /// Live at the peak.
    pub at_peak: Amount,
}

/// Requested against usable bytes on one allocator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SlopRow {
    /// Which.
    pub basis: Basis,
    /// Requested bytes live at the peak.
    pub at_peak_requested_bytes: u64,
    /// Usable bytes of these.
    pub at_peak_usable_bytes: u64,
    /// Bytes of headers beside these, where the allocator has any; they are not slop.
    pub at_peak_header_bytes: u64,
    /// Requested bytes of the whole run.
    pub total_requested_bytes: u64,
    /// Usable bytes of these.
    pub total_usable_bytes: u64,
}

impl SlopRow {
    /// Slop at the peak as a share of the requested bytes: 0.196 is 19.6 %.
    pub fn at_peak_share(&self) -> f64 {
        share(
            self.at_peak_usable_bytes.saturating_sub(self.at_peak_requested_bytes),
            self.at_peak_requested_bytes,
        )
    }

    /// Slop of the whole run as a share of the requested bytes.
    pub fn total_share(&self) -> f64 {
        share(
            self.total_usable_bytes.saturating_sub(self.total_requested_bytes),
            self.total_requested_bytes,
        )
    }
}

/// `part / whole`, 0 of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The document's table: each request with its count and its size on the allocator.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct CountsTable {
    /// On which allocator.
    pub basis: Basis,
    /// Requests in all (or live objects, at the peak).
    pub requests: u64,
    /// Distinct sizes; each with each of its usable sizes counts.
    pub lines: u64,
    /// The most frequent first; at most `Options::counts_rows`.
    pub rows: Vec<CountsRow>,
}

/// A line of the counts table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CountsRow {
    /// Bytes asked for.
    pub request: u64,
    /// Bytes that may be used (measured: the smallest seen).
    pub usable: u64,
    /// Usable less requested.
    pub slop: u64,
    /// How often.
    pub count: u64,
    /// Share of all requests, in percent.
    pub percent: f64,
    /// The same, summed up to this row.
    pub cumulative_percent: f64,
}
