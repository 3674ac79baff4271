//! What is known while the log is read: live arenas and their blocks, and what each thread is in the middle of.

mod chunks;
mod stacks;

pub use stacks::type_name;

use super::kind::Possible;
use super::message::{ArenaMessage, Message, parse};
use crate::bundle::Meta;
use crate::import::lines::shown;
use crate::import::{Imported, Options};
use crate::program::SIZE_MAX;
use crate::tables::{Arena, ChunkOp, Process, StackNode, Tables, Thread};
use crate::{Event, EventSink, Family, Flags, ObjectId, Op, StackId, TraceError};
use hashbrown::HashMap;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

type Map<K, V> = HashMap<K, V, Xxh3DefaultBuilder>;

/// Bytes of a word.
const WORD: u64 = 8;
/// log2 of its bytes.
const WORD_LOG2: u8 = 3;
/// Most words of a request that are believed: a root chunk.
const ROOT_BYTES: u64 = 16 << 20;
/// JDK 17's smallest block, in words.
const SMALLEST_WORDS: u64 = 2;
/// What was read so far, for a progress line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines.
    pub lines: u64,
    /// Arenas born.
    pub arenas: u64,
    /// Arenas that live.
    pub live_arenas: u64,
    /// Blocks given.
    pub allocations: u64,
    /// Bytes that are committed now.
    pub committed_bytes: u64,
}

/// Takes the lines of a log and gives events.
#[derive(Debug)]
pub struct Importer {
    options: Options,
    out: Imported,
    arenas: Map<u64, LiveArena>,
    threads: Map<u64, UnderWay>,
    stacks: Map<(StackId, u64), StackId>,
    /// Nodes of which it is not known yet which space they are of.
    nodes: Vec<(u64, u64)>,
    counts: Counts,
    rows: u64,
    time_ns: u64,
    explicit: bool,
    requests: u64,
    dropped: Vec<(&'static str, u64, String)>,
    saw: Saw,
    loaders: u64,
    unwhole: Option<u64>,
}

/// Which decorations and lines were there.
#[derive(Clone, Copy, Debug, Default)]
struct Saw {
    time: bool,
    tid: bool,
    pid: Option<u64>,
    resident_bytes: u64,
    resident_anonymous_bytes: u64,
    objects: ObjectId,
}

#[derive(Debug)]
struct LiveArena {
    row: u32,
    class: bool,
    partner: Option<u64>,
    possible: Possible,
    /// The kind of its loader is settled by its first chunk, or not known because its birth was not seen.
    settled: bool,
    blocks: Map<u64, (ObjectId, u64)>,
}

/// What a thread is in the middle of.
#[derive(Debug, Default)]
struct UnderWay {
    row: u32,
    request: Option<Request>,
    commit: Option<(u64, u64)>,
    line: Option<(u64, u64)>,
    root: Option<u64>,
    wastage: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    arena: u64,
    row: u32,
    words: u64,
    address: Option<u64>,
    usable_words: u64,
}

impl Importer {
    /// Nothing read yet.
    pub fn new(options: &Options) -> Importer {
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
            arenas: Map::default(),
            threads: Map::default(),
            stacks: Map::default(),
            nodes: Vec::new(),
            counts: Counts::default(),
            rows: 0,
            time_ns: 0,
            explicit: false,
            requests: 0,
            dropped: Vec::new(),
            saw: Saw::default(),
            loaders: 0,
            unwhole: None,
        }
    }

    /// What was read so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The process whose lines are taken, where they say it.
    pub fn pid(&self) -> Option<u64> {
        self.saw.pid
    }

    /// The JVM's resident memory, for a sample now.
    pub fn memory(&mut self, resident_bytes: u64, resident_anonymous_bytes: u64) {
        (self.saw.resident_bytes, self.saw.resident_anonymous_bytes) = (resident_bytes, resident_anonymous_bytes);
        self.sample(self.counts.committed_bytes);
    }

