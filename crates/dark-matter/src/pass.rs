//! Two passes over the events: the first finds the last time that reporters were asked, the second
//! divides the blocks of that time.

use crate::{Blocks, DarkMatter, DarkMatterError, Group, SortBy};
use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, EventSource, Flags, Op, StackId, TraceError};
use std::collections::{BTreeMap, HashMap};

/// The mark before reporters are asked (crates/preload/c/reports.c).
pub const ASKED: &str = heaplab_trace::REPORTERS_ASKED;
/// The mark after they have answered.
pub const ANSWERED: &str = heaplab_trace::REPORTERS_ANSWERED;

#[derive(Clone, Copy)]
struct Live {
    size: u64,
    usable: u64,
    stack: StackId,
    arena: u32,
}

/// Divides the blocks of one process (or of all, if selected) that were live when its reporters
/// were last asked and named a block, or were last asked if they never named one. A later question
/// without a named block does not count: at a program's end the reporters may be gone. `events`
/// gives the same rows at each call.
///
/// # Errors
/// Reporters were never asked, or the events cannot be read.
pub fn find<S: EventSource>(
    tables: &Tables,
    mut events: impl FnMut() -> Result<S, TraceError>,
) -> Result<DarkMatter, DarkMatterError> {
    let passes = Passes::read(tables, &mut events()?, "")?;
    passes.divide(passes.last.or(passes.unanswered), tables, events)
}

/// [`find`] for the first time that reporters were asked and named a block at or after the mark
/// `mark`: a phase of the program.
///
/// # Errors
/// As for [`find`]; the program set no such mark, or its reporters named no block after it.
pub fn find_at<S: EventSource>(
    tables: &Tables,
    mut events: impl FnMut() -> Result<S, TraceError>,
    mark: &str,
) -> Result<DarkMatter, DarkMatterError> {
    let passes = Passes::read(tables, &mut events()?, mark)?;
    if !passes.has_mark {
        let is_own = |name: &str| name == ASKED || name == ANSWERED;
        let mut names: Vec<&str> =
            tables.marks.iter().map(|mark| &*mark.name).filter(|name| !is_own(name)).collect();
        names.dedup();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(DarkMatterError::NoMark { mark: mark.into(), there });
    }
    let found = passes.divide(passes.marked, tables, events)?;
    Ok(DarkMatter { mark: Some(mark.into()), ..found })
}

/// The row and the time of a question to reporters.
type Question = Option<(u64, u64)>;

/// The questions that reporters answered with a block.
#[derive(Default)]
struct Passes {
    asked: u64,
    last: Question,
    /// The last one to which no block was named.
    unanswered: Question,
    /// The first one after the mark.
    marked: Question,
    has_mark: bool,
}

impl Passes {
    fn read(
        tables: &Tables,
        events: &mut impl EventSource,
        mark: &str,
    ) -> Result<Passes, TraceError> {
        let (mut passes, mut now, mut row) = (Passes::default(), None, 0_u64);
        each(events, |event| {
            passes.has_mark |= is_mark(event, tables, mark);
            if is_mark(event, tables, ASKED) {
                now = Some((row, event.time_ns));
                passes.unanswered = now;
            } else if event.op == Op::Report && now.is_some() {
                passes.asked += 1;
                passes.last = now.take();
                if passes.has_mark && passes.marked.is_none() {
                    passes.marked = passes.last;
                }
            }
            row += 1;
            true
        })?;
        Ok(passes)
    }

    fn divide<S: EventSource>(
        &self,
        question: Question,
        tables: &Tables,
        events: impl FnMut() -> Result<S, TraceError>,
    ) -> Result<DarkMatter, DarkMatterError> {
        let question = question.ok_or(DarkMatterError::NeverAsked)?;
        Ok(DarkMatter { asked: self.asked, ..divided(question, tables, events)? })
    }
}

