//! heap-replay-text 1, both ways.
//!
//! A header line beginning with `#`, then one event a line: `a size stack tid`, `c size stack tid`
//! (calloc), `m size stack tid` (aligned; the alignment is missing), `r back size stack tid`,
//! `f back tid`. Every a, c, m and r takes the next number; `back` is how many numbers ago the
//! object got its present number, so no address names anything. Stacks and threads are opaque
//! numbers. Source: the header of the recordings in that format.
//!
//! Collected heaps need more lines. Four have a thread or none: `gc` (the program forces a full
//! collection), `gc-young` (one of the young generation), `trim` (the heap is to give memory back)
//! and `p back` (the recorded heap promoted the object). `A size stack tid` is `a` for an object
//! born in the old generation, `h size stack tid` for the hidden class of other objects (V8: a
//! map). A comment `# death-rule: RULE` in the head names one of the bundles' death rules.
//!
//! Deviation: `-` stands for a missing stack, both written and read.

use super::Imported;
use super::import_state::{Book, Request};
use super::lines::{Line, Lines, decimal};
use crate::tables::{Frame, StackNode};
use crate::{BY_REACHABILITY, FREED_BY_PROGRAM, NOTICED_AT_COLLECTION};
use crate::{Event, EventSink, Family, Flags, NO_STACK, ObjectId, Op, Origin, StackId, TraceError};
use hashbrown::HashMap;
use std::io::{BufRead, Write};

/// Start of the first line; the version follows.
const HEADER: &[u8] = b"# heap-replay-text ";

/// Start of a line that names the death rule.
const DEATH_RULE: &[u8] = b"# death-rule:";

/// The writer's assumption for aligned requests: the format lacks the alignment.
const ASSUMED_ALIGNMENT: u64 = 16;

/// Imports the trace.
pub fn import<R: BufRead, S: EventSink>(
    lines: &mut Lines<R>,
    mut book: Book<S>,
) -> Result<Imported, TraceError> {
    let mut stacks = HashMap::new();
    let mut numbers = 0u64;
    let mut aligned = 0u64;
    while lines.advance()? {
        let mut line = lines.line();
        if line.whole()[0] == b'#' {
            known_version(&line)?;
            if let Some(rule) = death_rule(&line, numbers)? {
                book.out.meta.death_rule = rule.into();
            }
            continue;
        }
        let kind = line.word();
        if let Some((_, op)) = ASKED.iter().find(|(word, _)| *word == kind) {
            let who = book.who(0, thread_or_first(&mut line)?);
            book.ask(who, *op)?;
            continue;
        }
        let back = match kind {
            b"r" | b"f" | b"p" => Some(earlier(&mut line, numbers)?),
            _ => None,
        };
        if let (b"f" | b"p", Some(back)) = (kind, back) {
            let tid =
                if kind == b"p" { thread_or_first(&mut line)? } else { line.decimal("a thread")? };
            line.end()?;
            let who = book.who(0, tid);
            if kind == b"f" {
                book.free(who, back, &line)?
            } else {
                book.promote(who, back, &line)?
            }
            continue;
        }
        if !matches!(kind, b"a" | b"A" | b"h" | b"c" | b"m" | b"r") {
            return Err(line.wrong(
                "a line of heap-replay-text: a, A, h, c, m, r, f, p, gc, gc-young or trim",
            ));
        }
        let size = line.decimal("a size")?;
        let stack = stack(&mut line, &mut stacks, &mut book)?;
        let tid = line.decimal("a thread")?;
        line.end()?;
        aligned += u64::from(kind == b"m");
        let alignment = if kind == b"m" { ASSUMED_ALIGNMENT } else { 0 };
        let request = Request {
            size,
            alignment,
            zeroed: kind == b"c",
            old: kind == b"A",
            hidden_class: kind == b"h",
            stack,
            address: 0,
        };
        let who = book.who(0, tid);
        numbers += 1;
        match back {
            Some(old) => book.reallocate(who, old, Some(numbers), request, &line)?,
            None => book.allocate(who, Some(numbers), request, &line)?,
        }
    }
    if aligned > 0 {
        book.out
            .meta
            .losses
            .push(format!("the trace does not say the alignment of {aligned} aligned requests: {ASSUMED_ALIGNMENT} is assumed"));
    }
    book.out.meta.stack_depth = u32::from(!stacks.is_empty());
    Ok(book.finish())
}

/// Comments have no meaning except the header: a header of another version is not for this reader.
fn known_version(line: &Line) -> Result<(), TraceError> {
    let Some(rest) = line.whole().strip_prefix(HEADER) else { return Ok(()) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if &rest[..digits] == b"1" {
        Ok(())
    } else {
        Err(line.wrong("heap-replay-text 1, the version that this heaplab reads"))
    }
}

/// Words that make a request to the heap as a whole.
const ASKED: [(&[u8], Op); 3] =
    [(b"gc", Op::Collect), (b"gc-young", Op::CollectYoung), (b"trim", Op::Trim)];

/// The line's thread; without one, 1.
fn thread_or_first(line: &mut Line) -> Result<u64, TraceError> {
    let word = line.word();
    let tid = if word.is_empty() { Some(1) } else { decimal(word) };
    line.end()?;
    tid.ok_or_else(|| line.wrong("a thread, a decimal number, or nothing"))
}

/// The death rule in a comment line. Rules decide what a free means, so this line comes before all
/// events.
fn death_rule<'a>(line: &Line<'a>, numbers: u64) -> Result<Option<&'static str>, TraceError> {
    let Some(named) = line.whole().strip_prefix(DEATH_RULE) else { return Ok(None) };
    let rules = [FREED_BY_PROGRAM, NOTICED_AT_COLLECTION, BY_REACHABILITY];
    match rules.into_iter().find(|rule| rule.as_bytes() == named.trim_ascii()) {
        Some(_) if numbers > 0 => Err(line.wrong("the death rule before the first allocation")),
        Some(rule) => Ok(Some(rule)),
        None => Err(line.wrong(format!("a death rule: {}", rules.join(", or ")))),
    }
}