    /// Takes line `number`; `whole` is false for a last line without a line feed.
    ///
    /// # Errors
    /// The line contradicts those before it (without `lenient`), or the sink fails. Either way nothing before it is lost:
    /// [`Importer::cut`] ends the import there.
    pub fn line(&mut self, number: u64, line: &[u8], whole: bool, sink: &mut impl EventSink) -> Result<(), TraceError> {
        if !whole {
            self.unwhole = Some(number);
            return Ok(());
        }
        self.counts.lines += 1;
        let (decorations, message) = parse(line);
        if let Some(pid) = decorations.pid
            && pid != *self.saw.pid.get_or_insert(pid)
        {
            self.drop_line("lines are of other JVMs than the first, and passed over", &At { number, tid: 0, line });
            return Ok(());
        }
        if let Some(time_ns) = decorations.time_ns {
            self.saw.time = true;
            self.time_ns = self.time_ns.max(time_ns.min(i64::MAX as u64));
        }
        self.saw.tid |= decorations.tid.is_some();
        let tid = decorations.tid.unwrap_or(0);
        let at = At { number, tid, line };
        match message {
            Message::Other => Ok(()),
            Message::Arena { what: ArenaMessage::Unknown, .. } | Message::Unknown => {
                self.drop_line("lines about the metaspace are as no known JDK writes them", &at);
                Ok(())
            }
            Message::Arena { what: ArenaMessage::Other, .. } => Ok(()),
            Message::Arena { arena, class, explicit, what } => {
                self.explicit = explicit;
                self.about_arena(arena, class, what, &at, sink)
            }
            Message::Returned { metadata_type, address } => self.returned(metadata_type, address, &at, sink),
            Message::Loader { non_class, class } => {
                self.pair(non_class, class);
                Ok(())
            }
            other => {
                self.about_chunks(other, &at);
                Ok(())
            }
        }
    }

    /// The import ends here, because of `error`; what was read before stays.
    ///
    /// # Errors
    /// Nothing was read before: the error itself.
    pub fn cut(&mut self, error: TraceError, sink: &mut impl EventSink) -> Result<(), TraceError> {
        if self.rows == 0 {
            return Err(error);
        }
        self.flush(sink)?;
        self.out.meta.cut.get_or_insert(error.to_string());
        Ok(())
    }

    /// The log is over.
    ///
    /// # Errors
    /// It had nothing of the metaspace, or the sink fails.
    pub fn finish(mut self, sink: &mut impl EventSink) -> Result<Imported, TraceError> {
        self.flush(sink)?;
        if self.rows == 0 || (self.requests > 0 && self.counts.allocations == 0) {
            let found = match self.dropped.first() {
                Some((what, count, example)) => format!("{count} {what}; the first: {example}"),
                None => format!("no such line in {} lines", self.counts.lines),
            };
            return Err(TraceError::Malformed {
                path: self.options.name.clone(),
                place: format!("lines 1 to {}", self.counts.lines.max(1)),
                expected: "what JDK 17 to 25 say of arenas and blocks (\"Arena @0x... requested 12 words\"): record with \
                           java -Xlog:metaspace*=trace:file=FILE:uptimenanos,tid:filecount=0, or with heaplab record --jvm-metaspace"
                    .into(),
                found,
            });
        }
        if let Some(number) = self.unwhole {
            self.out.meta.cut.get_or_insert(format!("{}: line {number} breaks off: the log was cut", self.options.name.display()));
        }
        let losses = &mut self.out.meta.losses;
        losses.extend(self.dropped.iter().map(|(what, count, example)| format!("{count} {what}; the first: {example}")));
        if !self.saw.tid {
            losses.push(
                "the log does not say which thread wrote a line (decoration tid): lines of several threads may have been mixed up".into(),
            );
        }
        if !self.saw.time {
            losses.push("the log has no time stamps".into());
        }
        let meta = &mut self.out.meta;
        meta.duration_ns = self.time_ns;
        meta.stack_depth = 2;
        Ok(self.out)
    }

