//! Marks: moments with a name, and what the reporters said at each.
//!
//! A mark asks the reporters on the calling thread and keeps their reports. So `heaplab about PID
//! --at MARK` shows a phase of the program that is over, and `--since MARK` what came after it.
//! Under `heaplab record` the recording has the same mark.

use crate::entry::locked;
use crate::measure::Measure;
use crate::{Collected, SizeOf, collect, measure};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Most marks that are kept; the oldest leaves first.
const KEPT_MAX: usize = 16;
/// Most reports of all marks together; the oldest mark leaves first, the newest stays.
const KEPT_REPORTS_MAX: usize = 1 << 18;
/// Bytes of a name; a longer one is cut.
pub(crate) const NAME_BYTES_MAX: usize = 200;

struct Mark {
    name: String,
    set: Instant,
    collected: Arc<Collected>,
}

static MARKS: Mutex<VecDeque<Mark>> = Mutex::new(VecDeque::new());

thread_local! {
    /// Within [`mark`]: the answer to the recorder, which also asks the reporters at a mark.
    static ASKED: RefCell<Option<Option<Collected>>> = const { RefCell::new(None) };
}

/// Names this moment and keeps what the reporters say now. The last 16 marks are kept; a name that
/// is set again stands for the later moment. Under `heaplab record` the mark is in the recording.
pub fn mark(name: &str) {
    let name = clean(name);
    let as_recorder_asked = CString::new(name.as_str()).ok().and_then(|text| {
        ASKED.set(Some(None));
        measure::mark_recording(&text);
        ASKED.take().flatten()
    });
    let collected = as_recorder_asked.unwrap_or_else(collect);
    let collected = Arc::new(collected);
    let mut marks = locked(&MARKS);
    marks.retain(|kept| kept.name != name);
    marks.push_back(Mark { name, set: Instant::now(), collected });
    let is_too_much = |marks: &VecDeque<Mark>| {
        let reports: usize = marks.iter().map(|mark| mark.collected.reports.len()).sum();
        marks.len() > KEPT_MAX || reports > KEPT_REPORTS_MAX
    };
    while marks.len() > 1 && is_too_much(&marks) {
        marks.pop_front();
    }
}

/// Asks the reporters for the recorder, which has just got a mark.
pub(crate) fn recorder_asks() {
    let collected = collect();
    // The recorder also asks at exit, when the thread's own values may be gone.
    let _ = ASKED.try_with(|asked| {
        if let Some(asked) = &mut *asked.borrow_mut() {
            *asked = Some(collected);
        }
    });
}

/// Drops all marks: the process ends, and what it still has is asked for once more.
pub(crate) fn forget() {
    locked(&MARKS).clear();
}

/// Names of the kept marks, oldest first, and the time since each.
pub(crate) fn kept() -> Vec<(String, Duration)> {
    locked(&MARKS).iter().map(|mark| (mark.name.clone(), mark.set.elapsed())).collect()
}

/// What the reporters said at this mark.
pub(crate) fn at(name: &str) -> Option<Arc<Collected>> {
    let marks = locked(&MARKS);
    marks.iter().find(|mark| mark.name == name).map(|mark| Arc::clone(&mark.collected))
}

/// Bytes of what is kept; within a reporter its blocks count as reported.
pub(crate) fn heap_bytes(measure: &mut Measure) -> usize {
    let marks = locked(&MARKS);
    let of_mark = |mark: &Mark| {
        let Collected { reports, errors } = &*mark.collected;
        let texts = reports
            .iter()
            .map(|report| report.path.heap_bytes(measure) + report.description.heap_bytes(measure));
        let texts: usize = texts.sum();
        let list = measure.rust_block(reports.as_ptr().cast(), std::mem::size_of_val(&reports[..]));
        texts + list + errors.heap_bytes(measure) + mark.name.heap_bytes(measure)
    };
    marks.iter().map(of_mark).sum()
}

/// A name fits a line of the protocol.
fn clean(name: &str) -> String {
    let fits = |(start, letter): &(usize, char)| start + letter.len_utf8() <= NAME_BYTES_MAX;
    let letters = name.char_indices().take_while(fits).map(|(_, letter)| letter);
    letters.map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
