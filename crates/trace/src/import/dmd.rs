//! Firefox's DMD (dark matter detector): live blocks with the stacks of their allocation and of
//! the memory reporters that name them, as JSON (memory/replace/dmd, versions 1 to 5).
//!
//! The file is one moment, so the bundle is births, a question to the reporters, their answers.
//! Frames are text; `#01: foo(int) (bar.cpp:12)` and `#01: foo[libxul.so +0x12]` become function,
//! file, line, module and offset.

use super::{ImportOptions, Imported};
use crate::bundle::Meta;
use crate::program::SIZE_MAX;
use crate::tables::{Arena, Frame, Mark, Module, Process, StackNode, Tables, Thread};
use crate::{
    Event, EventSink, FREED_BY_PROGRAM, Op, REPORTERS_ANSWERED, REPORTERS_ASKED, StackId,
    TraceError,
};
use heaplab_text::words::so_many;
use serde::Deserialize;
use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::ops::Range;

/// Longest file, expanded.
const BYTES_MAX: u64 = 1 << 30;
/// Blocks of a file: one row with `num` stands for many.
const BLOCKS_MAX: u64 = 8 << 20;
/// Reports of all blocks: each is a row.
const REPORTS_MAX: u64 = 16 << 20;
/// DMD walks at most 24 frames.
const FRAMES_MAX: usize = 256;

#[derive(Deserialize)]
struct File {
    version: u64,
    #[serde(default)]
    invocation: Invocation,
    #[serde(rename = "blockList")]
    blocks: Vec<Block>,
    #[serde(rename = "traceTable")]
    traces: HashMap<String, Vec<String>>,
    #[serde(rename = "frameTable")]
    frames: HashMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Invocation {
    /// Version 1 knows no other mode than that of dark matter.
    mode: Option<String>,
    /// Before version 5: a block without a size stands for so many bytes.
    #[serde(rename = "sampleBelowSize")]
    sampled_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct Block {
    /// None: a sampled block of [`Invocation::sampled_bytes`].
    req: Option<u64>,
    #[serde(default)]
    slop: u64,
    alloc: Option<Box<str>>,
    #[serde(default)]
    reps: Vec<Box<str>>,
    num: Option<u64>,
}

/// Imports.
pub fn import<S: EventSink>(
    input: impl BufRead,
    options: &ImportOptions,
    sink: &mut S,
) -> Result<Imported, TraceError> {
    let file = read(input, options)?;
    let mut names = Names::new(options, &file);
    let mut reported = Vec::new();
    let (mut born, mut reports, mut sampled) = (0_u64, 0_u64, 0_u64);
    for (row, block) in file.blocks.iter().enumerate() {
        let place = || format!("block {row} of blockList");
        let size = block.req.or(file.invocation.sampled_bytes);
        let size = size.ok_or_else(|| {
            malformed(options, place(), "a size (req)", "neither it nor sampleBelowSize".into())
        })?;
        let usable = size.checked_add(block.slop).filter(|usable| *usable <= SIZE_MAX);
        let usable = usable.ok_or_else(|| {
            let found = size.max(block.slop);
            limit_of(options, place(), "size of a block", found, SIZE_MAX)
        })?;
        let count = block.num.unwrap_or(1);
        if count == 0 {
            return Err(malformed(options, place(), "a number of blocks (num) from 1", "0".into()));
        }
        if count > BLOCKS_MAX - born {
            let all = born.saturating_add(count);
            return Err(limit_of(options, place(), "number of blocks", all, BLOCKS_MAX));
        }
        sampled += if block.req.is_none() { count } else { 0 };
        let stack = block.alloc.as_deref().map_or(Ok(0), |id| names.stack(id, row))?;
        let named = block.reps.iter().map(|id| names.stack(id, row));
        let named = named.collect::<Result<Vec<_>, _>>()?;
        reports = count.saturating_mul(named.len() as u64).saturating_add(reports);
        if reports > REPORTS_MAX {
            let what = "number of reports";
            return Err(limit_of(options, place(), what, reports, REPORTS_MAX));
        }
        if !named.is_empty() {
            reported.push((born..born + count, named));
        }
        for _ in 0..count {
            sink.push(&Event {
                op: Op::Alloc,
                object: born,
                size,
                usable,
                stack,
                ..Event::default()
            })?;
            born += 1;
        }
    }
    let is_asked = file.invocation.mode.as_deref().is_none_or(|mode| mode == "dark-matter");
    if is_asked && born > 0 {
        sink.push(&Event { op: Op::Mark, object: 0, ..Event::default() })?;
        for (object, stacks) in reported.iter().flat_map(each_object) {
            for &stack in stacks {
                sink.push(&Event { op: Op::Report, object, stack, ..Event::default() })?;
            }
        }
        sink.push(&Event { op: Op::Mark, object: 1, ..Event::default() })?;
        let mark = |name: &str| Mark { name: name.into(), time_ns: 0, process: Some(0) };
        names.tables.marks = vec![mark(REPORTERS_ASKED), mark(REPORTERS_ANSWERED)];
    }
    let mut imported = names.done();
    if let Some(bytes) = file.invocation.sampled_bytes.filter(|_| sampled > 0) {
        let blocks = so_many(sampled, "sampled [block|blocks]");
        imported.meta.losses.push(format!("{blocks} of {bytes} bytes, by DMD's estimate"));
    }
    Ok(imported)
}

/// The objects of a row with the stacks of its reports.
fn each_object(
    (objects, stacks): &(Range<u64>, Vec<StackId>),
) -> impl Iterator<Item = (u64, &[StackId])> {
    objects.clone().map(|object| (object, &stacks[..]))
}

/// The file as it stands, its version and mode looked at.
fn read(input: impl BufRead, options: &ImportOptions) -> Result<File, TraceError> {
    let mut text = Vec::new();
    let all = input.take(BYTES_MAX + 1).read_to_end(&mut text);
    let length = all.map_err(TraceError::io(&options.name, "read"))? as u64;
    if length > BYTES_MAX {
        let place = "its end".to_owned();
        return Err(limit_of(options, place, "number of bytes", length, BYTES_MAX));
    }
    let file: File = serde_json::from_slice(&text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        malformed(options, place, "the JSON that DMD writes, whole", error.to_string())
    })?;
    if !(1..=5).contains(&file.version) {
        return Err(TraceError::Version {
            path: options.name.clone(),
            found: file.version.to_string(),
            supported: "1 to 5 of DMD".into(),
        });
    }
    let mode = file.invocation.mode.as_deref().unwrap_or("dark-matter");
    if !["dark-matter", "live", "scan"].contains(&mode) {
        let expected = "mode dark-matter, live or scan (cumulative has what was freed, too: run \
                        Firefox with DMD=--mode=dark-matter)";
        return Err(malformed(options, "invocation".into(), expected, format!("mode {mode:?}")));
    }
    Ok(file)
}

fn malformed(options: &ImportOptions, place: String, expected: &str, found: String) -> TraceError {
    TraceError::Malformed { path: options.name.clone(), place, expected: expected.into(), found }
}

fn limit_of(
    options: &ImportOptions,
    place: String,
    what: &'static str,
    found: u64,
    limit: u64,
) -> TraceError {
    TraceError::Limit { path: options.name.clone(), place, what, found, limit }
}

/// The tables as they grow.
struct Names<'f> {
    options: &'f ImportOptions,
    file: &'f File,
    tables: Tables,
    /// The rows of the file's traces and frames.
    traces: HashMap<&'f str, StackId>,
    frames: HashMap<&'f str, u32>,
    nodes: HashMap<(StackId, u32), StackId>,
    modules: HashMap<String, u32>,
    deepest: usize,
}

