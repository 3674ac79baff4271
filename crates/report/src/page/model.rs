//! The content of the page, and nothing else.
//!
//! The page's scripts read exactly these structs as JSON. So this crate decides what they can draw,
//! and everything is bounded before it is written: a recording of any length gives a page of a few
//! hundred kilobytes. Columns are parallel lists rather than lists of objects where there are
//! thousands of rows. Counts and bytes above 2^53 lose their last digits in a browser; no recording
//! that fits a machine reaches them.

mod dark_matter;
mod heap_map;
mod metaspace;
mod ranges;
mod replay;
mod resident;
mod sources;

pub use dark_matter::{DarkGroup, DarkList, DarkMatter};
pub use heap_map::{FreeKind, HeapMap, HeapPages, MappedPage, MappedSpace};
pub use metaspace::{Metaspace, MetaspaceKind};
pub use ranges::Ranges;
pub use replay::{FreeCategories, Ratio, Replay, ReplayCollections, ReplayHeap, ReplaySpace};
pub use resident::{Resident, ResidentKindRow, ResidentPartRow};
use serde::Serialize;
pub use sources::{Excerpt, Sources};

/// The whole page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Page {
    /// The program that wrote it: "heaplab 0.1.0".
    pub writer: String,
    /// The recording and its quality.
    pub recording: Recording,
    /// The figures at the top.
    pub totals: Totals,
    /// The processes of the recording, those recorded in vain too.
    pub processes: Vec<Process>,
    /// Requests by thread.
    pub threads: Vec<Thread>,
    /// Live bytes over time.
    pub timeline: Timeline,
    /// The parts of resident memory; `None`: the recording has no readings.
    pub resident: Option<Resident>,
    /// Requests by size.
    pub sizes: Sizes,
    /// Cost of each allocator's rounding on these requests; the first is the one recorded under
    /// where it was measured.
    pub slop: Vec<Slop>,
    /// The stacks, as one tree with a column for each measure; `None`: no stacks were recorded.
    pub flame: Option<Flame>,
    /// Contents of each range of the run; `None`: not counted, or there are no events.
    pub ranges: Option<Ranges>,
    /// Places in code that findings and live-at-end rows refer to by index.
    pub frames: Vec<Frame>,
    /// Lines of source files; `None`: the user did not request them.
    pub sources: Option<Sources>,
    /// The first sentences of a report.
    pub lead: Vec<String>,
    /// In which order findings stand, as a sentence.
    pub findings_order: String,
    /// The sorts of findings that there are.
    pub kinds: Vec<Kind>,
    /// Findings, in the order in which a person would mend them.
    pub findings: Vec<Finding>,
    /// Sites that use their slop.
    pub uses_its_slop: Vec<UsesItsSlop>,
    /// Objects live at the end, by stack, most bytes first.
    pub live_at_end: Vec<LiveStack>,
    /// Blocks that memory reporters name; `None`: no reporter was asked.
    pub dark_matter: Option<DarkMatter>,
    /// How long objects lived, in ns.
    pub lifetimes: Vec<LifetimeBucket>,
    /// The same in bytes that were asked for in between.
    pub lifetimes_by_bytes: Vec<LifetimeBucket>,
    /// The same workload on other heaps; `None`: it was not replayed.
    pub replay: Option<Replay>,
    /// Earlier replays with measurements that no newer one has, the newest first.
    pub earlier_replays: Vec<Replay>,
    /// The pages of each heap that was asked for.
    pub heap_pages: Vec<HeapPages>,
    /// Metaspaces of the recorded JVMs, the largest first; none: the recording is of something
    /// else.
    pub metaspaces: Vec<Metaspace>,
    /// Parts left out to keep the page small, each a sentence.
    pub left_out: Vec<String>,
}

