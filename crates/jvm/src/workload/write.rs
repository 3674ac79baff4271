//! Writes the workload of a metaspace as `#metaspace-trace 1`. As text, a JVM's recording can be
//! handed on, cut and edited, and any reader of the format can replay it
//! (`studies/elastic-metaspace/whitebox` replays it into HotSpot itself).
//!
//! The format has arenas, words, types of metadata and time in microseconds. It has no room for
//! addresses, threads, names of loaders, chunks, marks other than purges, and requests served from
//! free blocks: every request becomes an `a` line. Loaders' kinds go to the table beside it
//! ([`Writer::finish`]); the trace itself tells only the first loader and micro loaders.
//!
//! Importing the text gives the same workload: the same arenas, partners and kinds, the same
//! requests with words, types and moments (to the microsecond), the same deaths, in the same order.

use super::{HEADER, WORD_BYTES, WORD_LOG2, WORDS_MAX};
use crate::log::type_number;
use hashbrown::HashMap;
use heaplab_trace::arena_members::ArenaMembers;
use heaplab_trace::tables::{OpName, Tables};
use heaplab_trace::{Event, EventSink, Flags, NO_STACK, ObjectId, Op, TraceError};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

/// Counts of the written rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Lines behind the header.
    pub lines: u64,
    /// Marks that the format has no line for.
    pub marks_left_out: u64,
    /// The table of the arenas' kinds, `arena,clms,space,kind`, for
    /// [`name_kinds`](super::name_kinds). It leaves out arenas of unknown kind.
    pub kinds: String,
}

/// Writes a workload. Takes **all** rows of the bundle in order and skips rows of other processes.
pub struct Writer<'t, W> {
    out: W,
    path: PathBuf,
    source: PathBuf,
    tables: &'t Tables,
    process: Option<u32>,
    rows: u64,
    /// Whether the last row that was written was a trim.
    is_after_trim: bool,
    /// Rows of `chunks` that were looked at.
    chunks: usize,
    written_us: u64,
    written: Written,
    /// Of each arena, by row: its number, and that of its loader.
    arenas: HashMap<u32, (u64, u64)>,
    loaders: u64,
    boot: bool,
    /// Of living objects: the number of their allocation, and words.
    live: HashMap<ObjectId, (u64, u64)>,
    /// Of living arenas, by row: objects that may live in them.
    members: ArenaMembers,
    allocations: u64,
}

