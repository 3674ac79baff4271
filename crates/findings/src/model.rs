//! What the findings are, as data: what `report` prints, `report --json` writes and the page shows.

use crate::words;
use heaplab_profile::Amount;
use heaplab_size_class::Allocator;
use heaplab_trace::StackId;
use serde::{Serialize, Serializer};

/// Everything that was found in one process of a recording.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Findings {
    /// What a report says first, each a sentence or two: how little of the process is explained, or
    /// that nothing is worth changing; empty: the findings speak for themselves.
    pub lead: Vec<String>,
    /// The findings, in the order of [`crate::ORDER`].
    pub findings: Vec<Finding>,
    /// Sites with slop that read their usable size: they may use it, so it is not called waste.
    pub uses_its_slop: Vec<UsesItsSlop>,
    /// Requested against usable bytes on each allocator, the measured one first.
    pub slop: Vec<SlopRow>,
    /// The counts table of the whole run, on the basis asked for.
    pub counts: CountsTable,
    /// The counts table of what was live at the peak, on the same basis.
    pub counts_at_peak: CountsTable,
    /// What was not told apart, because a limit was reached, each a sentence; empty: nothing.
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
    /// As it is named on a command line and in JSON: "measured" or the allocator's name.
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::Table(allocator) => allocator.name(),
        }
    }

    /// As it is named in a sentence.
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Which sort.
    pub kind: Kind,
    /// By what it ranks.
    pub rank: Rank,
    /// Whether it is too small for the first screen: under a thousandth of the peak.
    pub minor: bool,
    /// The function that asks for most of it, as a person would name it; empty: no stack.
    pub function: String,
    /// One line, without a full stop: function, bytes, what to do.
    pub title: String,
    /// The bytes of the title, without the function and what to do.
    pub what: String,
    /// What to do, a sentence or two with numbers.
    pub advice: String,
    /// Requests, chains or objects, as [`Kind`] says.
    pub count: u64,
    /// What it costs on each allocator on which it costs anything, the judged one first.
    pub costs: Vec<Cost>,
    /// The allocator by which it was judged: the one asked for; or else the one recorded under,
    /// where a change would save anything there; or else the one of jemalloc and mimalloc on which
    /// it costs most.
    pub basis: Basis,
    /// What the change would save there.
    pub saving: Saving,
    /// How sure this is, and why.
    pub confidence: Confidence,
    /// The stacks it comes from, the largest share first; at most `Options::stacks_per_finding`.
    pub stacks: Vec<StackShare>,
    /// How many stacks there are in all.
    pub stack_count: u64,
    /// How many functions they are of.
    pub function_count: u64,
    /// What the kind adds.
    pub evidence: Evidence,
}

impl Finding {
    /// What a detector fills in before the words are made.
    pub(crate) fn draft(kind: Kind, basis: Basis, evidence: Evidence) -> Finding {
        Finding {
            kind,
            rank: Rank::OverRun,
            minor: false,
            function: String::new(),
            title: String::new(),
            what: String::new(),
            advice: String::new(),
            count: 0,
            costs: Vec::new(),
            basis,
            saving: Saving::default(),
            confidence: Confidence { level: Level::High, reason: String::new() },
            stacks: Vec::new(),
            stack_count: 0,
            function_count: 0,
            evidence,
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

    /// Bytes by which it ranks: those that the program would not need any more at its peak, or those
    /// that it never gives back.
    pub fn needed_bytes(&self) -> u64 {
        match self.kind {
            Kind::Leak => self.wasted_total_bytes(),
            _ => self.saving.at_peak_bytes,
        }
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

/// What a person would mend first.
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

/// The sorts of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Requests a few bytes over a size class. Counts requests; wastes slop.
    Clownshoes,
    /// Buffers that grow by too little. Counts chains; wastes copied and requested bytes.
    Growth,
    /// The same memory asked for and given back over and over. Counts requests; wastes requests and
    /// zeroed bytes.
    Churn,
    /// Live at the end. Counts objects; wastes what they hold.
    Leak,
}

impl Kind {
    /// As a heading.
    pub const fn title(self) -> &'static str {
        match self {
            Kind::Clownshoes => "clownshoes",
            Kind::Growth => "growth",
            Kind::Churn => "churn",
            Kind::Leak => "live at the end",
        }
    }
}

/// Bytes wasted on one allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Where.
    pub basis: Basis,
    /// By what was live at the peak.
    pub at_peak_bytes: u64,
    /// By all requests of the run; of what is live at the end, what it holds there.
    pub total_bytes: u64,
}

/// What a change would save on the judged allocator. Payload that a header pushes into further
/// blocks is taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Saving {
    /// Bytes at the peak.
    pub at_peak_bytes: u64,
    /// Bytes asked for over the whole run.
    pub total_bytes: u64,
    /// Bytes known to be copied or zeroed that would no longer be: at least so many. Where no move
    /// was seen it is 0, and what is copied at most is in the evidence.
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
    /// Its part of [`Finding::count`].
    pub count: u64,
    /// Its part of the bytes that the finding is about: slop over the run, bytes beyond what
    /// doubling asks for, bytes asked for, or bytes live at the end, by kind.
    pub bytes: u64,
}

