//! The measures of a grid: the whole process; the main space, if all heaps collect; and time.
//!
//! A collector's designs differ in the space that its free lists serve; a process has new space,
//! tables and the like besides, which hide half of a difference.

use super::Named;
use crate::results::{HeapResult, Measure, Outcome};
use heaplab_statistics::Estimate;
use heaplab_text::words::bytes;

/// A figure of each heap on each workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    /// Resident bytes at most.
    Resident,
    /// Committed bytes of the main space (old space, major heap) at most, before and after
    /// collections.
    Main,
    /// Nanoseconds an event.
    Time,
}

/// A heap's figure relative to the first heap's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio {
    pub value: f64,
    /// Its 95 % interval; bytes that are the same in each run have none.
    pub interval: Option<(f64, f64)>,
    /// The cells show a difference.
    pub is_shown: bool,
}

impl Measured {
    /// All, in the order of their tables.
    pub const ALL: [Measured; 3] = [Measured::Resident, Measured::Main, Measured::Time];

    /// The heading of its table.
    pub fn title(self) -> &'static str {
        match self {
            Measured::Resident => "peak resident",
            Measured::Main => "main space\ncommitted at most",
            Measured::Time => "ns an event",
        }
    }

    /// The measure's name in a sentence.
    pub fn what(self) -> &'static str {
        match self {
            Measured::Resident => "space",
            Measured::Main => "main space",
            Measured::Time => "time",
        }
    }

    /// Whether a table of the measure is useful: some heap has it; for main spaces, every heap that
    /// did not fail.
    pub fn is_told(self, grid: &[Named]) -> bool {
        let mut heaps = grid.iter().flat_map(|named| &named.results.heaps);
        match self {
            Measured::Main => {
                let collects = |heap: &HeapResult| main_bytes(heap).is_some();
                heaps.clone().any(collects)
                    && heaps.all(|heap| collects(heap) || !heap.failures.is_empty())
            }
            _ => heaps.any(|heap| self.is_in(heap)),
        }
    }

    /// Whether this heap has it.
    pub fn is_in(self, heap: &HeapResult) -> bool {
        match self {
            Measured::Resident => heap.has(Measure::Space),
            Measured::Main => main_bytes(heap).is_some(),
            Measured::Time => heap.has(Measure::Time),
        }
    }

    /// The figure itself; empty if missing.
    pub fn figure(self, heap: &HeapResult) -> String {
        let text = match self {
            Measured::Resident => heap.space.as_ref().map(|space| bytes(space.peak_resident_bytes)),
            Measured::Main => main_bytes(heap).map(bytes),
            Measured::Time => {
                heap.time.as_ref().map(|time| format!("{:.1}", time.ns_per_event.value))
            }
        };
        text.unwrap_or_default()
    }

    /// The figure of one heap over that of the first.
    pub fn ratio(self, named: &Named, heap: usize) -> Option<Ratio> {
        let heaps = &named.results.heaps;
        let measure = match self {
            // Bytes by a rule, the same in each run: no interval.
            Measured::Main => {
                let [first, this] = [heaps.first()?, &heaps[heap]].map(main_bytes);
                let value = this? as f64 / first.filter(|first| *first > 0)? as f64;
                return Some(Ratio { value, interval: None, is_shown: true });
            }
            Measured::Resident => Measure::Space,
            Measured::Time => Measure::Time,
        };
        let found = named
            .results
            .comparisons
            .iter()
            .find(|one| one.heap == heaps[heap].heap && one.measure == measure)?;
        let Estimate { value, low, high } = found.ratio;
        let interval = (low < high).then_some((low, high));
        Some(Ratio { value, interval, is_shown: found.outcome != Outcome::NotShown })
    }
}

impl Ratio {
    /// The distance to the farther end of the interval.
    pub fn half_width(self) -> Option<f64> {
        let (low, high) = self.interval?;
        Some((self.value - low).max(high - self.value))
    }

    /// The logarithm, with that of the farther end as its half width.
    pub fn logarithm(self) -> Option<(f64, f64)> {
        let value = (self.value > 0.0).then(|| self.value.ln())?;
        let Some((low, high)) = self.interval else { return Some((value, 0.0)) };
        Some((value, (low > 0.0).then(|| (value - low.ln()).max(high.ln() - value))?))
    }
}

/// The most that the main space had committed at a collection; `None` where none ran.
fn main_bytes(heap: &HeapResult) -> Option<u64> {
    let moments = heap.collections.iter().flat_map(|one| [one.before, one.after]);
    moments.map(|state| state.committed_bytes).max()
}
