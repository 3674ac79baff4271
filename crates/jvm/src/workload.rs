//! A recorded metaspace workload without addresses: `#metaspace-trace 1`, the format of
//! traces/metaspace.
//!
//! After the header the file has one event a line, `dt_us op args`, with dt in microseconds since
//! the line before. `b A S K`: arena A is born (S: n non-class, c class, m micro non-class; K: its
//! class loader, whose other arena is its partner). `a A W T`: an allocation of W words in it (T:
//! type of metadata, -1: unknown). `f A W T`: the same, from free blocks. `x A W`: a refused
//! request. `d A W I`: allocation number I is given back (-1: unknown which). `k A`: the arena
//! dies. `p`: free memory is given back. Arenas and allocations are numbered from 0 in the order of
//! the file.
//!
//! A loader's kind is in a table of its own ([`name_kinds`]). Without the table, the first loader
//! is the boot loader and all others are standard ones. Requests state an alignment of a word: a
//! heap that aligns further does not place blocks where HotSpot does. A purge becomes a mark and a
//! trim; a replay asks its heap to trim.
//!
//! A line that cannot be parsed, lacks its line feed, or contradicts earlier lines ends the import
//! there: earlier lines stay, and `meta.cut` says where and why. With `lenient`, contradicting
//! lines and an incomplete last line are dropped and counted instead.
//!
//! [`Writer`] is the way back.

mod kinds;
mod write;

pub use kinds::{name_kinds, name_kinds_beside};
pub use write::{Writer, Written};

use hashbrown::HashMap;
use heaplab_text::words::so_many;
use heaplab_trace::bundle::Meta;
use heaplab_trace::import::lines::{Line, Lines, decimal};
use heaplab_trace::import::{ImportOptions, Imported};
use heaplab_trace::tables::{Arena, Frame, Mark, Process, StackNode, Tables, Thread};
use heaplab_trace::{Event, EventSink, Family, Flags, NO_STACK, ObjectId, Op, StackId, TraceError};
use std::io::BufRead;

/// How a trace begins.
pub const HEADER: &str = "#metaspace-trace 1";
const WORD_BYTES: u64 = 8;
/// log2 of a word's bytes.
const WORD_LOG2: u8 = 3;
/// Most types of metadata that get a stack of their own.
const TYPES_MAX: usize = 1000;
/// Most words of a request. No block exceeds a root chunk of 16 MB (`Settings`,
/// metaspaceSettings.hpp of JDK 17), and no class file can ask for as much (its tables have at most
/// 65,535 entries).
const WORDS_MAX: u64 = (16 << 20) / WORD_BYTES;

/// Where the import is.
struct Importer<'s, S> {
    sink: &'s mut S,
    options: ImportOptions,
    out: Imported,
    time_ns: u64,
    /// When the last line was written.
    line_ns: i64,
    rows: u64,
    /// Living arenas, by number: numbers of the allocations in each, which may still live.
    arenas: HashMap<u64, Vec<u64>>,
    born: u64,
    /// Living objects, with their arena, by the number of their allocation.
    live: HashMap<u64, (u64, ObjectId)>,
    objects: ObjectId,
    /// Lines that allocate so far; a dropped one has its number too.
    allocations: u64,
    loaders: HashMap<u64, u32>,
    types: HashMap<u64, StackId>,
    dropped: u64,
    unknown: u64,
}

