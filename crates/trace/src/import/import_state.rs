//! The state that all importers share: live objects by name, and the growing tables.

use super::lines::Line;
use super::{ImportOptions, Imported};
use crate::bundle::Meta;
use crate::program::SIZE_MAX;
use crate::tables::{Arena, Mark, Process, StackNode, Tables, Thread};
use crate::{
    Event, EventSink, FREED_BY_PROGRAM, Family, Flags, ObjectId, Op, Origin, StackId, TraceError,
};
use hashbrown::HashMap;
use heaplab_text::words::so_many;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

type Map<K, V> = HashMap<K, V, Xxh3DefaultBuilder>;

/// Turns importers' records into events: gives ids, and keeps the order legal.
pub struct Book<'s, S> {
    sink: &'s mut S,
    options: ImportOptions,
    live: Map<(u32, u64), ObjectId>,
    born: ObjectId,
    rows: u64,
    processes: Map<u64, u32>,
    threads: Map<(u32, u64), u32>,
    /// Tables and meta so far.
    pub out: Imported,
    unknown: u64,
    unknown_allowed: bool,
    reused: u64,
    reused_allowed: bool,
    ignored: u64,
    clock: Option<u64>,
}

/// A request for an allocation.
#[derive(Clone, Copy, Default)]
pub struct Request {
    /// Bytes.
    pub size: u64,
    /// Alignment, a power of two; 0: none.
    pub alignment: u64,
    /// calloc.
    pub zeroed: bool,
    /// Born in the old generation.
    pub old: bool,
    /// The hidden class of other objects.
    pub hidden_class: bool,
    /// Row of `stacks`.
    pub stack: StackId,
    /// Its address, if known.
    pub address: u64,
}

/// The acting process and thread.
#[derive(Clone, Copy, Default)]
pub struct Who {
    /// Row of `processes`.
    pub process: u32,
    /// Row of `threads`.
    pub thread: u32,
}