/// What each kind of finding adds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Evidence {
    /// See [`Clownshoe`].
    Clownshoes(Clownshoe),
    /// See [`Growth`].
    Growth(Growth),
    /// See [`Churn`].
    Churn(Churn),
    /// See [`Leak`].
    Leak(Leak),
}

impl Evidence {
    /// What tells one cause in a function from another.
    pub(crate) fn cause(&self) -> String {
        match self {
            Evidence::Clownshoes(shoe) => shoe.cause(),
            Evidence::Growth(growth) => growth.cause(),
            Evidence::Churn(churn) => churn.cause(),
            Evidence::Leak(leak) => leak.cause(),
        }
    }

    /// Takes in what was found of the same cause in the same function.
    pub(crate) fn absorb(&mut self, other: Evidence) {
        match (self, other) {
            (Evidence::Clownshoes(shoe), Evidence::Clownshoes(other)) => shoe.absorb(other),
            (Evidence::Growth(growth), Evidence::Growth(other)) => growth.absorb(other),
            (Evidence::Churn(churn), Evidence::Churn(other)) => churn.absorb(other),
            (Evidence::Leak(leak), Evidence::Leak(other)) => leak.absorb(other),
            _ => {}
        }
    }
}

/// Requests a few bytes over a class, for one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clownshoe {
    /// Why so many bytes were probably asked for.
    pub cause: Cause,
    /// Whether it costs only on another allocator than the one recorded under, as measured there.
    pub elsewhere: bool,
    /// The sizes, that which would save most first; at most `Options::sizes_per_finding`, never
    /// none.
    pub sizes: Vec<ShoeSize>,
    /// How many sizes there are in all.
    pub size_count: u64,
}

impl Clownshoe {
    /// The size that would save most.
    pub fn first(&self) -> ShoeSize {
        self.sizes.first().copied().unwrap_or_default()
    }
}

/// One size of a [`Clownshoe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct ShoeSize {
    /// Bytes asked for.
    pub request: u64,
    /// Bytes over `free_request`.
    pub over_bytes: u64,
    /// Usable bytes on the judged allocator.
    pub usable: u64,
    /// The largest request of the class below on the judged allocator: the request that costs
    /// nothing.
    pub free_request: u64,
    /// Requests of this size, with bytes and measured usable bytes.
    pub requested: Amount,
    /// Of them, live at the peak.
    pub at_peak: Amount,
    /// Its part of [`Finding::saving`].
    pub saving: Saving,
}

/// Why a request is a little larger than a round one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Cause {
    /// Several round sizes of one calling site carry the same surplus: a header of so many bytes.
    ConstantHeader {
        /// Bytes of the header.
        bytes: u64,
        /// The round sizes seen with it, smallest first.
        round_sizes: Vec<u64>,
    },
    /// One or two bytes over a round size: a string's end.
    Terminator {
        /// Bytes of it.
        bytes: u64,
    },
    /// Round sizes and a part that varies: nearly all that a site asks for thereabouts lies just
    /// over them, or several sizes that stand out there do.
    RoundPlusVarying {
        /// The round sizes, smallest first.
        round_sizes: Vec<u64>,
        /// The fewest bytes added.
        least_bytes: u64,
        /// The most bytes added.
        most_bytes: u64,
    },
    /// A single round size and a constant.
    RoundPlusConstant {
        /// The round size.
        round: u64,
        /// Bytes added to it.
        bytes: u64,
    },
    /// Just over a class without a pattern.
    Coincidence,
}