/// The blocks that were live at a question.
fn divided<S: EventSource>(
    (last_row, time_ns): (u64, u64),
    tables: &Tables,
    mut events: impl FnMut() -> Result<S, TraceError>,
) -> Result<DarkMatter, TraceError> {
    let mut found = Found::default();
    let (mut row, mut is_whole) = (0_u64, false);
    each(&mut events()?, |event| {
        is_whole = row > last_row && is_mark(event, tables, ANSWERED);
        if row > last_row && event.op == Op::Report {
            found.reported(event);
        } else {
            found.lives(event, row > last_row);
        }
        row += 1;
        !is_whole
    })?;
    Ok(DarkMatter { time_ns, is_whole, ..found.divided(tables) })
}

fn each<S: EventSource>(
    source: &mut S,
    mut visit: impl FnMut(&Event) -> bool,
) -> Result<(), TraceError> {
    let mut batch = Vec::new();
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() || !batch.iter().all(&mut visit) {
            return Ok(());
        }
    }
}

fn is_mark(event: &Event, tables: &Tables, name: &str) -> bool {
    let mark = || usize::try_from(event.object).ok().and_then(|row| tables.marks.get(row));
    event.op == Op::Mark && mark().is_some_and(|mark| mark.name == name)
}

#[derive(Default)]
struct Found {
    live: HashMap<u64, Live>,
    /// The stacks of reports on each block that was live before the question.
    reports: HashMap<u64, Vec<StackId>>,
    of_nothing: HashMap<StackId, i64>,
    set_aside: u64,
}

impl Found {
    /// Follows births and deaths. Leaves out blocks born while reporters answer: they are the
    /// reporters' own.
    fn lives(&mut self, event: &Event, is_asked: bool) {
        if !event.counts() {
            return;
        }
        match event.op {
            Op::Alloc if !is_asked => {
                let Event { size, usable, stack, arena, .. } = *event;
                self.live.insert(event.object, Live { size, usable, stack, arena });
            }
            Op::Realloc => {
                if let Some(live) = self.live.get_mut(&event.object) {
                    (live.size, live.usable, live.stack) = (event.size, event.usable, event.stack);
                }
            }
            Op::Free => drop(self.live.remove(&event.object)),
            Op::ArenaDeath => self.live.retain(|_, live| live.arena != event.arena),
            _ => {}
        }
    }

    fn reported(&mut self, event: &Event) {
        if event.has(Flags::FAILED) {
            *self.of_nothing.entry(event.stack).or_default() += 1;
        } else if event.has(Flags::INHERITED) || !self.live.contains_key(&event.object) {
            self.set_aside += 1;
        } else {
            self.reports.entry(event.object).or_default().push(event.stack);
        }
    }

    fn divided(mut self, tables: &Tables) -> DarkMatter {
        let mut all = Blocks::default();
        let mut groups: HashMap<(StackId, Vec<StackId>), Blocks> = HashMap::new();
        for (object, live) in &self.live {
            let mut reports = self.reports.remove(object).unwrap_or_default();
            reports.sort_unstable();
            let usable = live.usable.max(live.size);
            let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
            let (usable_bytes, slop_bytes) = (bytes(usable), bytes(usable - live.size));
            let block = Blocks { count: 1, usable_bytes, slop_bytes };
            all.add(block);
            groups.entry((live.stack, reports)).or_default().add(block);
        }
        let mut found = DarkMatter { live: all, set_aside: self.set_aside, ..Default::default() };
        let frames = |stack| reporters_frames(tables, stack);
        // Stacks that differ only in frames left out are one group.
        let mut by_text: BTreeMap<(Vec<String>, Vec<Vec<String>>), Blocks> = BTreeMap::new();
        for ((stack, reports), blocks) in groups {
            let reported_at = reports.into_iter().map(frames).collect();
            by_text.entry((frames_of(tables, stack), reported_at)).or_default().add(blocks);
        }
        for ((allocated_at, reported_at), blocks) in by_text {
            let list = match reported_at.len() {
                0 => &mut found.unreported,
                1 => &mut found.once,
                _ => &mut found.twice,
            };
            list.blocks.add(blocks);
            list.groups.push(Group { blocks, allocated_at, reported_at });
        }
        found.of_nothing =
            self.of_nothing.into_iter().map(|(stack, count)| (count, frames(stack))).collect();
        found.of_nothing.sort();
        found.sorted_by(SortBy::Usable)
    }
}

