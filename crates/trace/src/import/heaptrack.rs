//! heaptrack's file, as its preload object writes it (raw) or as its interpreter does.
//!
//! Lines of a letter and hexadecimal numbers. Both: `v` versions, `X` command, `I` page size and
//! pages, `c` milliseconds, `R` resident pages, `t ip parent` a node of the stack tree. Raw: `x`
//! executable, `m` modules with their segments, `+ size stack pointer`, `- pointer`. Interpreted:
//! `s` texts, `i` an instruction pointer with its module and frames (function, file, line:
//! innermost first), `a size stack` a kind of allocation, `+ kind`, `- kind`. Numbers of texts,
//! pointers and stacks count from 1, kinds from 0. Source: files of heaptrack 1.4, beside
//! heaptrack_print's output for them.
//!
//! The file lacks threads, and shows a realloc as a free and an allocation. The interpreted file
//! does not say which of several like allocations is freed: the importer takes the latest.

use super::Imported;
use super::import_state::{Book, Request};
use super::lines::{Line, Lines};
use crate::tables::{Frame, Module, Sample, StackNode};
use crate::{EventSink, StackId, TraceError};
use std::io::BufRead;

/// The versions of the file that are read, heaptrack's own numbering.
const VERSIONS: std::ops::RangeInclusive<u64> = 2..=3;

#[derive(Default)]
struct State {
    raw: bool,
    version: u64,
    page_bytes: u64,
    time_ns: u64,
    /// Interpreted: the texts of `s` lines.
    texts: Vec<String>,
    /// Interpreted: the row of `frames` for each `i` line.
    pointers: Vec<u32>,
    /// Interpreted: size and stack of each `a` line, with the names of its live objects.
    kinds: Vec<(u64, StackId, Vec<u64>)>,
    born: u64,
    /// Raw: currently mapped modules, by start: from, to, row of `modules`, address less address in
    /// the file.
    mapped: Vec<(u64, u64, u32, u64)>,
}

/// Imports the trace.
pub fn import<R: BufRead, S: EventSink>(
    lines: &mut Lines<R>,
    mut book: Book<S>,
) -> Result<Imported, TraceError> {
    let mut state = State { page_bytes: 4096, ..State::default() };
    book.who(0, 0);
    book.allow_reused();
    while lines.advance()? {
        let mut line = lines.line();
        if line.whole()[0] == b'#' {
            continue;
        }
        let letter = line.word();
        state.line(letter, &mut line, &mut book)?;
    }
    let meta = &mut book.out.meta;
    meta.losses.push(
        "heaptrack does not record threads, and writes a realloc as a free and an allocation"
            .into(),
    );
    if !state.raw && state.born > 0 {
        meta.losses
            .push("an interpreted heaptrack file does not say which of several like allocations is freed: the latest is taken".into());
    }
    meta.duration_ns = state.time_ns;
    meta.stack_depth = u32::from(book.out.tables.stacks.len() > 1) * 64;
    Ok(book.finish())
}

impl State {
    fn line<S: EventSink>(
        &mut self,
        letter: &[u8],
        line: &mut Line,
        book: &mut Book<S>,
    ) -> Result<(), TraceError> {
        match letter {
            b"v" => self.versions(line),
            b"X" => {
                let command = String::from_utf8_lossy(line.rest().trim_ascii()).into_owned();
                book.out.tables.processes[0].arguments =
                    command.split_whitespace().map(String::from).collect();
                book.out.meta.program = command;
                Ok(())
            }
            b"x" => {
                self.raw = true;
                let name = self.text(line)?;
                book.out.tables.processes[0].executable = name;
                Ok(())
            }
            b"I" => {
                self.page_bytes = line.hexadecimal("the page size")?;
                Ok(())
            }
            b"A" => {
                book.allow_unknown();
                Ok(())
            }
            b"c" => {
                self.time_ns = line
                    .hexadecimal("milliseconds")?
                    .saturating_mul(1_000_000)
                    .min(i64::MAX as u64);
                book.set_time(self.time_ns);
                Ok(())
            }
            b"R" => {
                let resident_bytes =
                    line.hexadecimal("resident pages")?.saturating_mul(self.page_bytes);
                book.out.tables.samples.push(Sample {
                    time_ns: self.time_ns,
                    process: 0,
                    resident_bytes,
                    ..Sample::default()
                });
                Ok(())
            }
            b"s" => {
                let text = self.text(line)?;
                self.texts.push(text);
                Ok(())
            }
            b"m" => self.module(line, book),
            b"i" => self.pointer(line, book),
            b"t" => self.node(line, book),
            b"a" => {
                let (size, stack) = (line.hexadecimal("a size")?, stack(line, book)?);
                self.kinds.push((size, stack, Vec::new()));
                Ok(())
            }
            b"+" => self.allocated(line, book),
            b"-" => self.freed(line, book),
            // Suppressions, and additions of later versions.
            b"S" | b"e" => Ok(()),
            _ => Err(line.wrong("a line of heaptrack's file (one of v x X I A s m i t a + - c R)")),
        }
    }