/// Buffers that grow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// How, in the longest chain.
    pub strategy: GrowthStrategy,
    /// Through what: realloc, or allocate-copy-free as inferred.
    pub through: Through,
    /// Chains, each a buffer that grew at least `Options::growth_steps` times.
    pub chains: u64,
    /// Times that they grew.
    pub steps: u64,
    /// Bytes asked for cumulatively.
    pub cumulative_bytes: u64,
    /// Bytes copied if every step copied all that was there: an upper bound.
    pub copied_upper_bytes: u64,
    /// Bytes copied by the steps that are known to have moved; `None` where moves are not known,
    /// and of buffers grown by hand, whose copying nobody saw.
    pub copied_moved_bytes: Option<u64>,
    /// Bytes that steps moved and that may not have been copied, by `Options::remapped_from_bytes`.
    pub remapped_bytes: u64,
    /// Bytes asked for cumulatively if they had doubled.
    pub doubling_cumulative_bytes: u64,
    /// Bytes copied (upper bound) if they had doubled.
    pub doubling_copied_bytes: u64,
    /// Steps if they had doubled.
    pub doubling_steps: u64,
    /// Sizes of the longest chain: the first ones, and after `sample_gap` left out the last ones.
    pub sample: Vec<u64>,
    /// Sizes left out of the middle of `sample`, and after how many of them.
    pub sample_gap: Option<(usize, u64)>,
    /// Times that the longest chain grew.
    pub longest_steps: u64,
    /// How often the same function asked how much of its blocks it may use.
    pub usable_size_reads: u64,
}

impl Growth {
    /// What was copied, as far as it is known: `158 KiB`, `at least 158 KiB`, `at most 940 MiB`.
    pub fn copied(&self) -> String {
        match self.copied_moved_bytes {
            Some(bytes) => words::copied(bytes, self.remapped_bytes),
            None => format!("at most {}", words::bytes(self.copied_upper_bytes)),
        }
    }
}

/// How a buffer grows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "strategy", rename_all = "snake_case")]
pub enum GrowthStrategy {
    /// By what is needed: steps of varying or of tiny size.
    JustEnough {
        /// Mean step in bytes.
        mean_step_bytes: f64,
    },
    /// By a constant step.
    Linear {
        /// The step.
        step_bytes: u64,
    },
    /// By a constant factor.
    Exponential {
        /// The factor.
        factor: f64,
    },
    /// Neither fits.
    Irregular,
}

/// Through what a buffer grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Through {
    /// realloc: followed by identity.
    Realloc,
    /// A larger block from the same stack, then a free of the smaller one: inferred.
    AllocateCopyFree,
}

/// Memory that comes and goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Churn {
    /// Which sort of churn.
    pub pattern: ChurnPattern,
    /// Requests of the site.
    pub requests: u64,
    /// Their bytes.
    pub requested_bytes: u64,
    /// Requests of large buffers that lived shortly.
    pub large_requests: u64,
    /// Their bytes.
    pub large_bytes: u64,
    /// Bytes of them that had to be zeroed.
    pub zeroed_bytes: u64,
    /// Most objects of it alive at once.
    pub most_live: u64,
    /// Whether that is only a bound: several sites of a function that has others, too, which were
    /// counted one by one.
    pub most_live_is_bound: bool,
    /// The sizes asked for most, with how often.
    pub sizes: Vec<(u64, u64)>,
    /// Median life of its objects, in bytes requested in between, rounded down to a power of two.
    pub median_life_bytes: u64,
}

/// Sorts of churn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChurnPattern {
    /// Large buffers that live shortly.
    LargeShortLived,
    /// The same few sizes, never many at a time: state that is rebuilt for each item.
    Rebuilt,
}

/// Live at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leak {
    /// Objects and bytes still live.
    pub at_end: Amount,
    /// Objects of the site that were freed.
    pub freed: u64,
    /// How the survivors came to be.
    pub pattern: LeakPattern,
    /// Bytes of the survivors by birth, in eighths of the run.
    pub born_by_eighth: [u64; 8],
    /// By which clock these are eighths.
    pub eighths_of: LeakClock,
}

/// By what a run is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakClock {
    /// By its time.
    Time,
    /// By the objects born: where time does not show the growth, or the trace has none.
    Allocations,
}

/// How what is live at the end came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakPattern {
    /// Survivors were born throughout: it grows with time or work.
    Growing,
    /// They were born at one time and stayed: a table or a cache, most often.
    OneOff,
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

/// The document's table: how often each request was made and what it became.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct CountsTable {
    /// On which allocator.
    pub basis: Basis,
    /// Requests in all (or live objects, at the peak).
    pub requests: u64,
    /// Distinct lines.
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