impl<'f> Names<'f> {
    fn new(options: &'f ImportOptions, file: &'f File) -> Names<'f> {
        let tables = Tables {
            stacks: vec![StackNode::default()],
            arenas: vec![Arena { kind: "malloc".into(), ..Arena::default() }],
            processes: vec![Process::default()],
            threads: vec![Thread::default()],
            ..Tables::default()
        };
        let (traces, frames, nodes) = (HashMap::new(), HashMap::new(), HashMap::new());
        Names { options, file, tables, traces, frames, nodes, modules: HashMap::new(), deepest: 0 }
    }

    /// The row of a trace that block `row` names.
    fn stack(&mut self, id: &str, row: usize) -> Result<StackId, TraceError> {
        if let Some(stack) = self.traces.get(id) {
            return Ok(*stack);
        }
        let Some((id, trace)) = self.file.traces.get_key_value(id) else {
            let place = format!("block {row} of blockList");
            let found = format!("{id:?}, which is not there");
            return Err(malformed(self.options, place, "a trace of traceTable", found));
        };
        if trace.len() > FRAMES_MAX {
            let (place, found) = (format!("trace {id:?}"), trace.len() as u64);
            let limit = FRAMES_MAX as u64;
            return Err(limit_of(self.options, place, "number of frames", found, limit));
        }
        self.deepest = self.deepest.max(trace.len());
        let mut stack = 0;
        for frame in trace.iter().rev() {
            let frame = self.frame(frame, id)?;
            let stacks = &mut self.tables.stacks;
            stack = *self.nodes.entry((stack, frame)).or_insert_with(|| {
                stacks.push(StackNode { parent: stack, frame });
                stacks.len() as StackId - 1
            });
        }
        self.traces.insert(id, stack);
        Ok(stack)
    }

    fn frame(&mut self, id: &str, trace: &str) -> Result<u32, TraceError> {
        if let Some(row) = self.frames.get(id) {
            return Ok(*row);
        }
        let Some((id, text)) = self.file.frames.get_key_value(id) else {
            let (place, found) =
                (format!("trace {trace:?}"), format!("{id:?}, which is not there"));
            return Err(malformed(self.options, place, "a frame of frameTable", found));
        };
        let Described { function, place } = described(text);
        let mut frame = Frame { function: function.map(Into::into), ..Frame::default() };
        match place {
            Place::Source(file, line) => (frame.file, frame.line) = (Some(file.into()), line),
            Place::Module(path, offset) => {
                frame.module = Some(self.module(path));
                frame.address = offset;
            }
            Place::None => {}
        }
        let row = self.tables.frames.len() as u32;
        self.tables.frames.push(frame);
        self.frames.insert(id, row);
        Ok(row)
    }

    fn module(&mut self, path: &str) -> u32 {
        if let Some(row) = self.modules.get(path) {
            return *row;
        }
        let row = self.tables.modules.len() as u32;
        self.tables.modules.push(Module { path: path.into(), ..Module::default() });
        self.modules.insert(path.into(), row);
        row
    }

    fn done(self) -> Imported {
        let program = self.options.name.to_string_lossy().into_owned();
        let meta = Meta {
            program,
            death_rule: FREED_BY_PROGRAM.into(),
            stack_depth: self.deepest as u32,
            ..Meta::default()
        };
        Imported { tables: self.tables, meta }
    }
}

