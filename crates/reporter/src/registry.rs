//! Reporters and their reports.

use crate::entry::{self, Entry, List};
use crate::{marks, measure, system};
use std::sync::{Arc, Mutex};

/// Most reports of a collection; the rest is counted and mentioned.
const REPORTS_MAX: usize = 1 << 20;
/// Paths that heaplab itself reports.
const OWN_PATHS: [&str; 5] =
    ["heap-allocated", "resident", "resident-unique", "vsize", "explicit/heap-unclassified"];
/// Most bytes of a path or a description; longer ones are mentioned and left out.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The owner of a report's memory (Firefox's numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Mapped by the program itself, past its allocator.
    NonHeap = 0,
    /// Blocks of the program's allocator.
    Heap = 1,
    /// Anything else: files, counts, bytes that other reports count already.
    Other = 2,
}

/// The unit of an amount (Firefox's numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Units {
    /// Bytes.
    Bytes = 0,
    /// Things that are there.
    Count = 1,
    /// Events since the program began.
    CountCumulative = 2,
    /// Hundredths of a percent.
    Percentage = 3,
}

/// One line of a program's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Names from the outside in, with `/` between them; a `\` is shown as `/` and does not divide.
    /// Below `explicit/` stand bytes that are heap or non-heap, each byte once.
    pub path: String,
    /// The owner of the memory.
    pub kind: Kind,
    /// The unit of the amount.
    pub units: Units,
    /// The amount, in `units`.
    pub amount: i64,
    /// A sentence on the measured thing.
    pub description: String,
}

/// All reports of one moment.
#[derive(Debug, Default)]
pub struct Collected {
    /// The reporters' lines, and those of the system and the allocator (`resident`, `vsize`,
    /// `heap-allocated`).
    pub reports: Vec<Report>,
    /// Errors as sentences: reporters that panicked or skipped, invalid reports.
    pub errors: Vec<String>,
}

/// Receives a reporter's reports.
#[derive(Debug)]
pub struct Sink {
    collected: Collected,
    left_out: usize,
}

impl Sink {
    /// Reports bytes. [`crate::Measure::block`] measures those on the heap best.
    pub fn bytes(&mut self, path: &str, kind: Kind, amount: i64, description: &str) {
        self.report(path, kind, Units::Bytes, amount, description);
    }

    /// Reports an amount of anything. A report that about:memory would refuse becomes an error in
    /// the answer: an empty path, or anything else than heap or non-heap bytes below `explicit/`.
    pub fn report(&mut self, path: &str, kind: Kind, units: Units, amount: i64, description: &str) {
        let is_explicit = path == "explicit" || path.starts_with("explicit/");
        let wrong = if path.is_empty() {
            "its path is empty"
        } else if OWN_PATHS.contains(&path) {
            "heaplab itself reports this path"
        } else if path.len().max(description.len()) > TEXT_BYTES_MAX {
            "its path or description is longer than 16 KiB"
        } else if is_explicit && (kind == Kind::Other || units != Units::Bytes) {
            "below explicit/ only bytes of kind heap or non-heap are added up"
        } else if self.collected.reports.len() >= REPORTS_MAX {
            self.left_out += 1;
            return;
        } else {
            return self.add(path, kind, units, amount, description);
        };
        let shown: String = path.chars().take(80).collect();
        self.collected
            .errors
            .push(format!("the report {shown:?} of {amount} is left out: {wrong}"));
    }

    /// Adds a report as it is: heaplab's own are beyond the limit and the refused paths.
    pub(crate) fn add(
        &mut self,
        path: &str,
        kind: Kind,
        units: Units,
        amount: i64,
        description: &str,
    ) {
        let (path, description) = (path.to_owned(), description.to_owned());
        self.collected.reports.push(Report { path, kind, units, amount, description });
    }

    /// Records that a reporter could not report, and why.
    pub fn skip(&mut self, why: &str) {
        self.collected.errors.push(why.to_owned());
    }
}

static REPORTERS: List<Sink> = Mutex::new(Vec::new());

/// A registered reporter; dropping it unregisters.
#[must_use = "dropping the handle unregisters the reporter"]
pub struct Handle(Option<Arc<Entry<Sink>>>);

impl std::fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Handle")
    }
}

impl Handle {
    /// Keeps the reporter until the program ends.
    pub fn forever(mut self) {
        self.0 = None;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            entry::remove(&REPORTERS, &entry);
        }
    }
}

/// Adds a reporter, which may report any number of paths.
pub fn register(reporter: impl FnMut(&mut Sink) + Send + 'static) -> Handle {
    measure::watch_marks();
    Handle(Some(entry::add(&REPORTERS, Box::new(reporter))))
}

/// Asks all reporters on this thread, as `heaplab about` does on the server's. Paths stand in the
/// order of registration; equal paths are not added up.
pub fn collect() -> Collected {
    let mut sink = Sink { collected: Collected::default(), left_out: 0 };
    measure::pass(|| {
        entry::run_all(&REPORTERS, &mut sink, |sink, panic| {
            sink.skip(&format!("a reporter panicked: {panic}"));
        });
        let bytes = marks::heap_bytes(&mut measure::Measure::new());
        if bytes > 0 {
            let description = "What the reporters said at each mark.";
            let path = "explicit/heaplab/marks";
            sink.add(path, Kind::Heap, Units::Bytes, bytes as i64, description);
        }
    });
    if sink.left_out > 0 {
        let left_out = sink.left_out;
        sink.skip(&format!("{left_out} reports beyond {REPORTS_MAX} are left out"));
    }
    // Last, so that the reported data is still allocated.
    system::report(&mut sink);
    sink.collected
}