    fn versions(&mut self, line: &mut Line) -> Result<(), TraceError> {
        let _heaptrack = line.hexadecimal("heaptrack's version")?;
        self.version = line.hexadecimal("the file's version").unwrap_or(0);
        if !VERSIONS.contains(&self.version) {
            return Err(line.wrong("a file of version 2 or 3 (heaptrack 1.2 to 1.5)"));
        }
        Ok(())
    }

    /// A text at the end of the line: with its length before it from version 3 on.
    fn text(&self, line: &mut Line) -> Result<String, TraceError> {
        if self.version < 3 {
            return Ok(String::from_utf8_lossy(line.rest().trim_ascii_start()).into_owned());
        }
        let length = line.hexadecimal("the length of a text")?;
        let rest = line.rest().strip_prefix(b" ").unwrap_or(line.rest());
        let length = usize::try_from(length).ok().filter(|length| *length <= rest.len());
        let (text, rest) =
            rest.split_at(length.ok_or_else(|| line.wrong("a text as long as its length says"))?);
        *line = line.with_rest(rest);
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    fn module<S: EventSink>(
        &mut self,
        line: &mut Line,
        book: &mut Book<S>,
    ) -> Result<(), TraceError> {
        self.raw = true;
        let mut name = if self.version < 3 {
            String::from_utf8_lossy(line.word()).into_owned()
        } else {
            self.text(line)?
        };
        if name == "-" {
            self.mapped.clear();
            return Ok(());
        }
        let tables = &mut book.out.tables;
        if name == "x" {
            name = tables.processes[0].executable.clone();
        }
        let bias = line.hexadecimal("a module's address")?;
        let mut segments = Vec::new();
        while !line.rest().trim_ascii().is_empty() {
            segments.push((
                line.hexadecimal("a segment's address")?,
                line.hexadecimal("a segment's size")?,
            ));
        }
        let size = segments.iter().map(|(at, bytes)| at.saturating_add(*bytes)).max().unwrap_or(0);
        let known =
            tables.modules.iter().position(|module| module.bias == bias && module.path == name);
        let row = known.unwrap_or_else(|| {
            let module =
                Module { path: name, bias, size, loaded_ns: self.time_ns, ..Module::default() };
            tables.modules.push(module);
            tables.modules.len() - 1
        });
        for (at, bytes) in segments {
            let from = bias.wrapping_add(at);
            self.mapped.push((from, from.saturating_add(bytes), row as u32, bias));
        }
        Ok(())
    }

    /// Interpreted: an instruction pointer, resolved.
    fn pointer<S: EventSink>(
        &mut self,
        line: &mut Line,
        book: &mut Book<S>,
    ) -> Result<(), TraceError> {
        let address = line.hexadecimal("an instruction pointer")?;
        let module = line.hexadecimal("a module")?;
        let mut fields = Vec::new();
        while !line.rest().trim_ascii().is_empty() {
            fields.push(line.hexadecimal("a function, file or line")?);
        }
        let text = |index: u64| -> Result<Option<String>, TraceError> {
            let known = || line.wrong(format!("texts 1 to {}", self.texts.len()));
            if index == 0 {
                Ok(None)
            } else {
                self.texts.get(index as usize - 1).cloned().map(Some).ok_or_else(known)
            }
        };
        let module = match text(module)? {
            Some(path) => Some(module_row(&mut book.out.tables.modules, path)),
            None => None,
        };
        let frames = &mut book.out.tables.frames;
        self.pointers.push(frames.len() as u32);
        // The innermost frame first, each inlined into the next; a frame without file and line
        // stands alone.
        let count = fields.len().div_ceil(3).max(1);
        for index in 0..count {
            let field = |at: usize| fields.get(index * 3 + at).copied().unwrap_or(0);
            let inlined_into = (index + 1 < count).then(|| frames.len() as u32 + 1);
            let frame = Frame {
                module,
                address,
                function: text(field(0))?,
                file: text(field(1))?,
                line: field(2) as u32,
                inlined_into,
            };
            frames.push(frame);
        }
        Ok(())
    }

    fn node<S: EventSink>(
        &mut self,
        line: &mut Line,
        book: &mut Book<S>,
    ) -> Result<(), TraceError> {
        let pointer = line.hexadecimal("an instruction pointer")?;
        let parent = stack(line, book)?;
        let frame = if self.raw {
            let here = self.mapped.iter().find(|(from, to, ..)| (*from..*to).contains(&pointer));
            let frame = match here {
                Some((_, _, module, bias)) => {
                    Frame { module: Some(*module), address: pointer - bias, ..Frame::default() }
                }
                None => Frame { address: pointer, ..Frame::default() },
            };
            book.out.tables.frames.push(frame);
            book.out.tables.frames.len() as u32 - 1
        } else {
            let known = usize::try_from(pointer)
                .ok()
                .and_then(|pointer| self.pointers.get(pointer.checked_sub(1)?));
            *known.ok_or_else(|| {
                line.wrong(format!("instruction pointers 1 to {}", self.pointers.len()))
            })?
        };
        book.out.tables.stacks.push(StackNode { parent, frame });
        Ok(())
    }

    fn allocated<S: EventSink>(
        &mut self,
        line: &mut Line,
        book: &mut Book<S>,
    ) -> Result<(), TraceError> {
        let who = book.who(0, 0);
        let first = line.hexadecimal("a size or a kind")?;
        if self.raw {
            let stack = stack(line, book)?;
            let pointer = line.hexadecimal("a pointer")?;
            return book.allocate(
                who,
                Some(pointer),
                Request { size: first, stack, address: pointer, ..Request::default() },
                line,
            );
        }
        let (born, kinds) = (self.born, self.kinds.len());
        let kind = usize::try_from(first).ok().and_then(|kind| self.kinds.get_mut(kind));
        let (size, stack, live) = kind.ok_or_else(|| line.wrong(format!("kinds under {kinds}")))?;
        live.push(born);
        self.born += 1;
        book.allocate(
            who,
            Some(born),
            Request { size: *size, stack: *stack, ..Request::default() },
            line,
        )
    }

    fn freed<S: EventSink>(
        &mut self,
        line: &mut Line,
        book: &mut Book<S>,
    ) -> Result<(), TraceError> {
        let who = book.who(0, 0);
        let name = line.hexadecimal("a pointer or a kind")?;
        if self.raw {
            return book.free(who, name, line);
        }
        let kinds = self.kinds.len();
        let kind = usize::try_from(name).ok().and_then(|kind| self.kinds.get_mut(kind));
        let (_, _, live) = kind.ok_or_else(|| line.wrong(format!("kinds under {kinds}")))?;
        // A dead one gets a name that no object has, so it is counted or refused like any other.
        book.free(who, live.pop().unwrap_or(u64::MAX), line)
    }
}

/// A row of the stack tree, written earlier.
fn stack<S: EventSink>(line: &mut Line, book: &Book<S>) -> Result<StackId, TraceError> {
    let stack = line.hexadecimal("a stack")?;
    if stack < book.out.tables.stacks.len() as u64 {
        return Ok(stack as StackId);
    }
    Err(line.wrong(format!("stacks written before, 0 to {}", book.out.tables.stacks.len() - 1)))
}

fn module_row(modules: &mut Vec<Module>, path: String) -> u32 {
    let row = modules.iter().position(|module| module.path == path).unwrap_or_else(|| {
        modules.push(Module { path, ..Module::default() });
        modules.len() - 1
    });
    row as u32
}