    fn flush(&mut self, sink: &mut impl EventSink) -> Result<(), TraceError> {
        let mut tids: Vec<u64> = self.threads.iter().filter(|(_, thread)| thread.request.is_some()).map(|(tid, _)| *tid).collect();
        tids.sort_unstable();
        for tid in tids {
            self.settle(&At { number: self.counts.lines, tid, line: b"" }, sink)?;
        }
        Ok(())
    }

    fn about_arena(&mut self, address: u64, class: bool, what: ArenaMessage, at: &At, sink: &mut impl EventSink) -> Result<(), TraceError> {
        match what {
            ArenaMessage::Born => self.born(address, class, true, at, sink),
            ArenaMessage::Dies => {
                let Some(arena) = self.arenas.remove(&address) else {
                    return self.wrong(
                        "arenas die that were never born",
                        format!("arena {address:#x} dies, but it was never born{LOST_BIRTH}"),
                        at,
                    );
                };
                self.push(Event { op: Op::ArenaDeath, arena: arena.row, object: arena.row.into(), ..Event::default() }, at, sink)
            }
            ArenaMessage::Requested { words } => {
                self.settle(at, sink)?;
                if words > ROOT_BYTES / WORD {
                    if self.options.lenient {
                        self.drop_line("requests are for more words than any chunk has", at);
                        return Ok(());
                    }
                    let (what, limit) = ("the words of a request", ROOT_BYTES / WORD);
                    return Err(TraceError::Limit { path: self.options.name.clone(), place: place(at), what, found: words, limit });
                }
                if !self.arenas.contains_key(&address) {
                    let what = format!("arena {address:#x} is asked for {words} words, but it was never born{LOST_BIRTH}");
                    self.wrong("arenas were in use before they were born: they are taken as born there", what, at)?;
                    self.born(address, class, false, at, sink)?;
                }
                self.requests += 1;
                let row = self.arenas.get(&address).map_or(0, |arena| arena.row);
                self.thread(at).request = Some(Request { arena: address, row, words, address: None, usable_words: 0 });
                Ok(())
            }
            ArenaMessage::Returning { address: block } => {
                self.answer(address, block, 0, at);
                Ok(())
            }
            ArenaMessage::ReturningBlock { address: block, words, wastage } => {
                self.answer(address, block, words, at);
                self.thread(at).wastage = wastage;
                Ok(())
            }
            ArenaMessage::Failed => match self.thread(at).request.take() {
                Some(request) => {
                    self.push(Event { flags: Flags::FAILED, arena: request.row, size: request.words * WORD, ..Event::default() }, at, sink)
                }
                None => Ok(()),
            },
            ArenaMessage::Salvaging { base, used, rest } => {
                if !self.explicit {
                    let row = self.arenas.get(&address).map_or(0, |arena| arena.row);
                    self.chunk(ChunkOp::Leftover, base.wrapping_add(used.wrapping_mul(WORD)), rest.saturating_mul(WORD), row);
                }
                Ok(())
            }
            ArenaMessage::Deallocating { address: block, words } => self.deallocated(address, block, words, at, sink),
            ArenaMessage::AddedToFreeBlocks { address: block, words } => {
                let row = self.arenas.get(&address).map_or(0, |arena| arena.row);
                if self.thread(at).wastage == Some(block) {
                    self.thread(at).wastage = None;
                    self.chunk(ChunkOp::Leftover, block, words.saturating_mul(WORD), row);
                    return Ok(());
                }
                self.deallocated(address, block, words, at, sink)
            }
            ArenaMessage::FromFreeBlocks | ArenaMessage::NewChunk { .. } | ArenaMessage::Other | ArenaMessage::Unknown => Ok(()),
        }
    }

