//! Android's memory_replay text, as malloc_debug's record_allocs writes it.
//!
//! `tid: malloc ptr size`, `calloc ptr count size`, `realloc new old size`,
//! `memalign ptr alignment size`, `free ptr`, `thread_done 0x0`; pointers in hexadecimal, numbers
//! in decimal. Newer files end each line with the call's start and end in nanoseconds (thread_done
//! with its end only). Source: malloc_debug's documentation, "record_allocs", and memory_trace's
//! reader. A free gets its call's start as time stamp, an allocation its call's end.

use super::Imported;
use super::import_state::{Book, Request};
use super::lines::{Line, Lines, decimal};
use crate::{EventSink, TraceError};
use std::io::BufRead;

/// Imports the trace.
pub fn import<R: BufRead, S: EventSink>(
    lines: &mut Lines<R>,
    mut book: Book<S>,
) -> Result<Imported, TraceError> {
    let mut origin = None;
    while lines.advance()? {
        let mut line = lines.line();
        let tid = line.word().strip_suffix(b":").and_then(decimal);
        let tid =
            tid.ok_or_else(|| line.wrong("a line of memory_replay: \"tid: malloc 0x... size\""))?;
        let call = line.word();
        let pointer = line.hexadecimal("a pointer")?;
        let who = book.who(0, tid);
        let result = Some(pointer).filter(|pointer| *pointer != 0);
        let sized = |size| Request { size, address: pointer, ..Request::default() };
        match call {
            b"malloc" => {
                let request = sized(line.decimal("a size")?);
                stamp(&mut line, &mut origin, &mut book, false)?;
                book.allocate(who, result, request, &line)?;
            }
            b"calloc" => {
                let (count, size) = (line.decimal("a count")?, line.decimal("a size")?);
                let total =
                    count.checked_mul(size).or(if pointer == 0 { Some(u64::MAX) } else { None });
                let total = total.ok_or_else(|| {
                    line.wrong("a failed call where count times size is over 2^64")
                })?;
                stamp(&mut line, &mut origin, &mut book, false)?;
                book.allocate(who, result, Request { zeroed: true, ..sized(total) }, &line)?;
            }
            b"memalign" => {
                let alignment = line.decimal("an alignment")?;
                // memalign takes any alignment and rounds it up to a power of two.
                let alignment = alignment
                    .checked_next_power_of_two()
                    .ok_or_else(|| line.wrong("an alignment up to 2^63"))?;
                let request = Request { alignment, ..sized(line.decimal("a size")?) };
                stamp(&mut line, &mut origin, &mut book, false)?;
                book.allocate(who, result, request, &line)?;
            }
            b"realloc" => {
                let old = line.hexadecimal("the old pointer")?;
                let request = sized(line.decimal("a size")?);
                stamp(&mut line, &mut origin, &mut book, false)?;
                match (old, result) {
                    (0, result) => book.allocate(who, result, request, &line)?,
                    (old, None) if request.size == 0 => book.free(who, old, &line)?,
                    (old, result) => book.reallocate(who, old, result, request, &line)?,
                }
            }
            b"free" => {
                stamp(&mut line, &mut origin, &mut book, true)?;
                if pointer != 0 {
                    book.free(who, pointer, &line)?;
                }
            }
            // The end of a thread does not affect its allocations.
            b"thread_done" => {}
            _ => return Err(line.wrong("malloc, calloc, realloc, memalign, free or thread_done")),
        }
    }
    Ok(book.finish())
}

/// Reads the time stamps, if any, and sets the clock: to the start of the call or to its end.
fn stamp<S: EventSink>(
    line: &mut Line,
    origin: &mut Option<u64>,
    book: &mut Book<S>,
    start: bool,
) -> Result<(), TraceError> {
    if line.rest().trim_ascii().is_empty() {
        return Ok(());
    }
    let (began, ended) = (line.decimal("the start in ns")?, line.decimal("the end in ns")?);
    line.end()?;
    let origin = *origin.get_or_insert(began);
    book.set_time(if start { began } else { ended }.saturating_sub(origin));
    Ok(())
}