impl<'t, W: Write> Writer<'t, W> {
    /// Begins. `path` is the output in errors, `source` the recording; `process`: whose rows to
    /// write, if there are several.
    pub fn new(
        mut out: W,
        path: PathBuf,
        source: PathBuf,
        tables: &'t Tables,
        process: Option<u32>,
    ) -> Result<Writer<'t, W>, TraceError> {
        writeln!(out, "{HEADER} dt_us op args").map_err(TraceError::io(&path, "write"))?;
        let written = Written { kinds: "arena,clms,space,kind\n".into(), ..Written::default() };
        Ok(Writer {
            out,
            path,
            source,
            tables,
            process,
            rows: 0,
            is_after_trim: false,
            chunks: 0,
            written_us: 0,
            written,
            arenas: HashMap::new(),
            loaders: 1,
            boot: false,
            live: HashMap::new(),
            members: ArenaMembers::default(),
            allocations: 0,
        })
    }

    /// Ends. Returns the sink and the counts.
    pub fn finish(mut self) -> Result<(W, Written), TraceError> {
        self.purges()?;
        self.out.flush().map_err(TraceError::io(&self.path, "write"))?;
        Ok((self.out, self.written))
    }

    fn line(&mut self, time_ns: u64, what: std::fmt::Arguments<'_>) -> Result<(), TraceError> {
        let us = time_ns / 1000;
        // Differences of whole microseconds, so that rounding errors do not add up.
        let passed = i128::from(us) - i128::from(std::mem::replace(&mut self.written_us, us));
        self.written.lines += 1;
        writeln!(self.out, "{passed} {what}").map_err(TraceError::io(&self.path, "write"))
    }

    /// Purges that the table of chunks has before the next row.
    fn purges(&mut self) -> Result<(), TraceError> {
        let tables = self.tables;
        while let Some(chunk) =
            tables.chunks.get(self.chunks).filter(|chunk| chunk.row <= self.rows)
        {
            self.chunks += 1;
            if chunk.op == OpName::TRIM
                && self.process.is_none_or(|process| process == chunk.process)
            {
                self.line(chunk.time_ns, format_args!("p"))?;
            }
        }
        Ok(())
    }

    /// The row is nothing that the format has.
    fn foreign(&self, expected: &str, found: String) -> TraceError {
        let place = format!("event {}", self.rows);
        TraceError::Malformed {
            path: self.source.clone(),
            place,
            expected: format!(
                "{expected}: only the workload of a metaspace can be written as {HEADER}"
            ),
            found,
        }
    }

    fn number(&self, event: &Event) -> Result<u64, TraceError> {
        let known = self.arenas.get(&event.arena).map(|(number, _)| *number);
        known.ok_or_else(|| {
            self.foreign(
                "an arena that was born",
                format!("{:?} in arena {}", event.op, event.arena),
            )
        })
    }

    fn birth(&mut self, event: &Event) -> Result<(), TraceError> {
        let Some(arena) = self.tables.arenas.get(event.arena as usize) else {
            return Err(
                self.foreign("a row of the table of arenas", format!("arena {}", event.arena))
            );
        };
        let micro = ["reflection", "micro"].contains(&arena.growth_policy.as_str());
        let space = match arena.kind.as_str() {
            "class" => "c",
            "non-class" if micro => "m",
            "non-class" => "n",
            other => {
                return Err(self.foreign(
                    "an arena of kind class or non-class",
                    format!("one of kind {other:?}"),
                ));
            }
        };
        let partner =
            arena.partner.and_then(|partner| self.arenas.get(&partner)).map(|(_, loader)| *loader);
        let loader = match partner {
            Some(loader) => loader,
            // Number 0 marks the boot loader.
            None if arena.growth_policy == "boot" && !std::mem::replace(&mut self.boot, true) => 0,
            None => {
                self.loaders += 1;
                self.loaders - 1
            }
        };
        let number = self.arenas.len() as u64;
        self.arenas.insert(event.arena, (number, loader));
        if ["boot", "standard", "hidden", "reflection", "micro"]
            .contains(&arena.growth_policy.as_str())
        {
            let space = if space == "c" { "c" } else { "n" };
            let _ =
                writeln!(self.written.kinds, "{number},{loader},{space},{}", arena.growth_policy);
        }
        self.line(event.time_ns, format_args!("b {number} {space} {loader}"))
    }

    fn allocate(&mut self, event: &Event) -> Result<(), TraceError> {
        let number = self.number(event)?;
        let (words, rest) = (event.size / WORD_BYTES, event.size % WORD_BYTES);
        if rest != 0 || words > WORDS_MAX || event.align_log2 > WORD_LOG2 {
            let found =
                format!("{} bytes aligned to {}", event.size, 1u64 << event.align_log2.min(63));
            return Err(self.foreign(
                &format!("a request of at most {WORDS_MAX} whole words, aligned to a word"),
                found,
            ));
        }
        if event.has(Flags::FAILED) {
            return self.line(event.time_ns, format_args!("x {number} {words}"));
        }
        self.live.insert(event.object, (self.allocations, words));
        let is_live = |object| self.live.contains_key(&object);
        self.members.born(event.arena, event.object, is_live);
        self.allocations += 1;
        match self.metadata_type(event) {
            Some(kind) => self.line(event.time_ns, format_args!("a {number} {words} {kind}")),
            None => self.line(event.time_ns, format_args!("a {number} {words} -1")),
        }
    }

    /// The type of metadata that the innermost frame names.
    fn metadata_type(&self, event: &Event) -> Option<u64> {
        let node =
            self.tables.stacks.get(event.stack as usize).filter(|_| event.stack != NO_STACK)?;
        type_number(self.tables.frames.get(node.frame as usize)?.function.as_deref()?)
    }

    fn free(&mut self, event: &Event) -> Result<(), TraceError> {
        let number = self.number(event)?;
        let Some((allocation, words)) = self.live.remove(&event.object) else {
            return Err(
                self.foreign("a living block", format!("a free of object {}", event.object))
            );
        };
        self.line(event.time_ns, format_args!("d {number} {words} {allocation}"))
    }

    fn death(&mut self, event: &Event) -> Result<(), TraceError> {
        let number = self.number(event)?;
        for member in self.members.died(event.arena) {
            self.live.remove(&member);
        }
        self.line(event.time_ns, format_args!("k {number}"))
    }
}