    fn born(&mut self, address: u64, class: bool, seen: bool, at: &At, sink: &mut impl EventSink) -> Result<(), TraceError> {
        if let Some(row) = self.arenas.get(&address).map(|arena| arena.row) {
            let what = format!("arena {address:#x} is born, but it was born before and has not died (a part of the log is missing?)");
            self.wrong("arenas are born where another still lived: that one is taken as dead", what, at)?;
            self.arenas.remove(&address);
            self.push(Event { op: Op::ArenaDeath, arena: row, object: row.into(), ..Event::default() }, at, sink)?;
        }
        let row = self.out.tables.arenas.len() as u32;
        let kind = if class { "class" } else { "non-class" };
        self.out.tables.arenas.push(Arena { kind: kind.into(), ..Arena::default() });
        let possible = Possible::default();
        self.arenas.insert(address, LiveArena { row, class, partner: None, possible, settled: !seen, blocks: Map::default() });
        self.counts.arenas += 1;
        self.push(Event { op: Op::ArenaBirth, arena: row, object: row.into(), ..Event::default() }, at, sink)
    }

    /// Two arenas have the same loader.
    fn pair(&mut self, non_class: u64, class: Option<u64>) {
        let rows = |address| self.arenas.get(&address).map(|arena: &LiveArena| arena.row);
        let (Some(class), Some(one)) = (class, rows(non_class)) else { return };
        let Some(other) = rows(class) else { return };
        self.loaders += 1;
        let loader = format!("loader {}", self.loaders);
        for (address, row, partner, partner_address) in [(non_class, one, other, class), (class, other, one, non_class)] {
            if let Some(arena) = self.arenas.get_mut(&address) {
                arena.partner = Some(partner_address);
            }
            let table = &mut self.out.tables.arenas[row as usize];
            table.partner = Some(partner);
            table.loader.clone_from(&loader);
        }
    }

    /// The first chunk of an arena is asked for: what that says of its loader.
    fn first_chunk(&mut self, address: u64, level: u8, fitting: u8) {
        let Some(arena) = self.arenas.get_mut(&address) else { return };
        if std::mem::replace(&mut arena.settled, true) {
            return;
        }
        let partner = arena.partner;
        let possible = arena.possible.after_first_chunk(arena.class, level, fitting);
        arena.possible = possible;
        let mut rows = vec![arena.row];
        if let Some(partner) = partner.and_then(|partner| self.arenas.get_mut(&partner)) {
            partner.possible = possible;
            rows.push(partner.row);
        }
        for row in rows {
            possible.name().clone_into(&mut self.out.tables.arenas[row as usize].growth_policy);
        }
    }

    fn answer(&mut self, arena: u64, block: u64, words: u64, at: &At) {
        if let Some(request) = self.thread(at).request.as_mut().filter(|request| request.arena == arena) {
            request.address = Some(block);
            request.usable_words = words;
        }
    }

    /// The JVM got its block: what this thread asked for, or, after a collection that makes room for it, what the VM thread did.
    fn returned(&mut self, metadata_type: u64, address: u64, at: &At, sink: &mut impl EventSink) -> Result<(), TraceError> {
        let is_it = |request: &mut Request| request.address.is_none_or(|block| block == address);
        let own = self.thread(at).request.take_if(is_it);
        let others = || self.threads.values_mut().find_map(|thread| thread.request.take_if(|request| request.address == Some(address)));
        let Some(request) = own.or_else(others) else {
            self.drop_line("blocks were given that nobody had asked for: the beginning of the log is missing", at);
            return Ok(());
        };
        self.allocated(Request { address: Some(address), ..request }, Some(metadata_type), at, sink)
    }

    /// What the thread was given and the log did not say more of.
    fn settle(&mut self, at: &At, sink: &mut impl EventSink) -> Result<(), TraceError> {
        match self.thread(at).request.take() {
            Some(request) if request.address.is_some() => self.allocated(request, None, at, sink),
            _ => Ok(()),
        }
    }

