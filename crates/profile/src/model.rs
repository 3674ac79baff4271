//! The profile as data: what [`crate::profile`] fills in, and exporters, pages and `report --json`
//! show.

use heaplab_trace::StackId;
use serde::Serialize;

/// A number of objects with their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Amount {
    /// Objects (or requests, where a field says so).
    pub objects: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that may be used, as measured while recording; objects without a measurement add
    /// nothing here.
    pub usable_bytes: u64,
}

impl Amount {
    /// Measured slop: usable less requested; 0 where usable sizes were not measured.
    pub fn slop_bytes(&self) -> u64 {
        self.usable_bytes.saturating_sub(self.bytes)
    }
}

/// Everything that one pass found.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Profile {
    /// Sums over all events.
    pub totals: Totals,
    /// The first moment at which the live requested bytes were largest. Its per-stack and per-size
    /// rows are the `at_peak` of [`StackRow`] and [`SizeRow`].
    pub peak: Moment,
    /// After the last event. Its rows are the `at_end` of [`StackRow`] and [`SizeRow`].
    pub end: Moment,
    /// Live bytes over time, in a bounded number of points.
    pub timeline: Timeline,
    /// One row a requested size, most requested first (ties: smaller size first). At most
    /// `Options::size_limit` sizes have a row of their own; later ones share rows
    /// (`SizeRow::grouped`).
    pub sizes: Vec<SizeRow>,
    /// One row a stack that asked for memory, in order of stack id (which is also the order for
    /// [`Profile::stack`]).
    pub stacks: Vec<StackRow>,
    /// How long objects lived.
    pub lifetimes: Lifetimes,
    /// One row a thread that did something, in order of thread.
    pub threads: Vec<ThreadRow>,
    /// Every named moment, with the live bytes there, in order of time. One that passed in another
    /// process is taken by its time; a trace without times has only the selection's own.
    pub marks: Vec<MarkRow>,
    /// The moments asked for, with what every stack and size had live there, in the order of the
    /// request.
    pub moments: Vec<Moment>,
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
    /// Rows read, those that do not count included.
    pub events: u64,
    /// Births and reallocations that succeeded.
    pub requests: u64,
    /// Births.
    pub allocations: u64,
    /// Deaths (arena deaths count once an object).
    pub frees: u64,
    /// Reallocations that succeeded.
    pub reallocations: u64,
    /// Of these, how many moved the object.
    pub moved_reallocations: u64,
    /// Bytes that moving reallocations had to copy: the smaller of old and new size. What may have
    /// been remapped is not in it.
    pub moved_bytes: u64,
    /// Bytes that moved and may not have been copied, by `Options::remapped_from_bytes`.
    pub remapped_bytes: u64,
    /// Bytes of all requests (a reallocation counts with its whole new size).
    pub requested_bytes: u64,
    /// Usable bytes of all requests that were measured.
    pub usable_bytes: u64,
    /// Requests whose usable size is not known.
    pub unmeasured_requests: u64,
    /// Bytes asked for zeroed.
    pub zeroed_bytes: u64,
    /// Requests that the allocator refused.
    pub failed_requests: u64,
    /// How often a program asked for the usable size of an object.
    pub usable_size_reads: u64,
    /// Objects freed before their thread allocated anything else.
    pub temporary: u64,
    /// Rows about a forked child's copy; they change nothing here.
    pub inherited_rows: u64,
    /// Deaths and reallocations of objects whose birth is not in the selection.
    pub unmatched_rows: u64,
    /// Time stamp of the last event.
    pub duration_ns: u64,
    /// Distinct sizes that share rows because the limit of sizes was reached; 0: every size has its
    /// own row. Requests, not sizes, are counted.
    pub grouped_requests: u64,
}