impl<W: Write> EventSink for Writer<'_, W> {
    fn push(&mut self, event: &Event) -> Result<(), TraceError> {
        self.purges()?;
        if self.process.is_none_or(|process| process == event.process) {
            match event.op {
                Op::ArenaBirth => self.birth(event),
                Op::Alloc => self.allocate(event),
                Op::Free => self.free(event),
                Op::ArenaDeath => self.death(event),
                Op::Trim => self.line(event.time_ns, format_args!("p")),
                Op::Mark => {
                    // Importing makes a trim and a mark of a purge, and the trim is written.
                    self.written.marks_left_out += u64::from(!self.is_after_trim);
                    Ok(())
                }
                other => Err(self.foreign(
                    "births, requests, blocks given back, deaths and marks",
                    format!("{other:?}"),
                )),
            }?;
            self.is_after_trim = event.op == Op::Trim;
        }
        self.rows += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::name_kinds;
    use super::super::tests::{SMALL, read};
    use super::*;
    use crate::ChunkOp;
    use crate::import::import;
    use heaplab_trace::import::{ImportOptions, Imported};
    use heaplab_trace::tables::{ChunkEvent, Mark};
    use std::path::Path;

    /// The workload as text, and its table of kinds.
    fn write(
        events: &[Event],
        imported: &Imported,
        process: Option<u32>,
    ) -> Result<(String, Written), TraceError> {
        let mut writer =
            Writer::new(Vec::new(), "out".into(), "in.heaplab".into(), &imported.tables, process)?;
        events.iter().try_for_each(|event| writer.push(event))?;
        let (text, written) = writer.finish()?;
        Ok((String::from_utf8(text).unwrap(), written))
    }

    #[test]
    fn what_was_imported_is_written_as_it_was() {
        // Without fields that the format repeats or lacks: who was served from free blocks, which
        // block was given back.
        let text = SMALL.replace(" f 0", " a 0").replace("0 d 2 4 -1\n", "");
        let (events, imported) = read(&text, false).unwrap();
        let (back, written) = write(&events, &imported, None).unwrap();
        assert_eq!(
            (back.as_str(), written.lines, written.marks_left_out),
            (text.as_str(), 10 - 1, 0)
        );
        assert_eq!(
            written.kinds,
            "arena,clms,space,kind\n0,0,n,boot\n1,0,c,boot\n2,1,n,standard\n"
        );
        // A trace whose first loader is a micro loader, whose class arena comes first, and whose
        // time stands still.
        let text = format!("{HEADER} dt_us op args\n0 b 0 m 1\n0 b 1 c 2\n0 b 2 n 2\n0 a 1 1 99\n");
        let (events, imported) = read(&text, false).unwrap();
        assert_eq!(write(&events, &imported, None).unwrap().0, text);
    }

    #[test]
    fn the_recordings_come_back_event_for_event() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/metaspace");
        for name in ["churn", "jruby"] {
            let open = |kind: &str| {
                std::io::BufReader::new(
                    std::fs::File::open(folder.join(format!("{name}.{kind}.gz"))).unwrap(),
                )
            };
            let mut events = Vec::new();
            let mut imported =
                import(open("trace"), None, &ImportOptions::default(), &mut events).unwrap();
            let table =
                std::io::read_to_string(flate2::read::GzDecoder::new(open("arenas.csv"))).unwrap();
            name_kinds(&mut imported, &table, Path::new("t")).unwrap();
            let (text, written) = write(&events, &imported, None).unwrap();
            let (again, mut back) = read(&text, false).unwrap();
            assert_eq!(again.len(), events.len());
            let differs = events.iter().zip(&again).position(|(one, other)| {
                Event { time_ns: 0, ..*one } != Event { time_ns: 0, ..*other }
            });
            assert_eq!(differs.map(|at| (events[at], again[at])), None);
            assert!(events.iter().zip(&again).all(|(one, other)| one.time_ns == other.time_ns));
            assert_eq!(
                name_kinds(&mut back, &written.kinds, Path::new("t")).unwrap(),
                imported.tables.arenas.len() - 1
            );
            let shape = |tables: &Tables| -> Vec<(String, Option<u32>, String)> {
                tables
                    .arenas
                    .iter()
                    .map(|arena| (arena.kind.clone(), arena.partner, arena.growth_policy.clone()))
                    .collect()
            };
            assert_eq!(shape(&back.tables), shape(&imported.tables));
            assert_eq!(
                (&back.tables.frames, &back.tables.stacks),
                (&imported.tables.frames, &imported.tables.stacks)
            );
            assert_eq!(write(&again, &back, None).unwrap().0, text, "and the text stays");
        }
    }

    #[test]
    fn what_is_given_back_to_a_loaders_other_arena_comes_back_too() {
        let text = format!(
            "{HEADER} dt_us op args\n0 b 0 n 1\n0 b 1 c 1\n0 b 2 n 2\n0 a 1 4 -1\n0 d 0 4 0\n"
        );
        let (events, imported) = read(&text, false).unwrap();
        assert_eq!(
            (events[4].op, events[4].object, events[4].arena, &imported.meta.cut),
            (Op::Free, 0, 1, &None)
        );
        assert_eq!(write(&events, &imported, None).unwrap().0, text);
        assert!(
            read(&text.replace("d 0", "d 2"), false)
                .unwrap()
                .1
                .meta
                .cut
                .unwrap()
                .contains("does not live there")
        );
    }

    #[test]
    fn what_is_no_metaspace_s_is_refused_and_named() {
        let (_, imported) = read(SMALL, false).unwrap();
        let birth = Event { op: Op::ArenaBirth, arena: 1, ..Event::default() };
        let alloc = Event { op: Op::Alloc, arena: 1, size: 16, align_log2: 3, ..Event::default() };
        for (event, expected) in [
            (Event { arena: 0, ..alloc }, "event 1: expected an arena that was born"),
            (Event { size: 13, ..alloc }, "found 13 bytes aligned to 8"),
            (Event { align_log2: 4, ..alloc }, "found 16 bytes aligned to 16"),
            (Event { size: (16 << 20) + 8, ..alloc }, "at most 2097152 whole words"),
            (Event { op: Op::Realloc, ..alloc }, "found Realloc"),
            (Event { op: Op::Free, object: 5, ..alloc }, "found a free of object 5"),
            (Event { op: Op::ArenaBirth, arena: 0, ..alloc }, "one of kind \"malloc\""),
            (Event { op: Op::ArenaBirth, arena: 77, ..alloc }, "a row of the table of arenas"),
        ] {
            let said = write(&[birth, event], &imported, None).unwrap_err().to_string();
            assert!(
                said.starts_with("in.heaplab: event 1")
                    && said.contains(expected)
                    && said.contains("only the workload of a metaspace"),
                "{said}"
            );
        }
    }

    #[test]
    fn one_process_is_written_with_its_own_purges_and_numbers() {
        let (_, mut imported) = read(SMALL, false).unwrap();
        let purge = |row, process| ChunkEvent {
            op: ChunkOp::Purge.into(),
            row,
            process,
            time_ns: 9_000,
            ..ChunkEvent::default()
        };
        imported.tables.chunks = vec![
            purge(0, 1),
            purge(3, 0),
            purge(4, 1),
            ChunkEvent { row: 5, ..ChunkEvent::default() },
            purge(6, 1),
        ];
        imported.tables.marks.push(Mark { name: "loaded".into(), ..Mark::default() });
        let at = |process, event: Event| Event { process, time_ns: 9_999, ..event };
        let birth =
            |process, arena| at(process, Event { op: Op::ArenaBirth, arena, ..Event::default() });
        let alloc = |process, arena, object| {
            at(process, Event { op: Op::Alloc, arena, object, size: 8, ..Event::default() })
        };
        let mark = at(1, Event { op: Op::Mark, object: 1, ..Event::default() });
        let free = at(1, Event { op: Op::Free, arena: 3, object: 1, ..Event::default() });
        let events = [birth(0, 1), alloc(0, 1, 0), birth(1, 3), alloc(1, 3, 1), mark, free];
        let (text, written) = write(&events, &imported, Some(1)).unwrap();
        let body: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(body, ["9 p", "0 b 0 n 1", "0 a 0 1 -1", "0 p", "0 d 0 1 0", "0 p"]);
        assert_eq!(
            (written.lines, written.marks_left_out, written.kinds.lines().nth(1)),
            (6, 1, Some("0,1,n,standard"))
        );
    }
}
