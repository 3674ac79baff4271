//! Real programs, recorded and counted in the same run by a second preload object that shares
//! nothing with the recorder (`programs/counter.c`): the numbers of calls of each kind, and of each
//! requested size up to 64 KiB, must be equal.

mod common;

use common::{compile, options, record};
use heaplab_trace::{Event, Flags, Op};
use std::path::Path;
use std::process::Command;

/// Kinds of the counter, in its order; the last, usable sizes read, includes the recorder's own
/// calls.
const KINDS: usize = 9;
const SIZES: usize = 65536;

/// The counter's counts and the bundle's.
struct Both {
    counted: Vec<u64>,
    /// Allocations and reallocations; frees.
    seen: [u64; 2],
    /// Recorded frees of blocks without a recorded allocation; includes the shell's.
    unknown_frees: u64,
    of_size: Vec<u64>,
}

impl Both {
    /// Calls that the counter has and the bundle lacks, by kind and then by size.
    fn missing(&self) -> (Vec<i64>, Vec<(usize, i64)>) {
        let [malloc, calloc, realloc, realloc_of_null, realloc_to_zero, aligned, free, ..] =
            self.counted[..]
        else {
            unreachable!()
        };
        // a reallocation of a block without a recorded allocation is an allocation in the bundle:
        // together the two are exact
        let stated =
            [malloc + calloc + realloc_of_null + aligned + realloc, free + realloc_to_zero];
        let less = |counted: u64, seen: u64| counted as i64 - seen as i64;
        let kinds =
            stated.iter().zip(self.seen).map(|(&counted, seen)| less(counted, seen)).collect();
        let sizes = (0..SIZES)
            .map(|size| (size, less(self.counted[KINDS + size], self.of_size[size])))
            .filter(|(_, less)| *less != 0);
        (kinds, sizes.collect())
    }
}

/// Runs `program` with `arguments` (a shell's words), recorded and counted.
fn run(program: &str, arguments: &str) -> Option<Both> {
    if !heaplab_oracle::has(program) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let counter = compile(folder.path(), "counter", "cc", &["-shared", "-fPIC"])?;
    let counts = folder.path().join("counts");
    let line = format!(
        "HEAPLAB_COUNT={} LD_PRELOAD=\"$LD_PRELOAD:{}\" exec {program} {arguments} > {}",
        counts.display(),
        counter.display(),
        folder.path().join("printed").display()
    );
    let recording = record(&options(folder.path(), &[&"sh", &"-c", &line]));
    assert_eq!(recording.recorded.status.and_then(|status| status.code()), Some(0), "{line}");
    assert_eq!(recording.meta.cut, None);
    let bytes = std::fs::read(&counts).unwrap();
    let counted: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(counted.len(), KINDS + SIZES);
    // the shell is the process's first image, the program its second
    let row = recording.tables.processes.len() as u32 - 1;
    assert!(
        recording.tables.processes[row as usize].executable.contains(program),
        "{:?}",
        recording.tables.processes
    );
    let events: Vec<&Event> =
        recording.events.iter().filter(|event| event.process == row).collect();
    let number = |op: Op| {
        events.iter().filter(|event| event.op == op && !event.has(Flags::INHERITED)).count() as u64
    };
    let mut of_size = vec![0_u64; SIZES];
    for event in events
        .iter()
        .filter(|event| matches!(event.op, Op::Alloc | Op::Realloc) && event.size < SIZES as u64)
    {
        of_size[event.size as usize] += 1;
    }
    let seen = [number(Op::Alloc) + number(Op::Realloc), number(Op::Free)];
    Some(Both { counted, seen, unknown_frees: recording.counts.unknown_frees, of_size })
}

/// The bundle lacks the same calls as for a program that does nothing, and not one more. The
/// recorder looks functions up when it starts; for a missing one the dynamic linker allocates a
/// message, which is not the program's.
fn compare(program: &str, arguments: &str) -> Option<Vec<u64>> {
    let (of_nothing, sizes_of_nothing) = run("true", "")?.missing();
    assert!(of_nothing[0] < 40, "{of_nothing:?}");
    let both = run(program, arguments)?;
    let (kinds, sizes) = both.missing();
    assert_eq!((kinds[0], sizes), (of_nothing[0], sizes_of_nothing), "{program}");
    // each free of those blocks, and no free beyond those that the recording itself counts as left
    // out
    let frees = of_nothing[0] - 2..=of_nothing[0] + both.unknown_frees as i64;
    assert!(
        frees.contains(&kinds[1]),
        "{program}: {} frees are missing, expected {frees:?}",
        kinds[1]
    );
    Some(both.counted)
}

/// 2.26 million events; counting each reallocation twice, as an allocation and a free, makes them
/// 2.48 million.
#[test]
fn sqlite_is_recorded_call_for_call() {
    let workload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/sqlite-workload.sql");
    let Some(calls) = compare("sqlite3", &format!(":memory: < {}", workload.display())) else {
        return;
    };
    let [malloc, _, realloc, _, _, _, free, ..] = calls[..] else { unreachable!() };
    assert!((2_255_000..2_258_000).contains(&(malloc + realloc + free)), "{:?}", &calls[..KINDS]);
    assert!(
        (2_483_000..2_487_000).contains(&(malloc + 2 * realloc + free)),
        "{:?}",
        &calls[..KINDS]
    );
}

#[test]
fn jq_is_recorded_call_for_call() {
    compare("jq", "-n '[range(3000) | {a: tostring, b: [.]}] | group_by(.a | length) | length'");
}

/// The interpreter itself: `python3` may be a script that starts others until it finds the
/// interpreter.
#[test]
fn python_is_recorded_call_for_call() {
    let found = Command::new("python3")
        .args(["-c", "import os, sys; print(os.path.realpath(sys.executable))"])
        .output();
    let program =
        found.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let program = if program.is_empty() { "python3" } else { program.trim() };
    compare(
        program,
        "-c 'import json, re; print(len(json.dumps([{str(i): [i]} for i in range(5000)])))'",
    );
}
