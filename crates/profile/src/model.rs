//! The profile as data: filled by [`crate::profile`], shown by exporters, pages and
//! `report --json`.

use heaplab_trace::StackId;
use serde::Serialize;

/// A number of objects with their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Amount {
    /// Number of objects (or of requests, if a field says so).
    pub objects: u64,
    /// Bytes requested.
    pub bytes: u64,
    /// Usable bytes, as measured while recording; objects without a measurement add nothing here.
    pub usable_bytes: u64,
}

impl Amount {
    /// Measured slop: usable less requested; 0 where usable sizes were not measured.
    pub fn slop_bytes(&self) -> u64 {
        self.usable_bytes.saturating_sub(self.bytes)
    }
}

/// The result of one pass.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Profile {
    /// Sums over all events.
    pub totals: Totals,
    /// The first moment of the largest live requested bytes. Its per-stack and per-size rows are
    /// the `at_peak` of [`StackRow`] and [`SizeRow`].
    pub peak: Moment,
    /// After the last event. Its rows are the `at_end` of [`StackRow`] and [`SizeRow`].
    pub end: Moment,
    /// Live bytes over time, in a bounded number of points.
    pub timeline: Timeline,
    /// One row a requested size, most requested first (ties: smaller size first). At most
    /// `ProfileOptions::size_limit` sizes have a row of their own; later ones share rows
    /// (`SizeRow::grouped`).
    pub sizes: Vec<SizeRow>,
    /// One row for each stack with a request, in order of stack id (also for [`Profile::stack`]).
    pub stacks: Vec<StackRow>,
    /// Lifetimes of objects.
    pub lifetimes: Lifetimes,
    /// One row for each active thread, in order of thread.
    pub threads: Vec<ThreadRow>,
    /// Every named moment, with its live bytes, in order of time. A mark of another process is
    /// taken by its time; a trace without times has only the selection's own marks.
    pub marks: Vec<MarkRow>,
    /// The requested moments, with the live objects of every stack and size, in the order of the
    /// request.
    pub moments: Vec<Moment>,
    /// Lives by the steps of their beginnings and ends, where they were asked for.
    #[serde(skip)]
    pub ranges: Option<crate::Ranges>,
}

impl Profile {
    /// The row of a stack.
    pub fn stack(&self, stack: StackId) -> Option<&StackRow> {
        self.stacks
            .binary_search_by_key(&stack, |row| row.stack)
            .ok()
            .map(|index| &self.stacks[index])
    }

    /// Whether the allocator's usable size is known for every request.
    pub fn is_measured(&self) -> bool {
        self.totals.unmeasured_requests == 0 && self.totals.requests > 0
    }
}

/// Sums over all events of the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Rows read, including rows that do not count.
    pub events: u64,
    /// Births and reallocations that succeeded.
    pub requests: u64,
    /// Births.
    pub allocations: u64,
    /// Deaths (arena deaths count once an object).
    pub frees: u64,
    /// Reallocations that succeeded.
    pub reallocations: u64,
    /// Reallocations that moved the object.
    pub moved_reallocations: u64,
    /// Bytes that moving reallocations had to copy: the smaller of old and new size. Excludes
    /// possibly remapped bytes.
    pub moved_bytes: u64,
    /// Bytes moved and perhaps not copied, by `ProfileOptions::remapped_from_bytes`.
    pub remapped_bytes: u64,
    /// Bytes of all requests (a reallocation counts with its whole new size).
    pub requested_bytes: u64,
    /// Usable bytes of all measured requests.
    pub usable_bytes: u64,
    /// Requests with unknown usable size.
    pub unmeasured_requests: u64,
    /// Bytes requested zeroed.
    pub zeroed_bytes: u64,
    /// Requests that the allocator refused.
    pub failed_requests: u64,
    /// Number of times that the program asked for an object's usable size.
    pub usable_size_reads: u64,
    /// Objects freed before their thread allocated anything else.
    pub temporary: u64,
    /// Rows about a forked child's copy; they change nothing here.
    pub inherited_rows: u64,
    /// Deaths and reallocations of objects whose birth is not in the selection.
    pub unmatched_rows: u64,
    /// Time stamp of the last event.
    pub duration_ns: u64,
    /// Requests of sizes that share rows because the limit of sizes was reached; 0: every size has
    /// its own row.
    pub grouped_requests: u64,
}