    fn allocated(&mut self, request: Request, metadata_type: Option<u64>, at: &At, sink: &mut impl EventSink) -> Result<(), TraceError> {
        let address = request.address.unwrap_or(0);
        let object = self.saw.objects;
        let Some(arena) = self.arenas.get_mut(&request.arena).filter(|arena| arena.row == request.row) else {
            return self.wrong(
                "blocks were given by a dead arena",
                format!("arena {:#x} gives a block, but it is dead", request.arena),
                at,
            );
        };
        let words = if request.usable_words > 0 { request.usable_words } else { request.words.max(SMALLEST_WORDS) };
        let before = arena.blocks.insert(address, (object, words));
        let row = arena.row;
        if let Some((before, _)) = before {
            let what = format!("block {address:#x} is given, but it was given before and not given back");
            self.wrong("blocks were given twice: the first is taken as given back", what, at)?;
            self.push(Event { op: Op::Free, object: before, arena: row, ..Event::default() }, at, sink)?;
        }
        let stack = self.stack(row, metadata_type);
        let (size, usable) = (request.words * WORD, words.saturating_mul(WORD).min(SIZE_MAX));
        self.saw.objects += 1;
        self.counts.allocations += 1;
        // Metadata is aligned to words; a heap that aligned further would not place it where HotSpot does.
        let event = Event { op: Op::Alloc, object, size, usable: usable.max(size), align_log2: WORD_LOG2, arena: row, ..Event::default() };
        self.push(Event { stack, address, ..event }, at, sink)
    }

    fn deallocated(&mut self, arena: u64, block: u64, words: u64, at: &At, sink: &mut impl EventSink) -> Result<(), TraceError> {
        let Some((row, partner)) = self.arenas.get(&arena).map(|arena| (arena.row, arena.partner)) else {
            let what = format!("block {block:#x} is given back to arena {arena:#x}, which is dead or was never born{LOST_BIRTH}");
            return self.wrong("blocks were given back to arenas that do not live", what, at);
        };
        let homes = [Some(arena), partner];
        let found = homes.into_iter().flatten().find_map(|home| self.arenas.get_mut(&home)?.blocks.remove(&block));
        match found {
            Some((object, _)) => self.push(Event { op: Op::Free, object, arena: row, address: block, ..Event::default() }, at, sink),
            None => {
                let what = format!("block {block:#x} of {words} words is given back, but arena {arena:#x} has not given it");
                self.wrong("blocks were given back that had not been given", what, at)
            }
        }
    }

    fn thread(&mut self, at: &At) -> &mut UnderWay {
        let tables = &mut self.out.tables;
        self.threads.entry(at.tid).or_insert_with(|| {
            tables.threads.push(Thread { process: 0, tid: at.tid as u32, name: String::new() });
            UnderWay { row: tables.threads.len() as u32 - 1, ..UnderWay::default() }
        })
    }

    fn push(&mut self, event: Event, at: &At, sink: &mut impl EventSink) -> Result<(), TraceError> {
        self.rows += 1;
        self.counts.live_arenas = self.arenas.len() as u64;
        let thread = self.thread(at).row;
        sink.push(&Event { family: Family::Arena, thread, time_ns: self.time_ns, ..event })
    }

    /// The line contradicts what came before it: an error, or, leniently, one more of `kind`.
    fn wrong(&mut self, kind: &'static str, what: String, at: &At) -> Result<(), TraceError> {
        if self.options.lenient {
            self.drop_line(kind, at);
            return Ok(());
        }
        let what = format!("{}: {what} (--lenient goes on and counts such lines)", place(at));
        Err(TraceError::Order { path: self.options.name.clone(), row: self.rows, what })
    }

    fn drop_line(&mut self, kind: &'static str, at: &At) {
        match self.dropped.iter_mut().find(|(known, _, _)| *known == kind) {
            Some((_, count, _)) => *count += 1,
            None => self.dropped.push((kind, 1, format!("{}, \"{}\"", place(at), shown(at.line)))),
        }
    }
}

/// Where a line is, and whose.
struct At<'a> {
    number: u64,
    tid: u64,
    line: &'a [u8],
}

const LOST_BIRTH: &str = ": the beginning of the log is missing (a log of more than 20 MB rotates unless java is told filecount=0)";

fn place(at: &At) -> String {
    format!("line {}", at.number)
}