impl<'s, S: EventSink> Book<'s, S> {
    /// An empty book.
    pub fn new(options: &ImportOptions, sink: &'s mut S) -> Book<'s, S> {
        let tables = Tables {
            stacks: vec![StackNode::default()],
            arenas: vec![Arena { kind: "malloc".into(), ..Arena::default() }],
            ..Tables::default()
        };
        let program = options.name.to_string_lossy().into_owned();
        let meta = Meta { program, death_rule: FREED_BY_PROGRAM.into(), ..Meta::default() };
        Book {
            sink,
            options: options.clone(),
            live: Map::default(),
            born: 0,
            rows: 0,
            processes: Map::default(),
            threads: Map::default(),
            out: Imported { tables, meta },
            unknown: 0,
            unknown_allowed: options.lenient,
            reused: 0,
            reused_allowed: options.lenient,
            ignored: 0,
            clock: None,
        }
    }

    /// Counts frees of unknown blocks from here on instead of refusing: the tool was attached to a
    /// running program.
    pub fn allow_unknown(&mut self) {
        self.unknown_allowed = true;
    }

    /// Counts allocations of a live name instead of refusing: the tool does not log threads in
    /// order.
    pub fn allow_reused(&mut self) {
        self.reused_allowed = true;
    }

    /// Sets the time of the next events, ns; time does not go back. Without a call all times are 0:
    /// the order of rows says more than an invented time.
    pub fn set_time(&mut self, time_ns: u64) {
        self.clock = Some(time_ns.min(i64::MAX as u64));
    }

    /// The rows of a process and one of its threads.
    pub fn who(&mut self, pid: u64, tid: u64) -> Who {
        let tables = &mut self.out.tables;
        let process = *self.processes.entry(pid).or_insert_with(|| {
            tables.processes.push(Process { pid: pid as u32, ..Process::default() });
            tables.processes.len() as u32 - 1
        });
        let thread = *self.threads.entry((process, tid)).or_insert_with(|| {
            tables.threads.push(Thread { process, tid: tid as u32, name: String::new() });
            tables.threads.len() as u32 - 1
        });
        Who { process, thread }
    }

    fn push(&mut self, event: Event) -> Result<(), TraceError> {
        let event = Event { time_ns: self.clock.unwrap_or(0), ..event };
        self.rows += 1;
        self.sink.push(&event)
    }

    /// Allocates `name` (a pointer or a number); `None`: the request failed.
    pub fn allocate(
        &mut self,
        who: Who,
        name: Option<u64>,
        request: Request,
        line: &Line,
    ) -> Result<(), TraceError> {
        let mut event = request_event(who, request);
        event.op = Op::Alloc;
        let Some(name) = name else {
            event.flags = event.flags.with(Flags::FAILED);
            return self.push(event);
        };
        self.bounded(request, line)?;
        if let Some(object) = self.live.insert((who.process, name), self.born) {
            if !self.reused_allowed {
                let what = format!(
                    "{}: {name:#x} is allocated, but it was allocated before and never freed",
                    at(line)
                );
                return Err(self.order(what));
            }
            self.reused += 1;
            self.push(Event {
                op: Op::Free,
                object,
                process: who.process,
                thread: who.thread,
                ..Event::default()
            })?;
        }
        event.object = self.born;
        self.born += 1;
        self.push(event)
    }

    /// Frees `name`.
    pub fn free(&mut self, who: Who, name: u64, line: &Line) -> Result<(), TraceError> {
        match self.live.remove(&(who.process, name)) {
            Some(object) => self.push(Event {
                op: Op::Free,
                object,
                process: who.process,
                thread: who.thread,
                ..Event::default()
            }),
            None => self.unknown("freed", name, line),
        }
    }

    /// Renames `old` to `new`, with another size; `new` is `None` if the request failed.
    pub fn reallocate(
        &mut self,
        who: Who,
        old: u64,
        new: Option<u64>,
        request: Request,
        line: &Line,
    ) -> Result<(), TraceError> {
        let Some(object) = self.live.get(&(who.process, old)).copied() else {
            self.unknown("reallocated", old, line)?;
            return self.allocate(who, new, request, line);
        };
        let mut event = Event { op: Op::Realloc, object, ..request_event(who, request) };
        match new {
            None => event.flags = event.flags.with(Flags::FAILED),
            Some(_) if request.size > SIZE_MAX => return self.bounded(request, line),
            // A name that is no address stays the same when its object moves.
            Some(new) if new == old => self.out.meta.moves_unknown |= request.address == 0,
            Some(new) => {
                self.live.remove(&(who.process, old));
                if let Some(stale) = self.live.insert((who.process, new), object) {
                    if !self.reused_allowed {
                        let what = format!(
                            "{}: {new:#x} is the result of realloc, but it was allocated before and never freed",
                            at(line)
                        );
                        return Err(self.order(what));
                    }
                    self.reused += 1;
                    self.push(Event {
                        op: Op::Free,
                        object: stale,
                        process: who.process,
                        thread: who.thread,
                        ..Event::default()
                    })?;
                }
                if request.address != 0 {
                    event.flags = event.flags.with(Flags::MOVED);
                } else {
                    self.out.meta.moves_unknown = true;
                }
            }
        }
        self.push(event)
    }

    /// Notes that the recorded heap promoted `name` to the old generation.
    pub fn promote(&mut self, who: Who, name: u64, line: &Line) -> Result<(), TraceError> {
        match self.live.get(&(who.process, name)).copied() {
            Some(object) => self.push(Event {
                op: Op::Promote,
                object,
                process: who.process,
                thread: who.thread,
                ..Event::default()
            }),
            None => self.unknown("promoted", name, line),
        }
    }

    /// A request to the heap as a whole: a collection, or to give memory back.
    pub fn ask(&mut self, who: Who, op: Op) -> Result<(), TraceError> {
        self.push(Event { op, process: who.process, thread: who.thread, ..Event::default() })
    }

    /// Adds a named moment.
    pub fn mark(&mut self, who: Who, name: &str) -> Result<(), TraceError> {
        let row = self.out.tables.marks.len() as u64;
        let time_ns = self.clock.unwrap_or(0);
        self.out.tables.marks.push(Mark { name: name.into(), time_ns, process: Some(who.process) });
        self.push(Event {
            op: Op::Mark,
            object: row,
            process: who.process,
            thread: who.thread,
            ..Event::default()
        })
    }

    /// Counts a skipped line that does not concern allocations.
    pub fn ignore(&mut self) {
        self.ignored += 1;
    }

    /// Checks that a granted request is no larger than an address space: analyses and replays rely
    /// on it.
    fn bounded(&self, request: Request, line: &Line) -> Result<(), TraceError> {
        if request.size <= SIZE_MAX {
            return Ok(());
        }
        let what = "size of a block that was given";
        Err(TraceError::Limit {
            path: self.options.name.clone(),
            place: at(line),
            what,
            found: request.size,
            limit: SIZE_MAX,
        })
    }

    fn unknown(&mut self, done: &str, name: u64, line: &Line) -> Result<(), TraceError> {
        self.unknown += 1;
        if self.unknown_allowed {
            return Ok(());
        }
        let why = "but it is not allocated (--lenient drops such lines and counts them)";
        Err(self.order(format!("{}: {name:#x} is {done}, {why}", at(line))))
    }

    fn order(&self, what: String) -> TraceError {
        TraceError::Order { path: self.options.name.clone(), row: self.rows, what }
    }

    /// The tables and the facts of the whole.
    pub fn finish(mut self) -> Imported {
        let losses = &mut self.out.meta.losses;
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                losses.push(so_many(count, what));
            }
        };
        say(
            self.unknown,
            "[free or reallocation|frees or reallocations] of blocks that the trace never allocated [was|were] dropped",
        );
        say(
            self.reused,
            "[allocation|allocations] of an address that was still live: the old object is taken as freed there",
        );
        say(
            self.ignored,
            "[line that is|lines that are] not about allocations [was|were] passed over",
        );
        if self.clock.is_none() {
            losses.push("the trace has no time stamps".into());
        }
        if self.out.tables.processes.is_empty() {
            self.who(0, 0);
        }
        self.out
    }
}

fn at(line: &Line) -> String {
    format!("line {}", line.number())
}

fn request_event(who: Who, request: Request) -> Event {
    Event {
        flags: Flags(
            (u16::from(request.zeroed) * Flags::ZEROED.0)
                | (u16::from(request.old) * Flags::DIRECT_TO_OLD.0),
        ),
        family: if request.alignment > 0 { Family::Aligned } else { Family::Malloc },
        align_log2: if request.alignment > 0 {
            request.alignment.trailing_zeros() as u8
        } else {
            0
        },
        process: who.process,
        thread: who.thread,
        origin: if request.hidden_class { Origin::HiddenClass } else { Origin::Normal },
        stack: request.stack,
        size: request.size,
        address: request.address,
        ..Event::default()
    }
}