/// A stack as text, without its innermost frames in the allocator and in the reporters, and without
/// functions that only pass a request on. Debug information names inlined functions without their
/// module, so a frame's file counts too.
fn frames_of(tables: &Tables, stack: StackId) -> Vec<String> {
    const OWN: [&str; 13] = [
        "core::",
        "<core::",
        "<usize as core::",
        "<[T] as ",
        "alloc::",
        "<alloc::",
        "__rust",
        "__rdl",
        "std::alloc",
        "<hashbrown::",
        "hashbrown::",
        "heaplab_reporter",
        "<heaplab_reporter",
    ];
    let is_own = |label: &str| {
        OWN.iter().any(|own| label.starts_with(own)) || label.contains(" as heaplab_reporter::")
    };
    const OWN_FILES: [&str; 4] =
        ["/library/core/src/", "/library/alloc/src/", "/library/std/src/alloc", "/hashbrown-"];
    let is_of_own_file = |row: u32| {
        let file = tables.frames.get(row as usize).and_then(|frame| frame.file.as_deref());
        file.is_some_and(|file| OWN_FILES.iter().any(|own| file.contains(own)))
    };
    let frames: Vec<u32> = tables.frames_of(stack).collect();
    let labels: Vec<String> = frames.iter().map(|frame| label(tables, *frame)).collect();
    let own = frames
        .iter()
        .zip(&labels)
        .take_while(|(frame, label)| is_own(label) || is_of_own_file(**frame))
        .count();
    // A stack with no other frames is shown whole.
    if own == labels.len() {
        return labels;
    }
    labels[own + tables.wrappers(&frames[own..])..].to_vec()
}

/// The stack of a report as text. A Python reporter's mark goes through libffi and ctypes: those
/// frames, and the package's own around them, are left out.
fn reporters_frames(tables: &Tables, stack: StackId) -> Vec<String> {
    let is_package = |row: &u32| {
        let file = tables.frames.get(*row as usize).and_then(|frame| frame.file.as_deref());
        file.is_some_and(|file| file.ends_with("/heaplab/reporter.py"))
    };
    let frames: Vec<u32> = tables.frames_of(stack).collect();
    let Some(first) = frames.iter().position(is_package) else {
        return without_library(frames_of(tables, stack));
    };
    let own = frames[first..].iter().take_while(|row| is_package(row)).count();
    let rest = &frames[first + own..];
    // A stack with no other frames is shown whole.
    if rest.is_empty() {
        return frames_of(tables, stack);
    }
    rest.iter().map(|row| label(tables, *row)).collect()
}

/// Without what called the reporter: the library's pass over all reporters.
fn without_library(mut frames: Vec<String>) -> Vec<String> {
    let library = frames.iter().position(|frame| frame.starts_with("heaplab_reporter::"));
    if let Some(at) = library.filter(|at| *at > 0) {
        frames.truncate(at);
        while frames.len() > 1 && frames.last().is_some_and(|last| last.starts_with("<alloc::")) {
            frames.pop();
        }
    }
    frames
}

fn label(tables: &Tables, row: u32) -> String {
    let name = tables.frame_label(row);
    let frame = tables.frames.get(row as usize);
    match frame.and_then(|frame| frame.file.as_deref().map(|file| (file, frame.line))) {
        Some((file, line)) => {
            let file = file.rsplit('/').next().unwrap_or(file);
            format!("{name} ({file}:{line})")
        }
        None => name,
    }
}