/// What a frame's text says.
#[derive(Debug, PartialEq, Eq)]
struct Described<'t> {
    function: Option<&'t str>,
    place: Place<'t>,
}

#[derive(Debug, PartialEq, Eq)]
enum Place<'t> {
    None,
    Source(&'t str, u32),
    Module(&'t str, u64),
}

/// `#01: function (file:line)`, `#01: function[module +0x12]`, either place in either brackets.
fn described(text: &str) -> Described<'_> {
    let numbered = text.strip_prefix('#').and_then(|rest| rest.split_once(": "));
    let text = numbered
        .filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(text, |(_, rest)| rest)
        .trim();
    let known = |function: &'_ str| !function.is_empty() && function != "???";
    let split = last_brackets(text);
    let placed = split.and_then(|(function, within)| Some((function.trim_end(), place(within)?)));
    let (function, place) = placed.unwrap_or((text, Place::None));
    Described { function: Some(function).filter(|function| known(function)), place }
}

/// What stands before the last brackets, and within them.
fn last_brackets(text: &str) -> Option<(&str, &str)> {
    let (open, close) = match text.as_bytes().last()? {
        b')' => (b'(', b')'),
        b']' => (b'[', b']'),
        _ => return None,
    };
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate().rev() {
        if byte == close {
            depth += 1;
        } else if byte == open {
            depth -= 1;
            if depth == 0 {
                return Some((&text[..at], &text[at + 1..text.len() - 1]));
            }
        }
    }
    None
}

