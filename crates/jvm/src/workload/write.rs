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
