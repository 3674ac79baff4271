//! The state while reading the log, and the way of a line through it.

mod arenas;
mod chunks;
mod gaps;
mod jvm;
mod stacks;

pub use stacks::{type_name, type_number};

use super::message::{ArenaMessage, Message, parse};
use gaps::Gaps;
use hashbrown::HashMap;
use heaplab_text::words::so_many;
use heaplab_trace::bundle::Meta;
use heaplab_trace::import::lines::shown;
use heaplab_trace::import::{ImportOptions, Imported};
use heaplab_trace::tables::{Arena, Mark, NamedMoment, Process, StackNode, Tables, Thread};
use heaplab_trace::{Event, EventSink, Family, ObjectId, Op, StackId, TraceError};
use jvm::{Jvm, UnderWay};
use std::collections::VecDeque;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

type Map<K, V> = HashMap<K, V, Xxh3DefaultBuilder>;

/// Bytes of a word.
const WORD: u64 = 8;
/// Largest request believed: a root chunk.
const ROOT_BYTES: u64 = 16 << 20;

/// Counts so far, for a progress line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines.
    pub lines: u64,
    /// Arenas born.
    pub arenas: u64,
    /// Live arenas.
    pub live_arenas: u64,
    /// Blocks given.
    pub allocations: u64,
    /// Committed bytes of the JVMs that have not ended.
    pub committed_bytes: u64,
    /// The peak of committed bytes.
    pub committed_peak_bytes: u64,
}

/// Turns the lines of a log into events.
#[derive(Debug)]
pub struct Importer {
    options: ImportOptions,
    out: Imported,
    /// The JVM of the last line, and its pid, if lines have one.
    jvm: Jvm,
    pid: Option<u64>,
    /// The other JVMs.
    parked: Map<u64, Jvm>,
    stacks: Map<(StackId, u64), StackId>,
    counts: Counts,
    rows: u64,
    time_ns: u64,
    origin_ns: u64,
    /// The log's beginning by the calendar, if its lines tell calendar times.
    first_calendar_ns: Option<u64>,
    moments: VecDeque<NamedMoment>,
    requests: u64,
    objects: ObjectId,
    dropped: Vec<(&'static str, u64, String)>,
    saw: Saw,
    unwhole: Option<u64>,
    gaps: Gaps,
}

/// The decorations seen.
#[derive(Clone, Copy, Debug, Default)]
struct Saw {
    time: bool,
    tid: bool,
}

impl Importer {
    /// An importer before the first line.
    pub fn new(options: &ImportOptions) -> Importer {
        let tables = Tables {
            stacks: vec![StackNode::default()],
            arenas: vec![Arena { kind: "malloc".into(), ..Arena::default() }],
            processes: vec![Process::default()],
            ..Tables::default()
        };
        let meta = Meta {
            program: options.name.to_string_lossy().into_owned(),
            allocator: "HotSpot metaspace".into(),
            death_rule: "freed by the program".into(),
            ..Meta::default()
        };
        Importer {
            options: options.clone(),
            out: Imported { tables, meta },
            jvm: Jvm::default(),
            pid: None,
            parked: Map::default(),
            stacks: Map::default(),
            counts: Counts::default(),
            rows: 0,
            time_ns: 0,
            origin_ns: 0,
            first_calendar_ns: None,
            moments: VecDeque::new(),
            requests: 0,
            objects: 0,
            dropped: Vec::new(),
            saw: Saw::default(),
            unwhole: None,
            gaps: Gaps::default(),
        }
    }

    /// For a recording: the lines' clock shows `origin_ns` at its beginning, and `moments`, in
    /// order of time since then, become marks.
    pub fn recorded(mut self, origin_ns: u64, moments: Vec<NamedMoment>) -> Importer {
        self.origin_ns = origin_ns;
        self.moments = moments.into();
        self
    }

    /// Counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes line `number`; `whole` is false for a last line without a line feed.
    ///
    /// # Errors
    /// The line contradicts earlier ones (without `lenient`), or the sink fails. Earlier lines are
    /// never lost: [`Importer::cut`] ends the import there.
    pub fn line(
        &mut self,
        number: u64,
        line: &[u8],
        whole: bool,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        if !whole {
            self.unwhole = Some(number);
            return Ok(());
        }
        self.counts.lines += 1;
        if memchr::memchr(0, line).is_some() {
            self.gaps.note(number, Gaps { damaged: 1, ..Gaps::default() });
            return Ok(());
        }
        let (decorations, message) = parse(line);
        let by_calendar = |calendar_ns: u64| {
            calendar_ns.saturating_sub(*self.first_calendar_ns.get_or_insert(calendar_ns))
        };
        if let Some(time_ns) =
            decorations.time_ns.or_else(|| decorations.calendar_ns.map(by_calendar))
        {
            self.saw.time = true;
            self.pass_moments(time_ns.saturating_sub(self.origin_ns).min(i64::MAX as u64), sink)?;
        }
        if let Some(pid) = decorations.pid
            && !self.enter(pid)
        {
            self.drop_line(
                "[line is|lines are] of more JVMs than a recording can have, and passed over",
                &At { number, tid: 0, line },
            );
            return Ok(());
        }
        self.saw.tid |= decorations.tid.is_some();
        let tid = decorations.tid.unwrap_or(0);
        self.message(message, decorations.pid, &At { number, tid, line }, sink)
    }