/// The live objects of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Moment {
    /// "peak", "end", or the requested name.
    pub name: String,
    /// Row of the last event before it, from 0.
    pub row: u64,
    /// Its time.
    pub time_ns: u64,
    /// Live objects.
    pub live: Amount,
    /// Live objects and allocations so far by stack, without empty stacks; empty for peak and end
    /// (see `at_peak`, `at_end`).
    pub stacks: Vec<MomentStack>,
    /// Live objects by size, without empty sizes; empty for peak and end.
    pub sizes: Vec<MomentSize>,
}

/// A stack at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct MomentStack {
    /// Row of the `stacks` table.
    pub stack: StackId,
    /// Its live objects.
    pub live: Amount,
    /// Its requests since the beginning; `objects` counts requests.
    pub requested: Amount,
}

/// A size at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct MomentSize {
    /// Bytes requested.
    pub request: u64,
    /// Its live objects.
    pub live: Amount,
}

/// Live bytes over time.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Timeline {
    /// The axis of the points.
    pub axis: TimelineAxis,
    /// Width of a point, in ns or events.
    pub width: u64,
    /// At most `ProfileOptions::timeline_points`, in order; stretches without events have no point.
    pub points: Vec<TimelinePoint>,
}

/// The axis of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimelineAxis {
    /// Nanoseconds since the recording began.
    #[default]
    Time,
    /// Rows, for traces without time stamps.
    Events,
}

/// A stretch of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct TimelinePoint {
    /// Its start, in ns or events.
    pub at: u64,
    /// Minimum of live bytes.
    pub min_bytes: u64,
    /// Maximum of live bytes.
    pub max_bytes: u64,
    /// Live at its end.
    pub live: Amount,
    /// Bytes requested within it.
    pub requested_bytes: u64,
}

/// All requests of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct SizeRow {
    /// Bytes requested; in a grouped row the largest size.
    pub request: u64,
    /// Whether several sizes share this row because there were too many distinct ones.
    pub grouped: bool,
    /// Requests of this size, with their bytes.
    pub requested: Amount,
    /// Smallest usable size measured; 0: none measured.
    pub usable_min_bytes: u64,
    /// Largest usable size measured.
    pub usable_max_bytes: u64,
    /// Largest alignment requested, log2; 0: none requested.
    pub align_log2_max: u8,
    /// Live at the peak.
    pub at_peak: Amount,
    /// Live at the end.
    pub at_end: Amount,
}

/// All requests of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct StackRow {
    /// Row of the `stacks` table; 0: no stack was recorded.
    pub stack: StackId,
    /// Requests (births and reallocations) with their bytes.
    pub requested: Amount,
    /// Births among them.
    pub allocations: u64,
    /// Reallocations among them.
    pub reallocations: u64,
    /// Reallocations that moved.
    pub moved_reallocations: u64,
    /// Bytes copied by these, without possibly remapped ones.
    pub moved_bytes: u64,
    /// Objects sized here that died or were resized elsewhere.
    pub released: Amount,
    /// Live at the peak.
    pub at_peak: Amount,
    /// Live at the end.
    pub at_end: Amount,
    /// Objects freed before their thread allocated anything else.
    pub temporary: u64,
    /// Objects freed before another `ProfileOptions::short_lived_bytes` were requested.
    pub short_lived: u64,
    /// Bytes requested zeroed.
    pub zeroed_bytes: u64,
    /// Number of reads of the usable size of objects sized here: such a site may use its slop.
    pub usable_size_reads: u64,
    /// Largest request.
    pub largest_request_bytes: u64,
}

/// Lifetimes of objects, in powers of two.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Lifetimes {
    /// By time, from allocation to free.
    pub by_time: Vec<Lifetime>,
    /// By bytes requested in between.
    pub by_bytes: Vec<Lifetime>,
}

/// Objects of about the same lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Lifetime {
    /// Lower bound of their lifetime (0, then powers of two), in ns or bytes requested in between;
    /// the upper bound is the next power of two.
    pub from: u64,
    /// Number of objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The work of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct ThreadRow {
    /// Row of the `threads` table.
    pub thread: u32,
    /// Requests with their bytes.
    pub requested: Amount,
    /// Objects it freed.
    pub frees: u64,
    /// Frees of objects that another thread had allocated.
    pub cross_thread_frees: u64,
}

/// A named moment of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct MarkRow {
    /// Its row in the `marks` table.
    pub mark: u32,
    /// Its name, by the user or the program.
    pub name: String,
    /// Row of its event; for a mark of another process, of the last event before it.
    pub row: u64,
    /// Its time.
    pub time_ns: u64,
    /// The live objects.
    pub live: Amount,
}
