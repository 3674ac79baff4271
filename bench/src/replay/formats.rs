//! A replay program in the files that other replay drivers read.
//!
//! - Android's memory_replay: malloc_debug's text, `tid: malloc pointer size` and its like, one
//!   call a line. Source: platform/system/extras, memory_replay/README and malloc_debug's
//!   documentation ("record_allocs").
//! - glibc's trace_run: a workload of byte codes and numbers of seven bits a byte, highest first.
//!   Source: the reading side (`trace_run.c` of the malloc trace utilities), written anew here
//!   without its code.
//!
//! Both name a block by any key in the file. The program's slots are as dense as keys can be: the
//! best case for either.

use anyhow::{Result, bail};
use heaplab_trace::program::{Program, Step, decode};
use std::io::Write;

/// Calls `each` with every step until the end.
fn steps(program: &Program, mut each: impl FnMut(Step) -> Result<()>) -> Result<()> {
    let mut at = 0;
    while let Some(step) = decode(program.words(), &mut at)? {
        each(step)?;
    }
    Ok(())
}

/// Writes memory_replay's text. A shrink to nothing becomes a shrink to one byte: there a shrink to
/// nothing would end the block.
pub fn memory_replay(program: &Program, out: &mut impl Write) -> Result<()> {
    let mut tid = 1;
    steps(program, |step| {
        let key = |slot: u32| (u64::from(slot) + 1) << 4;
        match step {
            Step::Thread { thread } => tid = thread + 1,
            Step::Free { slot } => writeln!(out, "{tid}: free {:#x}", key(slot))?,
            Step::Allocate { slot, size, zeroed: true, .. } => {
                writeln!(out, "{tid}: calloc {:#x} 1 {size}", key(slot))?
            }
            Step::Allocate { slot, size, align_log2: 0, .. } => {
                writeln!(out, "{tid}: malloc {:#x} {size}", key(slot))?
            }
            Step::Allocate { slot, size, align_log2, .. } => {
                writeln!(out, "{tid}: memalign {:#x} {} {size}", key(slot), 1u64 << align_log2)?;
            }
            Step::Reallocate { slot, size, .. } => {
                writeln!(out, "{tid}: realloc {:#x} {:#x} {}", key(slot), key(slot), size.max(1))?
            }
            Step::UsableSize { .. } | Step::Managed(_) => {}
            Step::RegionBirth { .. } | Step::RegionDeath { .. } => {
                bail!("a workload with arenas has no place in memory_replay's text")
            }
        }
        Ok(())
    })
}

/// Offset of a thread's calls in a workload of trace_run, behind the header and its padding.
const CALLS_AT: u64 = 64;

const DONE: u8 = 1;
const MALLOC: u8 = 2;
const CALLOC: u8 = 3;
const REALLOC: u8 = 4;
const FREE: u8 = 5;
const ALLOCATE_POINTERS: u8 = 8;
const THREADS: u8 = 10;
const START_THREAD: u8 = 11;
const MEMALIGN: u8 = 12;

/// Writes trace_run's workload. One thread makes all calls, in recorded order, as in our driver.
pub fn trace_run(program: &Program, out: &mut impl Write) -> Result<()> {
    let mut header = vec![ALLOCATE_POINTERS];
    number(&mut header, u64::from(program.facts().slots) + 2);
    header.push(THREADS);
    number(&mut header, 1);
    header.push(START_THREAD);
    number(&mut header, CALLS_AT);
    header.resize(CALLS_AT as usize, DONE);
    out.write_all(&header)?;
    let mut call = Vec::new();
    steps(program, |step| {
        let pointer = |slot: u32| u64::from(slot) + 1;
        call.clear();
        match step {
            Step::Free { slot } => {
                call.push(FREE);
                number(&mut call, pointer(slot));
            }
            Step::Allocate { slot, size, align_log2, zeroed, .. } => {
                call.push(if zeroed {
                    CALLOC
                } else if align_log2 > 0 {
                    MEMALIGN
                } else {
                    MALLOC
                });
                number(&mut call, pointer(slot));
                if !zeroed && align_log2 > 0 {
                    number(&mut call, 1 << align_log2);
                }
                number(&mut call, size);
            }
            Step::Reallocate { slot, size, .. } => {
                call.push(REALLOC);
                number(&mut call, pointer(slot));
                number(&mut call, pointer(slot));
                number(&mut call, size.max(1));
            }
            Step::Thread { .. } | Step::UsableSize { .. } | Step::Managed(_) => {}
            Step::RegionBirth { .. } | Step::RegionDeath { .. } => {
                bail!("a workload with arenas has no place in trace_run's")
            }
        }
        Ok(out.write_all(&call)?)
    })?;
    Ok(out.write_all(&[DONE])?)
}

/// Seven bits a byte, highest first; the last byte has the top bit clear.
fn number(out: &mut Vec<u8>, number: u64) {
    let groups = (64 - number.max(1).leading_zeros()).div_ceil(7);
    for group in (0..groups).rev() {
        let bits = (number >> (7 * group)) as u8 & 0x7f;
        out.push(if group > 0 { bits | 0x80 } else { bits });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_trace::import::{Format, ImportOptions, import};
    use heaplab_trace::program::{Facts, compile};
    use heaplab_trace::source::Slice;
    use heaplab_trace::{Event, Op};

    const TEXT: &str = "1: malloc 0x10 100\n2: calloc 0x20 1 300\n1: memalign 0x30 64 500\n1: realloc 0x10 0x10 70000\n2: free 0x20\n";

    fn program(folder: &std::path::Path) -> Program {
        let mut events: Vec<Event> = Vec::new();
        let imported =
            import(TEXT.as_bytes(), Some(Format::Android), &ImportOptions::default(), &mut events)
                .unwrap();
        assert_eq!(events.last().unwrap().op, Op::Free);
        let path = folder.join("p.program");
        let file = std::fs::File::create(&path).unwrap();
        compile(&mut Slice(&events), &imported.tables, Facts::default(), 0, &path, file).unwrap();
        Program::open(&path).unwrap()
    }

    #[test]
    fn what_was_imported_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut text = Vec::new();
        memory_replay(&program(folder.path()), &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), TEXT);
    }

    #[test]
    fn a_workload_says_every_call() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = Vec::new();
        trace_run(&program(folder.path()), &mut bytes).unwrap();
        assert_eq!(bytes[..6], [ALLOCATE_POINTERS, 5, THREADS, 1, START_THREAD, 64]);
        let calls = [
            MALLOC, 1, 100, CALLOC, 2, 0x82, 44, MEMALIGN, 3, 64, 0x83, 116, REALLOC, 1, 1, 0x84,
            0xa2, 112, FREE, 2, DONE,
        ];
        assert_eq!(bytes[64..], calls);
    }

    #[test]
    fn numbers_are_of_seven_bits_a_byte() {
        let bytes = |value| {
            let mut out = Vec::new();
            number(&mut out, value);
            out
        };
        assert_eq!((bytes(0), bytes(127), bytes(128)), (vec![0], vec![127], vec![0x81, 0]));
        assert_eq!(bytes(u64::MAX).len(), 10);
    }
}