    /// Takes the message of a line of the JVM `pid`.
    fn message(
        &mut self,
        message: Message<'_>,
        pid: Option<u64>,
        at: &At<'_>,
        sink: &mut impl EventSink,
    ) -> Result<(), TraceError> {
        match message {
            Message::Other => Ok(()),
            Message::Arena { what: ArenaMessage::Unknown, .. } | Message::Unknown => {
                self.drop_line(
                    "[line about the metaspace is unlike any known JDK's|lines about the metaspace are unlike any known JDK's]",
                    at,
                );
                Ok(())
            }
            Message::Arena { what: ArenaMessage::Other, .. } => Ok(()),
            Message::Arena { arena, class, explicit, what } => {
                self.jvm.explicit = explicit;
                self.about_arena(arena, class, what, at, sink)
            }
            Message::Returned { metadata_type, address } => {
                self.returned(metadata_type, address, at, sink)
            }
            Message::Loader { non_class, class } => {
                self.pair(non_class, class);
                Ok(())
            }
            Message::Process(text) => {
                self.begin_again(pid);
                self.about_process(text);
                Ok(())
            }
            Message::Failed => {
                self.jvm.reports_failure = true;
                Ok(())
            }
            Message::Granule { .. } if std::mem::take(&mut self.jvm.reports_failure) => Ok(()),
            Message::Policy(_) | Message::Granule { .. } if self.jvm.settled => {
                self.another_begins(&message, at)
            }
            other => {
                if matches!(other, Message::Ended) {
                    self.settle_all(sink)?;
                }
                self.about_chunks(other, at);
                Ok(())
            }
        }
    }

    /// Moves to `time_ns`: earlier named moments become marks.
    fn pass_moments(&mut self, time_ns: u64, sink: &mut impl EventSink) -> Result<(), TraceError> {
        while self.moments.front().is_some_and(|moment| moment.time_ns < time_ns) {
            let Some(moment) = self.moments.pop_front() else { break };
            self.time_ns = self.time_ns.max(moment.time_ns);
            let tables = &mut self.out.tables;
            let process = moment
                .pid
                .and_then(|pid| tables.processes.iter().rposition(|process| process.pid == pid))
                .map(|row| row as u32);
            tables.marks.push(Mark { name: moment.name, time_ns: self.time_ns, process });
            let (object, process) =
                (tables.marks.len() as u64 - 1, process.unwrap_or(self.jvm.row));
            let at = At { number: self.counts.lines, tid: self.jvm.last_tid, line: b"" };
            let thread = self.thread(&at).row;
            self.rows += 1;
            sink.push(&Event {
                op: Op::Mark,
                object,
                process,
                thread,
                time_ns: self.time_ns,
                ..Event::default()
            })?;
        }
        self.time_ns = self.time_ns.max(time_ns);
        Ok(())
    }

    /// Ends the import here, because of `error`; earlier lines stay.
    ///
    /// # Errors
    /// No line was read before: the error itself.
    pub fn cut(&mut self, error: TraceError, sink: &mut impl EventSink) -> Result<(), TraceError> {
        if self.counts.arenas == 0 {
            return Err(error);
        }
        self.flush(sink)?;
        self.out.meta.cut.get_or_insert(error.to_string());
        Ok(())
    }

    /// Ends the log.
    ///
    /// # Errors
    /// The log had no line of the metaspace, or the sink fails.
    pub fn finish(mut self, sink: &mut impl EventSink) -> Result<Imported, TraceError> {
        self.flush(sink)?;
        if let Some(last_ns) = self.moments.back().map(|moment| moment.time_ns) {
            self.pass_moments(last_ns.saturating_add(1), sink)?;
        }
        if self.counts.arenas == 0 || (self.requests > 0 && self.counts.allocations == 0) {
            return Err(self.nothing());
        }
        self.refuse_old();
        if let Some(number) = self.unwhole {
            self.out.meta.cut.get_or_insert(format!(
                "{}: line {number} breaks off: the log was cut",
                self.options.name.display()
            ));
        }
        let losses = &mut self.out.meta.losses;
        if let Some(said) = self.gaps.said() {
            self.out.meta.gaps = true;
            losses.push(said);
        }
        losses.extend(self.dropped.iter().map(|(what, count, example)| {
            format!("{}; the first: {example}", so_many(*count, what))
        }));
        if !self.saw.tid {
            losses.push(
                "the log does not say which thread wrote a line (decoration tid): lines of several threads may have been mixed up".into(),
            );
        }
        if !self.saw.time {
            losses.push("the log has no time stamps".into());
        }
        if self.requests == 0 {
            losses.push(
                "the log has no requests for blocks, which JVMs write at level trace (-Xlog:metaspace*=trace; at debug there are only chunks): \
                 the used bytes, and their blocks, are unknown"
                    .into(),
            );
        }
        let meta = &mut self.out.meta;
        meta.duration_ns = self.time_ns;
        meta.stack_depth = 2;
        Ok(self.out)
    }

