//! The runtime's messages, one line each, as slices and other events.
//!
//! Source: `major_gc.c` of OCaml 4.13, the calls of `caml_gc_message` at levels 0x01, 0x04, 0x08,
//! 0x10, 0x40 and 0x200. The runtime prints parts of a cycle in whole millionths.

use heaplab_heap::SliceRow;
use heaplab_ocaml::Phase;
use heaplab_ocaml::facts::{CHUNK_WORDS_MIN, PAGE_WORDS};
use serde::{Deserialize, Serialize};

/// The levels that are read.
pub const LEVELS: u32 = 0x01 | 0x04 | 0x08 | 0x10 | 0x40 | 0x200;

/// One slice by the runtime's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// `allocated_words`.
    pub allocated_words: u64,
    /// `raw work-to-do`, millionths of a cycle.
    pub p_millionths: i64,
    /// `work backlog`, millionths.
    pub backlog_millionths: i64,
    /// `filtered work-to-do`, millionths.
    pub filtered_millionths: i64,
    /// `computed work`, words; `None` in a slice that begins idle.
    pub computed_work: Option<i64>,
    /// It marked.
    pub marked: bool,
    /// It swept.
    pub swept: bool,
    /// KiB of the heap after its last change before the slice; 0: it has not changed yet.
    pub heap_kib: u64,
}

impl Slice {
    /// The slice in the form that all collectors share. The runtime reports its heap's size in
    /// whole KiB, and only when the size changes; until then the heap has `initial_words`.
    pub fn row(&self, initial_words: usize) -> SliceRow {
        let phase = match (self.marked, self.swept) {
            (true, _) => Phase::Mark,
            (_, true) => Phase::Sweep,
            _ => Phase::Idle,
        };
        let first = initial_words.max(CHUNK_WORDS_MIN).next_multiple_of(PAGE_WORDS) as u64;
        let part = |millionths: i64| millionths as f64 / 1e6;
        SliceRow {
            births: None,
            phase: phase.name().into(),
            heap_words: if self.heap_kib == 0 { first } else { self.heap_kib * 128 },
            allocated_words: self.allocated_words,
            p: part(self.p_millionths),
            backlog: part(self.backlog_millionths),
            computed_work: self.computed_work.unwrap_or(0),
        }
    }
}

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A slice begins.
    Begin,
    /// A count of a slice.
    Count(&'static str, i64),
    /// The heap now has this many KiB.
    Heap(u64),
    /// Something else.
    Other,
}

const COUNTS: [&str; 6] = [
    "allocated_words = ",
    "raw work-to-do = ",
    "work backlog = ",
    "filtered work-to-do = ",
    "computed work = ",
    "Marking ",
];

/// Reads one line.
pub fn read(line: &str) -> Message {
    if line.starts_with("ordered work = ") {
        return Message::Begin;
    }
    for name in COUNTS.into_iter().chain(["Sweeping "]) {
        if let Some(number) = line.strip_prefix(name).and_then(number) {
            return Message::Count(name, number);
        }
    }
    if let Some(kib) = line.strip_prefix("Growing heap to ").and_then(number) {
        return Message::Heap(kib.unsigned_abs());
    }
    if let Some(kib_words) = line.strip_prefix("Shrinking heap to ").and_then(number) {
        return Message::Heap(kib_words.unsigned_abs() * 8);
    }
    Message::Other
}

fn number(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Collects slices from lines.
#[derive(Debug, Default)]
pub struct Slices {
    slices: Vec<Slice>,
    heap_kib: u64,
    /// Whether a slice is running. Marking and sweeping outside of slices belong to a full cycle.
    inside: bool,
}

impl Slices {
    /// Takes the next line.
    pub fn line(&mut self, line: &str) {
        match read(line) {
            Message::Begin => {
                self.slices.push(Slice { heap_kib: self.heap_kib, ..Slice::default() });
                self.inside = true;
            }
            Message::Heap(kib) => self.heap_kib = kib,
            Message::Count(name, number) if self.inside => {
                let Some(slice) = self.slices.last_mut() else { return };
                match name {
                    "allocated_words = " => slice.allocated_words = number.unsigned_abs(),
                    "raw work-to-do = " => slice.p_millionths = number,
                    "work backlog = " => slice.backlog_millionths = number,
                    "filtered work-to-do = " => slice.filtered_millionths = number,
                    "computed work = " => slice.computed_work = Some(number),
                    "Marking " => slice.marked |= slice.computed_work == Some(number),
                    _ => slice.swept |= slice.computed_work == Some(number),
                }
            }
            Message::Count(..) => {}
            Message::Other => self.inside &= !line.starts_with("work-done"),
        }
    }

    /// All slices.
    pub fn finish(self) -> Vec<Slice> {
        self.slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_read_from_its_lines() {
        let text = "Growing heap to 1472k bytes\nordered work = -1 words\nallocated_words = 44289\nextra_heap_resources = 0u\n\
            raw work-to-do = 300000u\nwork backlog = 2264565u\nfiltered work-to-do = 300000u\ncomputed work = 94208 words\n\
            Sweeping 94208 words\nwork-done = 300000u\nMarking 9223372036854775807 words\n";
        let mut slices = Slices::default();
        text.lines().for_each(|line| slices.line(line));
        let expected = Slice {
            allocated_words: 44289,
            p_millionths: 300_000,
            backlog_millionths: 2_264_565,
            filtered_millionths: 300_000,
            computed_work: Some(94208),
            marked: false,
            swept: true,
            heap_kib: 1472,
        };
        assert_eq!(slices.finish(), [expected]);
    }
}