/// The recording and its quality.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recording {
    /// The command.
    pub program: String,
    /// Which of the recording's processes this page is about; empty: all.
    pub process: String,
    /// How many processes the recording has.
    pub processes: usize,
    /// The allocator recorded under; empty: not known.
    pub allocator: String,
    /// How deaths were learnt.
    pub death_rule: String,
    /// Frames kept a stack; 0: none.
    pub stack_depth: u32,
    /// "x86_64".
    pub architecture: String,
    /// Seconds since 1970 UTC; 0: not known.
    pub began_unix_s: u64,
    /// Length.
    pub duration_ns: u64,
    /// Events in the whole recording.
    pub events: u64,
    /// Where the recording was cut, a sentence.
    pub cut: Option<String>,
    /// Losses, each a sentence.
    pub losses: Vec<String>,
}

/// A process of the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Process {
    /// The pid, or "7#2" for the second program of that pid.
    pub label: String,
    /// The executable's file name.
    pub name: String,
    /// How it began and ended, in words.
    pub life: String,
    /// The page is about this one (or about all).
    pub shown: bool,
    /// Why the process was not recorded.
    pub refused: Option<String>,
}

/// The figures of one thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Thread {
    /// Its name and number.
    pub name: String,
    /// The thread's requests.
    pub requests: u64,
    /// Bytes that these asked for.
    pub requested_bytes: u64,
    /// Objects that the thread freed.
    pub frees: u64,
    /// Of these, objects that another thread had asked for.
    pub cross_thread_frees: u64,
}

/// The figures at the top.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Objects born.
    pub allocations: u64,
    /// Objects freed.
    pub frees: u64,
    /// Reallocations.
    pub reallocations: u64,
    /// Of these, how many moved the object; `None`: not known.
    pub moved_reallocations: Option<u64>,
    /// Bytes asked for over the whole run.
    pub requested_bytes: u64,
    /// Requests that the allocator refused.
    pub failed_requests: u64,
    /// Most bytes live at once, as asked for.
    pub peak_bytes: u64,
    /// Objects live then.
    pub peak_objects: u64,
    /// When.
    pub peak_ns: u64,
    /// Bytes that the allocator added to those; `None`: not measured.
    pub peak_slop_bytes: Option<u64>,
    /// Bytes live at the end.
    pub end_bytes: u64,
    /// Objects live at the end.
    pub end_objects: u64,
    /// Most resident bytes; `None`: not sampled.
    pub resident_peak_bytes: Option<u64>,
    /// Whether the kernel counted them all along; else they are the largest sample.
    pub resident_is_kernels: bool,
}

/// Live bytes over time, in at most [`crate::page::limits::TIMELINE_POINTS`] steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// "time": `at` is ns since the recording began; "events": `at` is rows, for traces without
    /// time stamps.
    pub axis: String,
    /// Where the process shown began.
    pub begin: u64,
    /// Where each step begins; steps without events are left out.
    pub at: Vec<u64>,
    /// How long each step is.
    pub width: u64,
    /// Where the last step ends.
    pub end: u64,
    /// Bytes live at the end of each step.
    pub live_bytes: Vec<u64>,
    /// Most bytes live within the step, so that no peak is lost between points.
    pub max_bytes: Vec<u64>,
    /// Objects live at the end of each step.
    pub live_objects: Vec<u64>,
    /// Memory as the system saw it; empty on an axis of events.
    pub samples: Samples,
    /// Named moments.
    pub marks: Vec<Mark>,
    /// Where the peak was.
    pub peak_at: u64,
}

/// Memory as the system saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Samples {
    /// ns since the recording began.
    pub time_ns: Vec<u64>,
    /// Resident bytes.
    pub resident_bytes: Vec<u64>,
}

/// A named moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// On the timeline's axis.
    pub at: u64,
    /// Bytes live then; `None`: the process that the page is about did not run then.
    pub live_bytes: Option<u64>,
    /// The process that set the mark; empty: none, or the recording has only one.
    pub process: String,
}

/// Requests by size.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sizes {
    /// Powers of two, smallest first.
    pub buckets: Vec<SizeBucket>,
    /// The counts table of the whole run, most frequent first.
    pub whole: Counts,
    /// The counts table at peak.
    pub peak: Counts,
}