    /// Why there is nothing to import.
    fn nothing(&self) -> TraceError {
        let found = match self.dropped.first() {
            _ if self.is_old() => String::from(
                "the log of a JDK before 16 (\"SpaceManager\", \"Metachunk\"), which had another metaspace",
            ),
            Some((what, count, example)) => {
                format!("{}; the first: {example}", so_many(*count, what))
            }
            None if self.counts.lines == 0 => String::from("no line at all"),
            None => format!("no such line in {}", so_many(self.counts.lines, "[line|lines]")),
        };
        TraceError::Malformed {
            path: self.options.name.clone(),
            place: if self.counts.lines == 0 { "line 1".into() } else { format!("lines 1 to {}", self.counts.lines) },
            expected: "lines of JDK 17 to 25 about arenas and blocks (\"Arena @0x... requested 12 words\"): record with \
                       java -Xlog:metaspace*=trace:file=FILE:uptimenanos,tid:filecount=0, or with heaplab record --jvm-metaspace"
                .into(),
            found,
        }
    }

    fn flush(&mut self, sink: &mut impl EventSink) -> Result<(), TraceError> {
        let mut pids: Vec<u64> = self.parked.keys().copied().chain(self.pid).collect();
        pids.sort_unstable();
        // Without pids there is one JVM.
        for pid in if pids.is_empty() { vec![None] } else { pids.into_iter().map(Some).collect() } {
            if let Some(pid) = pid {
                self.enter(pid);
            }
            self.settle_all(sink)?;
        }
        Ok(())
    }

    /// Settles all threads' requests: no later line of this JVM will.
    fn settle_all(&mut self, sink: &mut impl EventSink) -> Result<(), TraceError> {
        let mut tids: Vec<u64> = self
            .jvm
            .threads
            .iter()
            .filter(|(_, thread)| thread.request.is_some())
            .map(|(tid, _)| *tid)
            .collect();
        tids.sort_unstable();
        for tid in tids {
            self.settle(&At { number: self.counts.lines, tid, line: b"" }, sink)?;
        }
        Ok(())
    }

    fn thread(&mut self, at: &At) -> &mut UnderWay {
        let (tables, jvm) = (&mut self.out.tables, &mut self.jvm);
        jvm.last_tid = at.tid;
        jvm.threads.entry(at.tid).or_insert_with(|| {
            tables.threads.push(Thread {
                process: jvm.row,
                tid: at.tid as u32,
                name: String::new(),
            });
            UnderWay { row: tables.threads.len() as u32 - 1, ..UnderWay::default() }
        })
    }

    fn push(&mut self, event: Event, at: &At, sink: &mut impl EventSink) -> Result<(), TraceError> {
        self.rows += 1;
        let thread = self.thread(at).row;
        sink.push(&Event {
            family: Family::Arena,
            process: self.jvm.row,
            thread,
            time_ns: self.time_ns,
            ..event
        })
    }

    /// Handles a contradiction: an error, or, leniently, one more of `kind`.
    fn wrong(&mut self, kind: &'static str, what: String, at: &At) -> Result<(), TraceError> {
        if self.options.lenient {
            self.drop_line(kind, at);
            return Ok(());
        }
        let what = format!("{}: {what} (--lenient goes on and counts such lines)", place(at));
        Err(TraceError::Order { path: self.options.name.clone(), row: self.rows, what })
    }

    /// Handles a second JVM's beginning: nothing distinguishes its lines from the first's.
    fn another_begins(&mut self, message: &Message, at: &At) -> Result<(), TraceError> {
        if self.options.lenient && matches!(message, Message::Policy(_)) {
            // The next line of such a JVM counts.
            return Ok(());
        }
        let what = "another JVM begins, and its lines cannot be distinguished from the first one's: import each JVM's log by itself, or have java \
                    write the decoration pid (-Xlog:metaspace*=trace:file=FILE:uptimenanos,pid,tid:filecount=0)";
        self.wrong("JVMs begin with lines that count as the first one's", what.into(), at)
    }

    /// Why an arena's birth may be missing.
    fn lost(&self) -> &'static str {
        if self.jvm.began { LOST_LINE } else { LOST_BIRTH }
    }

    fn drop_line(&mut self, kind: &'static str, at: &At) {
        match self.dropped.iter_mut().find(|(known, _, _)| *known == kind) {
            Some((_, count, _)) => *count += 1,
            None => self.dropped.push((kind, 1, format!("{}, \"{}\"", place(at), shown(at.line)))),
        }
    }
}

/// A line's place and process.
struct At<'a> {
    number: u64,
    tid: u64,
    line: &'a [u8],
}

/// The log has its beginning, but a line is missing.
const LOST_LINE: &str = ": the line that says so is missing, although the log's beginning is there";
const LOST_BIRTH: &str = ": the beginning of the log is missing (a log of more than 20 MB rotates unless java is told filecount=0)";

fn place(at: &At) -> String {
    format!("line {}", at.number)
}
