//! Compiles the test programs, records them, and checks that the result is in a legal order.
#![allow(dead_code)] // each test binary uses a part

mod order;

use heaplab_record::finish::{self, merge::Counts, streams::Files};
use heaplab_record::session::{self, RecordOptions, Recorded};
use heaplab_trace::bundle::Meta;
use heaplab_trace::tables::Tables;
use heaplab_trace::{Event, Flags, Op};
pub use order::check_order;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Compiles `tests/programs/NAME.c` into `folder`; `None`, with a printed line, if the compiler
/// cannot (a missing 32-bit or musl library), or a failure if the environment requires everything.
pub fn compile(folder: &Path, name: &str, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
    let program = folder.join(name);
    let done = Command::new(compiler)
        .args(["-O1", "-g", "-pthread", "-fno-builtin", "-o"])
        .arg(&program)
        .arg(source)
        .args(flags)
        .output();
    if done.as_ref().is_ok_and(|output| output.status.success()) {
        return Some(program);
    }
    heaplab_oracle::skip(format_args!("{compiler} {flags:?} cannot build {name}: {done:?}"));
    None
}

/// A recording with its events in memory, addresses included.
pub struct Recording {
    pub recorded: Recorded,
    pub events: Vec<Event>,
    pub tables: Tables,
    pub meta: Meta,
    pub counts: Counts,
}

/// The usual options for `command`, with a spool in `folder`.
pub fn options(folder: &Path, command: &[&dyn AsRef<std::ffi::OsStr>]) -> RecordOptions {
    RecordOptions {
        command: command.iter().map(|word| OsString::from(word.as_ref())).collect(),
        spool: folder.join("test.heaplab.spool"),
        stack_depth: 16,
        python: None,
        jvm_memory: false,
        ring_bytes: 1 << 20,
        mark_signal: 0,
        samples: Some(Duration::from_millis(20)),
        detach_children: false,
        reports: false,
        spool_limit_bytes: None,
    }
}

/// Records, and reads the spool.
pub fn record(options: &RecordOptions) -> Recording {
    let recorded = session::record(options, &mut |_| {}).expect("a recording");
    let (events, tables, meta, counts) = read(&options.spool);
    Recording { recorded, events, tables, meta, counts }
}

/// Reads a spool, and checks the order of its events.
pub fn read(spool: &Path) -> (Vec<Event>, Tables, Meta, Counts) {
    let files = Files::open(spool).expect("a spool");
    let mut events: Vec<Event> = Vec::new();
    let (tables, meta, counts) =
        finish::merge_spool(&files, None, &mut events, &mut |_| {}).expect("a whole spool");
    check_order(&events);
    (events, tables, meta, counts)
}

impl Recording {
    /// Births (as (size, row of the process)) with sizes in `sizes`.
    pub fn births(&self, sizes: std::ops::Range<u64>) -> Vec<(u64, u32)> {
        let wanted =
            |event: &&Event| event.op == Op::Alloc && event.counts() && sizes.contains(&event.size);
        self.events.iter().filter(wanted).map(|event| (event.size, event.process)).collect()
    }
}

/// The words that `counting` left in its file: mallocs, callocs, reallocs, frees, requested bytes,
/// ready.
pub fn counted(path: &Path) -> [u64; 6] {
    let bytes = std::fs::read(path).unwrap_or_default();
    std::array::from_fn(|at| {
        bytes.get(8 * at..8 * at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()))
    })
}

/// The same counts from the recording: events of sizes that only `counting` asks for.
pub fn counted_events(events: &[Event]) -> [u64; 5] {
    let ours = 20_000..20_064;
    let mut mine = HashSet::new();
    let mut sums = [0; 5];
    for event in events {
        match event.op {
            Op::Alloc if ours.contains(&event.size) => {
                sums[usize::from(event.has(Flags::ZEROED))] += 1;
                sums[4] += event.size;
                mine.insert(event.object);
            }
            Op::Realloc if mine.contains(&event.object) => sums[2] += 1,
            Op::Free if mine.remove(&event.object) => sums[3] += 1,
            _ => {}
        }
    }
    sums
}