fn place(within: &str) -> Option<Place<'_>> {
    if let Some((module, offset)) = within.rsplit_once('+') {
        let digits = offset.trim_start().strip_prefix("0x")?;
        let module = module.trim_end();
        return (!module.is_empty())
            .then(|| u64::from_str_radix(digits, 16).ok())
            .flatten()
            .map(|offset| Place::Module(module, offset));
    }
    let (file, line) = within.rsplit_once(':')?;
    let line = line.parse().ok().filter(|line| *line > 0)?;
    (!file.is_empty()).then_some(Place::Source(file, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r##"{"version": 5,
 "invocation": {"dmdEnvVar": "--mode=dark-matter", "mode": "dark-matter"},
 "blockList": [
  {"req": 3584, "slop": 512, "alloc": "A", "reps": ["B"]},
  {"req": 100, "alloc": "A", "num": 3},
  {"req": 64, "alloc": "B", "reps": ["A", "B"]},
  {"req": 8}
 ],
 "traceTable": {"A": ["D", "E"], "B": ["F", "E"]},
 "frameTable": {"D": "#00: foo(int) (Foo.cpp:123)", "E": "#00: main[app +0x12]", "F": "#00: ??? (lib.so + 0xab)"}
}"##;

    fn imported(text: &str) -> Result<(Vec<Event>, Imported), TraceError> {
        let options = ImportOptions { name: "dmd.json".into(), ..ImportOptions::default() };
        let mut events: Vec<Event> = Vec::new();
        let done = super::super::import(text.as_bytes(), None, &options, &mut events)?;
        let mut checker = crate::order::OrderChecker::new("imported", &done.tables);
        events.iter().for_each(|event| checker.check(event).unwrap());
        Ok((events, done))
    }

    #[test]
    fn blocks_are_born_and_reported_with_their_stacks() {
        let (events, done) = imported(FILE).unwrap();
        let of = |op| events.iter().filter(move |event| event.op == op);
        let births: Vec<_> = of(Op::Alloc).map(|event| (event.size, event.usable)).collect();
        assert_eq!(births, [(3584, 4096), (100, 100), (100, 100), (100, 100), (64, 64), (8, 8)]);
        assert_eq!(of(Op::Report).map(|event| event.object).collect::<Vec<_>>(), [0, 4, 4]);
        assert_eq!((of(Op::Mark).count(), events[5].stack), (2, 0));
        let label = |stack| done.tables.frames_of(stack).map(|row| done.tables.frame_label(row));
        assert_eq!(label(events[0].stack).collect::<Vec<_>>(), ["foo(int)", "main"]);
        assert_eq!(
            done.tables.frames[events[0].stack as usize - 1].file.as_deref(),
            Some("Foo.cpp")
        );
        assert!(label(events[4].stack).next().unwrap().starts_with("lib.so"));
        assert_eq!(done.meta.stack_depth, 2);
    }

    #[test]
    fn a_sampled_block_of_an_old_file_has_dmds_estimate() {
        let old = FILE
            .replace("\"version\": 5", "\"version\": 4")
            .replace("\"mode\": \"d", "\"sampleBelowSize\": 2500, \"mode\": \"d")
            .replace("{\"req\": 8}", "{\"alloc\": \"B\", \"num\": 2}");
        let (events, done) = imported(&old).unwrap();
        let sampled = events.iter().filter(|event| (event.size, event.usable) == (2500, 2500));
        assert_eq!(sampled.count(), 2);
        let said = "2 sampled blocks of 2500 bytes, by DMD's estimate";
        assert_eq!(done.meta.losses, [said]);
        let without = old.replace("\"sampleBelowSize\": 2500, ", "");
        let words = imported(&without).unwrap_err().to_string();
        assert!(words.contains("block 3 of blockList: expected a size (req)"), "{words}");
    }

    #[test]
    fn frames_are_read_in_each_way_that_they_are_written() {
        let read = |text| {
            let Described { function, place } = described(text);
            (function, place)
        };
        let source = Place::Source("../dmd/DMD.cpp", 1110);
        assert_eq!(
            read("#01: replace_realloc(void*, unsigned long) [../dmd/DMD.cpp:1110]"),
            (Some("replace_realloc(void*, unsigned long)"), source)
        );
        assert_eq!(
            read("#03: Run() (bin/Smoke + 0x21f9)"),
            (Some("Run()"), Place::Module("bin/Smoke", 0x21f9))
        );
        assert_eq!(read("#00: ???[libxul.so +0x12]"), (None, Place::Module("libxul.so", 0x12)));
        assert_eq!(
            read("operator new[](unsigned long)"),
            (Some("operator new[](unsigned long)"), Place::None)
        );
        assert_eq!(read("#00: )"), (Some(")"), Place::None));
        assert_eq!(read(""), (None, Place::None));
    }

    #[test]
    fn what_dmd_never_writes_is_refused_with_its_place() {
        for (from, to, said) in [
            ("\"version\": 5", "\"version\": 6", "format version 6"),
            ("\"mode\": \"dark-matter\"", "\"mode\": \"cumulative\"", "invocation: expected mode"),
            ("\"alloc\": \"B\"", "\"alloc\": \"X\"", "block 2 of blockList: expected a trace"),
            ("[\"F\", \"E\"]", "[\"Y\"]", "trace \"B\": expected a frame"),
            ("\"num\": 3", "\"num\": 0", "block 1 of blockList: expected a number"),
            ("\"num\": 3", "\"num\": 99999999999", "number of blocks is 100000000000"),
            (
                "\"reps\": [\"A\", \"B\"]",
                "\"num\": 8000000, \"reps\": [\"A\", \"B\", \"A\"]",
                "block 2 of blockList: number of reports is 24000001",
            ),
            ("\"req\": 8", "\"req\": -8", "line 7"),
            ("\"req\": 8", "\"req\": 18446744073709551615", "size of a block"),
        ] {
            assert!(FILE.contains(from), "{from}");
            let words = imported(&FILE.replace(from, to)).unwrap_err().to_string();
            assert!(words.starts_with("dmd.json: ") && words.contains(said), "{words}");
        }
        let cut = imported(&FILE[..200]).unwrap_err().to_string();
        assert!(cut.contains("EOF") && cut.contains("the JSON that DMD writes, whole"), "{cut}");
    }
}