/// The number that the line's `back` refers to.
fn earlier(line: &mut Line, numbers: u64) -> Result<u64, TraceError> {
    let back = line.decimal("how many allocations ago")?;
    match (numbers + 1).checked_sub(back) {
        Some(number) if number >= 1 && back >= 1 => Ok(number),
        _ if numbers == 0 => Err(line.wrong("an allocation first: nothing was allocated yet")),
        _ => Err(line.wrong(format!("at most {numbers} allocations ago, 1 is the newest"))),
    }
}

fn stack<S: EventSink>(
    line: &mut Line,
    stacks: &mut HashMap<u64, StackId>,
    book: &mut Book<S>,
) -> Result<StackId, TraceError> {
    let word = line.word();
    if word == b"-" {
        return Ok(NO_STACK);
    }
    let number = decimal(word).ok_or_else(|| line.wrong("a stack, a decimal number"))?;
    Ok(*stacks.entry(number).or_insert_with(|| {
        let tables = &mut book.out.tables;
        tables.frames.push(Frame { function: Some(format!("stack {number}")), ..Frame::default() });
        tables.stacks.push(StackNode { parent: 0, frame: tables.frames.len() as u32 - 1 });
        tables.stacks.len() as u32 - 1
    }))
}

/// Writes events as heap-replay-text. Events without a line in the format (failed requests, marks,
/// arenas, references, the recorded heap's own collections, copies of a forked child) are left out
/// and counted.
#[derive(Debug)]
pub struct TextWriter<W> {
    out: W,
    path: std::path::PathBuf,
    tids: Vec<u32>,
    present: HashMap<ObjectId, u64, xxhash_rust::xxh3::Xxh3DefaultBuilder>,
    numbers: u64,
    left_out: u64,
}

impl<W: Write> TextWriter<W> {
    /// Begins; `path` names the output in errors, `tids` names each row of `threads`, `death_rule`
    /// is the bundle's.
    pub fn new(
        mut out: W,
        path: impl Into<std::path::PathBuf>,
        tids: Vec<u32>,
        death_rule: &str,
    ) -> Result<TextWriter<W>, TraceError> {
        let path = path.into();
        let header = "# heap-replay-text 1: a size stack tid | c size stack tid (calloc) | m size stack tid (aligned) | \
                      r back size stack tid | f back tid ; back = allocations ago";
        writeln!(out, "{header}").map_err(TraceError::io(&path, "write"))?;
        if [NOTICED_AT_COLLECTION, BY_REACHABILITY].contains(&death_rule) {
            writeln!(out, "# death-rule: {death_rule}").map_err(TraceError::io(&path, "write"))?;
        }
        Ok(TextWriter { out, path, tids, present: HashMap::default(), numbers: 0, left_out: 0 })
    }

    /// Returns the output, and the number of events without a line.
    pub fn finish(mut self) -> Result<(W, u64), TraceError> {
        self.out.flush().map_err(TraceError::io(&self.path, "write"))?;
        Ok((self.out, self.left_out))
    }

    fn line(&mut self, event: &Event) -> std::io::Result<()> {
        let tid = self.tids.get(event.thread as usize).copied().unwrap_or(event.thread);
        let back = |numbers: u64, number: u64| numbers + 1 - number;
        let kind = match (event.op, event.family, event.counts()) {
            (Op::Free, _, true) => {
                let Some(number) = self.present.remove(&event.object) else {
                    return self.leave_out();
                };
                return writeln!(self.out, "f {} {tid}", back(self.numbers, number));
            }
            (Op::Realloc, _, true) => {
                let Some(number) = self.present.get(&event.object) else { return self.leave_out() };
                write!(self.out, "r {}", back(self.numbers, *number))?;
                ""
            }
            (Op::Promote, _, true) => {
                let Some(number) = self.present.get(&event.object) else { return self.leave_out() };
                return writeln!(self.out, "p {} {tid}", back(self.numbers, *number));
            }
            (Op::Collect | Op::CollectYoung | Op::Trim, _, _) => {
                let word =
                    ASKED.iter().find(|(_, op)| *op == event.op).map_or(&b""[..], |(word, _)| word);
                return writeln!(self.out, "{} {tid}", word.escape_ascii());
            }
            (Op::Alloc, _, true) if event.origin == Origin::HiddenClass => "h",
            (Op::Alloc, _, true) if event.has(Flags::DIRECT_TO_OLD) => "A",
            (Op::Alloc, _, true) if event.has(Flags::ZEROED) => "c",
            (Op::Alloc, Family::Aligned, true) => "m",
            (Op::Alloc, _, true) => "a",
            _ => return self.leave_out(),
        };
        self.numbers += 1;
        self.present.insert(event.object, self.numbers);
        match event.stack {
            NO_STACK => writeln!(self.out, "{kind} {} - {tid}", event.size),
            stack => writeln!(self.out, "{kind} {} {} {tid}", event.size, stack - 1),
        }
    }

    fn leave_out(&mut self) -> std::io::Result<()> {
        self.left_out += 1;
        Ok(())
    }
}

impl<W: Write> EventSink for TextWriter<W> {
    fn push(&mut self, event: &Event) -> Result<(), TraceError> {
        self.line(event).map_err(|source| TraceError::Io {
            path: self.path.clone(),
            action: "write",
            source,
        })
    }
}