/// What was live at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Moment {
    /// "peak", "end", or as it was asked for.
    pub name: String,
    /// Row of the event after which this held, from 0.
    pub row: u64,
    /// Its time.
    pub time_ns: u64,
    /// Live objects.
    pub live: Amount,
    /// Live objects and allocations so far by stack, those with anything; empty for peak and end
    /// (see `at_peak`, `at_end`).
    pub stacks: Vec<MomentStack>,
    /// Live objects by size, those with anything; empty for peak and end.
    pub sizes: Vec<MomentSize>,
}

/// A stack at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct MomentStack {
    /// Row of the `stacks` table.
    pub stack: StackId,
    /// What it had live.
    pub live: Amount,
    /// What it had asked for since the beginning; `objects` counts requests.
    pub requested: Amount,
}

/// A size at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct MomentSize {
    /// Bytes asked for.
    pub request: u64,
    /// What was live of it.
    pub live: Amount,
}

/// Live bytes over time.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Timeline {
    /// What the points lie on.
    pub axis: TimelineAxis,
    /// Width of a point, in ns or events.
    pub width: u64,
    /// At most `Options::timeline_points`, in order; stretches without events have no point.
    pub points: Vec<TimelinePoint>,
}

/// What a timeline lies on.
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
    /// Where it begins, in ns or events.
    pub at: u64,
    /// Fewest live bytes in it.
    pub min_bytes: u64,
    /// Most live bytes in it.
    pub max_bytes: u64,
    /// What was live when it ended.
    pub live: Amount,
    /// Bytes asked for within it.
    pub requested_bytes: u64,
}

/// All requests of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct SizeRow {
    /// Bytes asked for; for a grouped row the largest of them.
    pub request: u64,
    /// Whether several sizes share this row because there were too many distinct ones.
    pub grouped: bool,
    /// Requests of this size, with their bytes.
    pub requested: Amount,
    /// Smallest usable size measured; 0: none was.
    pub usable_min_bytes: u64,
    /// Largest usable size measured.
    pub usable_max_bytes: u64,
    /// Largest alignment asked for, log2; 0: none asked for.
    pub align_log2_max: u8,
    /// Live at the peak.
    pub at_peak: Amount,
    /// Live at the end.
    pub at_end: Amount,
}

/// Everything that one stack asked for.
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
    /// Bytes that these had to copy, without what may have been remapped.
    pub moved_bytes: u64,
    /// Objects sized here that died or were sized again elsewhere.
    pub released: Amount,
    /// Live at the peak.
    pub at_peak: Amount,
    /// Live at the end.
    pub at_end: Amount,
    /// Objects freed before their thread allocated anything else.
    pub temporary: u64,
    /// Objects freed before another `Options::short_lived_bytes` were requested.
    pub short_lived: u64,
    /// Bytes asked for zeroed.
    pub zeroed_bytes: u64,
    /// How often the usable size of an object sized here was asked for: such a site may use its
    /// slop.
    pub usable_size_reads: u64,
    /// Largest request.
    pub largest_request_bytes: u64,
}

/// How long objects lived, in powers of two.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Lifetimes {
    /// By time, from allocation to free.
    pub by_time: Vec<Lifetime>,
    /// By bytes that were requested in between.
    pub by_bytes: Vec<Lifetime>,
}

/// Objects that lived about as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Lifetime {
    /// They lived at least so long (0, then powers of two), in ns or bytes requested in between,
    /// and less than the next power of two.
    pub from: u64,
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What one thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct ThreadRow {
    /// Row of the `threads` table.
    pub thread: u32,
    /// Requests with their bytes.
    pub requested: Amount,
    /// Objects it freed.
    pub frees: u64,
    /// Of these, objects that another thread had allocated.
    pub cross_thread_frees: u64,
}

/// A named moment of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct MarkRow {
    /// Its row in the `marks` table.
    pub mark: u32,
    /// As the user or the program named it.
    pub name: String,
    /// Row of its event; where it passed in another process, of the last event before it.
    pub row: u64,
    /// Its time.
    pub time_ns: u64,
    /// What was live.
    pub live: Amount,
}