/// Requests between two powers of two.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SizeBucket {
    /// Smallest size in the bucket.
    pub from_bytes: u64,
    /// Largest size in the bucket.
    pub to_bytes: u64,
    /// Requests over the whole run.
    pub count: u64,
    /// Bytes they asked for.
    pub bytes: u64,
    /// Objects live at peak.
    pub peak_count: u64,
    /// Bytes they asked for.
    pub peak_bytes: u64,
}

/// The counts table of the 2011 document: `request -> usable (slop)`, count, %, cumulative %.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Requests in all, those of rows left out included.
    pub total_count: u64,
    /// Bytes they asked for in all.
    pub total_bytes: u64,
    /// The most frequent.
    pub rows: Vec<Count>,
    /// Distinct sizes left out.
    pub rows_left_out: usize,
}

/// One row of the counts table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Count {
    /// Bytes asked for; for a grouped row the largest.
    pub request: u64,
    /// Several sizes share this row, because there were too many distinct ones.
    pub grouped: bool,
    /// Smallest and largest usable bytes; `None`: not measured.
    pub usable: Option<(u64, u64)>,
    /// How often.
    pub count: u64,
    /// Requested bytes, all sizes together.
    pub bytes: u64,
    /// Usable less requested bytes, all sizes together; `None`: not measured.
    pub slop_bytes: Option<u64>,
}

/// The cost of one allocator's rounding for these requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Slop {
    /// "glibc 2.36", "jemalloc 5.3.1".
    pub allocator: String,
    /// Measured while recording, rather than computed from a table of size classes.
    pub measured: bool,
    /// Over the whole run.
    pub whole: SlopSum,
    /// At peak.
    pub peak: SlopSum,
    /// Bytes of block headers at peak, which are not slop.
    pub peak_header_bytes: u64,
    /// By size class, most slop first.
    pub classes: Vec<SlopClass>,
    /// Classes left out.
    pub classes_left_out: usize,
    /// Their slop over the whole run, together.
    pub left_out_slop_bytes: u64,
    /// Their slop at peak, together.
    pub left_out_peak_slop_bytes: u64,
}

/// Requested and usable bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SlopSum {
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes given.
    pub usable_bytes: u64,
}

/// Slop in one size class.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SlopClass {
    /// Usable bytes of a block of this class.
    pub class_bytes: u64,
    /// Requests over the whole run.
    pub count: u64,
    /// Slop over the whole run.
    pub slop_bytes: u64,
    /// Objects live at peak.
    pub peak_count: u64,
    /// Slop at peak.
    pub peak_slop_bytes: u64,
}

/// The stacks as one tree, roots outermost, in pre-order; node 0 is the root of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Flame {
    /// The measures, one column of `values` each.
    pub measures: Vec<Measure>,
    /// Parent of each node, always a smaller index; node 0 names itself.
    pub parent: Vec<u32>,
    /// Index into [`Page::frames`] of each node; -1: the root; -2: nodes too small to draw, taken
    /// together.
    pub frame: Vec<i64>,
    /// A column a measure: the node's value with everything it called.
    pub values: Vec<Vec<u64>>,
    /// Nodes that were taken together.
    pub merged_nodes: usize,
}

/// A quantity that the flame graph can show.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measure {
    /// "Live at peak, bytes".
    pub title: String,
    /// "byte", "object" or "request".
    pub unit: String,
    /// The subject: "peak", "asked", "end", "temporary"; "moment" and "added" for moments that the
    /// user asked for.
    pub key: String,
}

/// A place in code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Frame {
    /// The function, or module + offset where no symbol covers it.
    pub label: String,
    /// File name of the module; empty: none.
    pub module: String,
    /// "file.c:12"; empty: not known.
    pub place: String,
    /// The function only passes a request on to the allocator.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wrapper: bool,
    /// Index into [`Sources::excerpts`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<u32>,
}

