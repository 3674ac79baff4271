//! Firefox's logalloc: one call a line, `pid tid function(arguments)=result`; older logs have no
//! tid.
//!
//! Pointers are raw (`0x7f90495120e0`) or, after logalloc_munge.py, slots (`#1`); slot and pointer
//! 0 are null. Source: the README of memory/replace/logalloc and the functions listed by
//! replace-malloc. Calls on an arena of mozjemalloc (`moz_arena_malloc(arena,size)`) count as calls
//! without one; `jemalloc_stats()` becomes a mark.

use super::Imported;
use super::import_state::{Book, Request, Who};
use super::lines::{Line, Lines, decimal, hexadecimal};
use crate::{EventSink, TraceError};
use heaplab_text::words::so_many;
use std::io::BufRead;

/// Most arguments of a call.
const ARGUMENTS: usize = 4;

/// One line.
struct Call<'a> {
    function: &'a [u8],
    arguments: [&'a [u8]; ARGUMENTS],
    result: Option<&'a [u8]>,
}

/// Imports the log.
pub fn import<R: BufRead, S: EventSink>(
    lines: &mut Lines<R>,
    mut book: Book<S>,
) -> Result<Imported, TraceError> {
    let mut in_arenas = 0u64;
    while lines.advance()? {
        let mut line = lines.line();
        let pid = line.decimal("a process")?;
        let after_pid = line;
        let tid = match decimal(line.word()) {
            Some(tid) => tid,
            None => {
                line = after_pid;
                pid
            }
        };
        let mut call = parse(&line)?;
        let who = book.who(pid, tid);
        if let Some(function) = call.function.strip_prefix(b"moz_arena_") {
            call.function = function;
            call.arguments.rotate_left(1);
            in_arenas += 1;
        }
        apply(&call, who, &line, &mut book)?;
    }
    if in_arenas > 0 {
        book.out.meta.losses.push(so_many(
            in_arenas,
            "[call names|calls name] an arena of the allocator; it is not kept",
        ));
    }
    Ok(book.finish())
}

fn parse<'a>(line: &Line<'a>) -> Result<Call<'a>, TraceError> {
    let text = line.rest().trim_ascii();
    let expected = || line.wrong("a line of logalloc: \"pid tid function(arguments)=result\"");
    let open = text.iter().position(|byte| *byte == b'(').ok_or_else(expected)?;
    let close = text
        .iter()
        .rposition(|byte| *byte == b')')
        .filter(|close| *close > open)
        .ok_or_else(expected)?;
    // glibc prints a null pointer as "(nil)"; its bracket is the last one.
    let nil = text.ends_with(b"=(nil)");
    let close = if nil {
        (text.len() - b"=(nil)".len()).checked_sub(1).ok_or_else(expected)?
    } else {
        close
    };
    if text.get(close) != Some(&b')') || close < open {
        return Err(expected());
    }
    let result = match &text[close + 1..] {
        [] => None,
        [b'=', result @ ..] => Some(result),
        _ => return Err(expected()),
    };
    let mut arguments = [&b""[..]; ARGUMENTS];
    for (index, argument) in text[open + 1..close].split(|byte| *byte == b',').enumerate() {
        *arguments.get_mut(index).ok_or_else(expected)? = argument.trim_ascii();
    }
    Ok(Call { function: &text[..open], arguments, result })
}

fn apply<S: EventSink>(
    call: &Call,
    who: Who,
    line: &Line,
    book: &mut Book<S>,
) -> Result<(), TraceError> {
    let number = |index: usize| {
        decimal(call.arguments[index])
            .ok_or_else(|| line.wrong(format!("a number as argument {}", index + 1)))
    };
    let alignment = |index: usize| {
        let value = number(index)?;
        if value.is_power_of_two() {
            Ok(value)
        } else {
            Err(line.wrong("an alignment that is a power of two"))
        }
    };
    let result = || pointer(call.result.ok_or_else(|| line.wrong("a result after \"=\""))?, line);
    let request = |name: Option<Name>, size| Request {
        size,
        address: name.map_or(0, |name| name.address),
        ..Request::default()
    };
    match call.function {
        b"malloc" => {
            let result = result()?;
            book.allocate(who, key(result), request(result, number(0)?), line)
        }
        b"calloc" => {
            let (result, count, size) = (result()?, number(0)?, number(1)?);
            let total =
                count.checked_mul(size).or(if result.is_none() { Some(u64::MAX) } else { None });
            let size = total
                .ok_or_else(|| line.wrong("a failed call where count times size is over 2^64"))?;
            book.allocate(who, key(result), Request { zeroed: true, ..request(result, size) }, line)
        }
        b"posix_memalign" | b"memalign" | b"aligned_alloc" => {
            let result = result()?;
            let request = Request { alignment: alignment(0)?, ..request(result, number(1)?) };
            book.allocate(who, key(result), request, line)
        }
        b"valloc" => {
            let result = result()?;
            book.allocate(
                who,
                key(result),
                Request { alignment: 4096, ..request(result, number(0)?) },
                line,
            )
        }
        b"realloc" => {
            let (old, result) = (pointer(call.arguments[0], line)?, result()?);
            let request = request(result, number(1)?);
            match (old, result) {
                (None, result) => book.allocate(who, key(result), request, line),
                (Some(old), None) if request.size == 0 => book.free(who, old.key, line),
                (Some(old), result) => book.reallocate(who, old.key, key(result), request, line),
            }
        }
        b"free" => match pointer(call.arguments[0], line)? {
            Some(name) => book.free(who, name.key, line),
            None => Ok(()),
        },
        b"jemalloc_stats" => book.mark(who, "jemalloc_stats"),
        function
            if function.starts_with(b"jemalloc_")
                || function.starts_with(b"moz_")
                || function == b"malloc_usable_size" =>
        {
            book.ignore();
            Ok(())
        }
        _ => Err(line.wrong(
            "a function that logalloc writes (malloc, calloc, realloc, free, posix_memalign, ...)",
        )),
    }
}

/// A log's name for a block.
#[derive(Clone, Copy)]
struct Name {
    key: u64,
    address: u64,
}

fn key(name: Option<Name>) -> Option<u64> {
    name.map(|name| name.key)
}

/// A pointer or a slot; `None`: null.
fn pointer(text: &[u8], line: &Line) -> Result<Option<Name>, TraceError> {
    let name = match text {
        b"(nil)" | b"" => return Ok(None),
        [b'0', b'x', digits @ ..] => hexadecimal(digits).map(|key| Name { key, address: key }),
        [b'#', digits @ ..] => decimal(digits).map(|key| Name { key, address: 0 }),
        _ => None,
    };
    let name = name.ok_or_else(|| line.wrong("a pointer (0x...) or a slot (#...)"))?;
    Ok(Some(name).filter(|name| name.key != 0))
}