/// Imports.
pub fn import<R: BufRead, S: EventSink>(
    lines: &mut Lines<R>,
    options: &ImportOptions,
    sink: &mut S,
) -> Result<Imported, TraceError> {
    let tables = Tables {
        stacks: vec![StackNode::default()],
        arenas: vec![Arena { kind: "malloc".into(), ..Arena::default() }],
        processes: vec![Process::default()],
        threads: vec![Thread::default()],
        ..Tables::default()
    };
    let meta = Meta {
        program: options.name.to_string_lossy().into_owned(),
        allocator: "HotSpot metaspace".into(),
        death_rule: "with its arena, or given back early".into(),
        ..Meta::default()
    };
    let mut importer = Importer {
        sink,
        options: options.clone(),
        out: Imported { tables, meta },
        time_ns: 0,
        line_ns: 0,
        rows: 0,
        arenas: HashMap::new(),
        born: 0,
        live: HashMap::new(),
        objects: 0,
        allocations: 0,
        loaders: HashMap::new(),
        types: HashMap::new(),
        dropped: 0,
        unknown: 0,
    };
    let mut first = true;
    loop {
        match step(lines, &mut importer, std::mem::take(&mut first)) {
            Ok(true) => {}
            Ok(false) => break,
            // For an error of the trace itself, not of the destination of its events, the lines
            // before it are kept.
            Err(error) if importer.rows > 0 && ends_the_trace(&error, &options.name) => {
                importer.out.meta.cut = Some(error.to_string());
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(importer.finish())
}

/// Whether the error is the trace's own: in its text or its content.
fn ends_the_trace(error: &TraceError, name: &std::path::Path) -> bool {
    match error {
        TraceError::Malformed { path, .. }
        | TraceError::Order { path, .. }
        | TraceError::Limit { path, .. }
        | TraceError::Io { path, .. } => path == name,
        _ => false,
    }
}

/// Imports the next line; false at the end.
fn step<R: BufRead, S: EventSink>(
    lines: &mut Lines<R>,
    importer: &mut Importer<'_, S>,
    is_first: bool,
) -> Result<bool, TraceError> {
    if !lines.advance()? {
        return Ok(false);
    }
    let line = lines.line();
    if is_first && !line.whole().starts_with(HEADER.as_bytes()) {
        return Err(line.wrong(format!("the header \"{HEADER} dt_us op args\"")));
    }
    if line.whole().starts_with(b"#") {
        return Ok(true);
    }
    if !lines.is_whole() {
        return Err(line.wrong("a line feed at the line's end: the trace was cut"));
    }
    importer.line(line)?;
    Ok(true)
}

impl<S: EventSink> Importer<'_, S> {
    fn line(&mut self, mut line: Line<'_>) -> Result<(), TraceError> {
        let word = line.word();
        let (digits, back) = word.strip_prefix(b"-").map_or((word, false), |digits| (digits, true));
        let Some(passed_us) = decimal(digits) else {
            return Err(line.wrong("microseconds since the line before, a whole number"));
        };
        // Threads write their lines a little late, so a line may be older than the one before it;
        // the import's time does not go back.
        let passed_ns = i64::try_from(passed_us).unwrap_or(i64::MAX).saturating_mul(1000);
        self.line_ns = if back {
            self.line_ns.saturating_sub(passed_ns)
        } else {
            self.line_ns.saturating_add(passed_ns)
        };
        self.time_ns = self.time_ns.max(self.line_ns.max(0) as u64);
        match line.word() {
            b"b" => self.birth(line),
            b"a" | b"f" => self.allocate(line, Flags::default()),
            b"x" => self.allocate(line, Flags::FAILED),
            b"d" => self.deallocate(line),
            b"k" => self.death(line),
            b"p" => self.purge(line),
            _ => Err(line.wrong("an operation: b, a, f, x, d, k or p")),
        }
    }

    fn push(&mut self, event: Event) -> Result<(), TraceError> {
        self.rows += 1;
        self.sink.push(&Event { time_ns: self.time_ns, family: Family::Arena, ..event })
    }

    /// What contradicts the lines before it: refused, or dropped and counted.
    fn contradiction(&mut self, line: &Line<'_>, what: String) -> Result<(), TraceError> {
        if self.options.lenient {
            self.dropped += 1;
            return Ok(());
        }
        let what =
            format!("line {}: {what} (--lenient drops such lines and counts them)", line.number());
        Err(TraceError::Order { path: self.options.name.clone(), row: self.rows, what })
    }

    fn birth(&mut self, mut line: Line<'_>) -> Result<(), TraceError> {
        let number = line.decimal("the arena's number")?;
        let (kind, micro) = match line.word() {
            b"n" => ("non-class", false),
            b"m" => ("non-class", true),
            b"c" => ("class", false),
            _ => return Err(line.wrong("the arena's space: n, m or c")),
        };
        let loader = line.decimal("the class loader's number")?;
        line.end()?;
        if number != self.born {
            let what = format!(
                "arena {number} is born, but arenas are numbered in order and the next is {}",
                self.born
            );
            return self.contradiction(&line, what);
        }
        let row = self.out.tables.arenas.len() as u32;
        let policy = if loader == 0 {
            "boot"
        } else if micro {
            "reflection"
        } else {
            "standard"
        };
        let partner = self.loaders.remove(&loader);
        let partner =
            partner.filter(|partner| self.out.tables.arenas[*partner as usize].kind != kind);
        match partner {
            Some(partner) => self.out.tables.arenas[partner as usize].partner = Some(row),
            None => {
                self.loaders.insert(loader, row);
            }
        }
        let arena = Arena {
            kind: kind.into(),
            partner,
            loader: format!("loader {loader}"),
            growth_policy: policy.into(),
        };
        self.out.tables.arenas.push(arena);
        self.arenas.insert(number, Vec::new());
        self.born += 1;
        self.push(Event { op: Op::ArenaBirth, arena: row, object: row.into(), ..Event::default() })
    }

    fn allocate(&mut self, mut line: Line<'_>, flags: Flags) -> Result<(), TraceError> {
        let arena = line.decimal("the arena's number")?;
        let words = line.decimal("a count of words")?;
        let metadata_type = if flags.contains(Flags::FAILED) { None } else { decimal(line.word()) };
        line.end()?;
        let failed = flags.contains(Flags::FAILED);
        let number = self.allocations;
        self.allocations += u64::from(!failed);
        if !self.arenas.contains_key(&arena) {
            return self
                .contradiction(&line, format!("arena {arena} allocates, but it is not alive"));
        }
        if words > WORDS_MAX {
            return Err(line.wrong(format!("a request of at most {WORDS_MAX} words: no metaspace gives more than its root chunk of 16 MB")));
        }
        let size = words * WORD_BYTES;
        let stack = metadata_type.map_or(NO_STACK, |number| self.stack(number));
        let request = Event {
            op: Op::Alloc,
            flags,
            size,
            align_log2: WORD_LOG2,
            arena: arena as u32 + 1,
            stack,
            ..Event::default()
        };
        if failed {
            return self.push(request);
        }
        let object = self.objects;
        self.objects += 1;
        self.live.insert(number, (arena, object));
        self.arenas.entry(arena).or_default().push(number);
        self.push(Event { object, ..request })
    }

    /// The stack of a type of metadata.
    fn stack(&mut self, number: u64) -> StackId {
        if let Some(stack) = self.types.get(&number) {
            return *stack;
        }
        if self.types.len() >= TYPES_MAX {
            return NO_STACK;
        }
        let tables = &mut self.out.tables;
        tables
            .frames
            .push(Frame { function: Some(crate::log::type_name(number)), ..Frame::default() });
        tables.stacks.push(StackNode { parent: NO_STACK, frame: tables.frames.len() as u32 - 1 });
        let stack = tables.stacks.len() as u32 - 1;
        self.types.insert(number, stack);
        stack
    }

    fn deallocate(&mut self, mut line: Line<'_>) -> Result<(), TraceError> {
        let arena = line.decimal("the arena's number")?;
        line.decimal("a count of words")?;
        let word = line.word();
        line.end()?;
        if word == b"-1" {
            self.unknown += 1;
            return Ok(());
        }
        let Some(number) = decimal(word) else {
            return Err(line.wrong("the allocation's number, or -1"));
        };
        // JDKs of 24 and later give some blocks of one arena of a loader back to the other one.
        let row = |number: u64| {
            usize::try_from(number)
                .ok()
                .and_then(|number| self.out.tables.arenas.get(number.checked_add(1)?))
        };
        let partner = row(arena).and_then(|arena| arena.partner).map(|row| u64::from(row) - 1);
        let is_home = |home: u64| home == arena || partner == Some(home);
        let Some((_, object)) = self.live.get(&number).copied().filter(|(home, _)| is_home(*home))
        else {
            let what = format!(
                "allocation {number} is given back to arena {arena}, but it does not live there"
            );
            return self.contradiction(&line, what);
        };
        self.live.remove(&number);
        self.push(Event { op: Op::Free, object, arena: arena as u32 + 1, ..Event::default() })
    }

    fn death(&mut self, mut line: Line<'_>) -> Result<(), TraceError> {
        let number = line.decimal("the arena's number")?;
        line.end()?;
        let Some(members) = self.arenas.remove(&number) else {
            return self.contradiction(&line, format!("arena {number} dies, but it is not alive"));
        };
        for member in members {
            self.live.remove(&member);
        }
        let row = number as u32 + 1;
        self.push(Event { op: Op::ArenaDeath, arena: row, object: row.into(), ..Event::default() })
    }

    fn purge(&mut self, mut line: Line<'_>) -> Result<(), TraceError> {
        line.end()?;
        let row = self.out.tables.marks.len();
        self.out.tables.marks.push(Mark {
            name: format!("purge {}", row + 1),
            time_ns: self.time_ns,
            process: Some(0),
        });
        self.push(Event { op: Op::Trim, ..Event::default() })?;
        self.push(Event { op: Op::Mark, object: row as u64, ..Event::default() })
    }

    fn finish(mut self) -> Imported {
        let meta = &mut self.out.meta;
        meta.duration_ns = self.time_ns;
        meta.stack_depth = 1;
        meta.losses.push(kinds::UNKNOWN.into());
        if self.unknown > 0 {
            meta.losses.push(so_many(
                self.unknown,
                "[block was|blocks were] given back, but the trace does not know which",
            ));
        }
        if self.dropped > 0 {
            meta.losses.push(so_many(
                self.dropped,
                "[line contradicted those before it and was|lines contradicted those before them and were] dropped",
            ));
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Format, detect, import};
    use heaplab_trace::import::ImportOptions;
    use std::path::Path;

    pub(super) fn read(text: &str, lenient: bool) -> Result<(Vec<Event>, Imported), TraceError> {
        let mut events = Vec::new();
        let options = ImportOptions { name: "t.trace".into(), lenient };
        import(text.as_bytes(), None, &options, &mut events).map(|imported| (events, imported))
    }

    pub(super) const SMALL: &str = "#metaspace-trace 1 dt_us op args\n5 b 0 n 0\n0 b 1 c 0\n2 b 2 n 1\n0 a 2 10 7\n1 f 0 3 -1\n0 x 1 99\n1 d 2 10 0\n0 d 2 4 -1\n0 k 2\n3 p\n";

    #[test]
    fn every_operation_becomes_its_event() {
        assert_eq!(detect(SMALL.as_bytes()), Some(Format::Workload));
        let (events, imported) = read(SMALL, false).unwrap();
        let ops: Vec<Op> = events.iter().map(|event| event.op).collect();
        use Op::{Alloc, ArenaBirth, ArenaDeath, Free, Mark, Trim};
        assert_eq!(
            ops,
            [ArenaBirth, ArenaBirth, ArenaBirth, Alloc, Alloc, Alloc, Free, ArenaDeath, Trim, Mark]
        );
        let first = events[3];
        assert_eq!(
            (first.size, first.align_log2, first.arena, first.object, first.time_ns),
            (80, 3, 3, 0, 7_000)
        );
        assert!(events[5].has(Flags::FAILED));
        let arenas = &imported.tables.arenas;
        assert_eq!(
            (arenas[1].partner, arenas[2].partner, arenas[3].partner),
            (Some(2), Some(1), None)
        );
        let policies: Vec<&str> = arenas.iter().map(|arena| arena.growth_policy.as_str()).collect();
        assert_eq!(policies, ["", "boot", "boot", "standard"]);
        assert_eq!(imported.tables.frame_label(0), "Method");
        assert_eq!(imported.meta.losses.len(), 2, "{:?}", imported.meta.losses);
    }

    #[test]
    fn what_contradicts_itself_is_said_or_dropped_and_counted() {
        let start = "#metaspace-trace 1 dt_us op args\n0 b 0 n 0\n0 a 0 5 1\n";
        let cases = [
            (
                "0 k 0\n0 d 0 5 0\n",
                3,
                "line 5: allocation 0 is given back to arena 0, but it does not live there",
            ),
            ("0 k 0\n0 a 0 5 1\n", 3, "line 5: arena 0 allocates, but it is not alive"),
            ("0 k 7\n", 2, "line 4: arena 7 dies, but it is not alive"),
            (
                "0 b 7 n 1\n",
                2,
                "line 4: arena 7 is born, but arenas are numbered in order and the next is 1",
            ),
            ("0 d 0 5 0\n0 d 0 5 0\n", 3, "line 5: allocation 0 is given back"),
        ];
        for (rest, kept, expected) in cases {
            let text = format!("{start}{rest}");
            let (events, imported) = read(&text, false).unwrap();
            let said = imported.meta.cut.unwrap();
            assert!(said.contains(expected) && said.contains("--lenient"), "{said}");
            assert_eq!(events.len(), kept, "what came before it stays");
            let (_, imported) = read(&text, true).unwrap();
            assert!(
                imported
                    .meta
                    .losses
                    .iter()
                    .any(|loss| loss
                        .starts_with("1 line contradicted those before it and was dropped")),
                "{:?}",
                imported.meta.losses
            );
        }
        for (rest, expected) in [
            ("0 a 0 99999999999999999999 1\n", "a count of words"),
            ("0 a 0 99999999999 1\n", "at most 2097152 words"),
            ("0 x 0 2097153\n", "at most 2097152 words"),
            ("0 q\n", "an operation"),
            ("0 b 1 z 0\n", "n, m or c"),
            ("x\n", "microseconds"),
        ] {
            let (events, imported) = read(&format!("{start}{rest}0 k 0\n"), true).unwrap();
            let said = imported.meta.cut.unwrap();
            assert!(said.contains("line 4") && said.contains(expected), "{said}");
            assert_eq!(events.len(), 2);
        }
        let (events, _) = read(&format!("{start}0 a 0 2097152 1\n"), false).unwrap();
        assert_eq!(events[2].size, 16 << 20, "a whole root chunk is a request");
        for nothing in ["x\n", "0 k 0\n"] {
            let said = read(&format!("{HEADER}\n{nothing}"), false).unwrap_err().to_string();
            assert!(said.contains("line 2"), "nothing before it is worth keeping: {said}");
        }
    }

    #[test]
    fn a_line_that_breaks_off_is_not_believed() {
        let text = format!("{HEADER}\n0 b 0 n 0\n0 a 0 5 1\n0 b 1 n 1\n0 a 0 10 1\n");
        let (all, whole) = read(&text, false).unwrap();
        assert_eq!((all.len(), whole.meta.cut), (4, None));
        for length in text.find("0 a 0 10").unwrap() + 1..text.len() {
            let (events, mut imported) = read(&text[..length], false).unwrap();
            assert_eq!(events, all[..3]);
            let said = imported.meta.cut.clone().unwrap();
            assert!(said.contains("line 5") && said.contains("the trace was cut"), "{said}");
            // The whole trace's table may lie beside it.
            let table = "arena\n0,0,n,boot\n1,1,n,hidden\n2,2,n,standard\n";
            assert_eq!(name_kinds(&mut imported, table, Path::new("t.csv")).unwrap(), 2);
        }
    }

    #[test]
    fn a_dropped_allocation_keeps_its_number() {
        let text = "#metaspace-trace 1\n0 b 0 n 0\n0 a 5 1 -1\n0 a 0 2 -1\n0 d 0 2 1\n";
        let (events, _) = read(text, true).unwrap();
        assert_eq!((events[1].object, events[2].op, events[2].object), (0, Op::Free, 0));
    }

    #[test]
    fn the_recordings_are_imported_whole_with_the_kinds_of_their_table() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/metaspace");
        for (name, allocations, arenas, hidden) in
            [("churn", 428_116, 2606, 20), ("jruby", 213_023, 1482, 644)]
        {
            let file = std::fs::File::open(folder.join(format!("{name}.trace.gz"))).unwrap();
            let mut events = Vec::new();
            let mut imported =
                import(std::io::BufReader::new(file), None, &ImportOptions::default(), &mut events)
                    .unwrap();
            assert_eq!(events.iter().filter(|event| event.op == Op::Alloc).count(), allocations);
            assert_eq!(imported.tables.arenas.len(), arenas + 1);
            let table = std::fs::File::open(folder.join(format!("{name}.arenas.csv.gz"))).unwrap();
            let table = std::io::read_to_string(flate2::read::GzDecoder::new(table)).unwrap();
            assert_eq!(name_kinds(&mut imported, &table, Path::new("t")).unwrap(), arenas);
            assert_eq!(
                imported
                    .tables
                    .arenas
                    .iter()
                    .filter(|arena| arena.growth_policy == "hidden")
                    .count(),
                hidden
            );
            assert!(
                !imported.meta.losses.iter().any(|loss| loss.contains("kinds")),
                "{:?}",
                imported.meta.losses
            );
        }
    }
}