/// A sort of finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Kind {
    /// As findings name it.
    pub kind: String,
    /// As a heading.
    pub name: String,
    /// An explanation of the kind.
    pub hint: String,
    /// The meaning of the bytes beside a stack.
    pub share_bytes: String,
    /// The meaning of the bytes beside those at the peak: "over the run".
    pub total_bytes: String,
}

/// Something to change.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Finding {
    /// "clownshoes", "growth", "churn", "leak".
    pub kind: String,
    /// One line.
    pub title: String,
    /// The change to make.
    pub advice: String,
    /// How often.
    pub count: u64,
    /// The counted unit: "request", "chain", "object".
    pub count_of: String,
    /// The allocator by which it was ranked, as [`Cost::allocator`] has it.
    pub basis: String,
    /// The present cost, by allocator.
    pub costs: Vec<Cost>,
    /// The saving of the change on that allocator.
    pub saving: Saving,
    /// Whether it costs only on another allocator than the one recorded under.
    pub elsewhere: bool,
    /// Whether the finding is too small for the first screen: under a thousandth of the peak.
    pub minor: bool,
    /// "high", "medium", "low".
    pub confidence: String,
    /// Why, half a sentence.
    pub confidence_reason: String,
    /// Further figures, name and value as the user reads them.
    pub facts: Vec<(String, String)>,
    /// The sizes of a finding about several, the largest saving first; else empty.
    pub sizes: Vec<ShoeSize>,
    /// Where it comes from, the largest part first.
    pub stacks: Vec<StackShare>,
    /// How many stacks there are in all.
    pub stack_count: u64,
    /// The command that tries the advice; empty: none is named.
    pub what_if: String,
    /// The measured saving, a sentence; empty: the advice was not tried.
    pub saved: String,
}

/// One of several sizes that lie over round ones for one reason, on the allocator that the finding
/// was ranked by.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShoeSize {
    /// Bytes asked for.
    pub request: u64,
    /// Bytes that the allocator gives.
    pub usable: u64,
    /// Bytes that would cost nothing.
    pub free_request: u64,
    /// Requests.
    pub count: u64,
    /// Of these, live at the peak.
    pub peak_count: u64,
    /// Bytes that would be saved at the peak.
    pub saving_peak_bytes: u64,
    /// Bytes that would be saved over the run.
    pub saving_total_bytes: u64,
}

/// Bytes wasted on one allocator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Where.
    pub allocator: String,
    /// Wasted by objects live at the peak.
    pub peak_bytes: u64,
    /// By all requests of the run.
    pub total_bytes: u64,
}

/// The saving of a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Saving {
    /// Bytes at the peak.
    pub peak_bytes: u64,
    /// Bytes asked for over the run.
    pub total_bytes: u64,
    /// Bytes no longer copied or zeroed.
    pub copied_bytes: u64,
    /// Requests no longer made.
    pub requests: u64,
}

/// A stack's part of a finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StackShare {
    /// Its part of the count.
    pub count: u64,
    /// Its part of the bytes.
    pub bytes: u64,
    /// Indices into [`Page::frames`], innermost first.
    pub frames: Vec<u32>,
    /// The node of [`Page::flame`] that holds the stack; `None`: there is no flame graph.
    pub node: Option<u32>,
}

/// A site with slop that asks how much it may use: not waste.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UsesItsSlop {
    /// How often it asked.
    pub reads: u64,
    /// Slop of its objects that were live at the peak.
    pub peak_slop_bytes: u64,
    /// Slop of all its requests.
    pub total_slop_bytes: u64,
    /// Indices into [`Page::frames`], innermost first.
    pub frames: Vec<u32>,
}

/// Objects of one stack that were live at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveStack {
    /// Their bytes.
    pub bytes: u64,
    /// How many.
    pub objects: u64,
    /// Indices into [`Page::frames`], innermost first.
    pub frames: Vec<u32>,
}

/// Objects that lived about as long.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LifetimeBucket {
    /// They lived at least so long.
    pub from: u64,
    /// And less than this.
    pub to: u64,
    /// How many.
    pub objects: u64,
    /// Bytes they asked for.
    pub bytes: u64,
}
