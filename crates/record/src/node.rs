//! Recordings of the JavaScript heaps of Nodes: a stock Node loads a small addon, which has V8 tell
//! every object's birth and death.
//!
//! The addon (crates/recorder/node) comes in by `--require` in `NODE_OPTIONS`, so that every Node
//! that the program starts has it, and every worker thread; nothing is patched, no port is open,
//! and nothing of it is said on the program's standard error. V8's sampling heap profiler at
//! interval 1 numbers every object at its birth and forgets it at the collection that finds it
//! dead; the addon reads the profile just before each collection, and makes every collection a full
//! one, after as many bytes as the young generation holds (`--granularity`).
//!
//! Each heap writes a stream of checksummed blocks into the spool by itself (docs/spool-format.md):
//! what it wrote survives whoever is killed, and the program never waits for heaplab. The streams
//! become the bundle when the program has ended, or by `heaplab recover`.
//!
//! Why not the inspector, which has the same profiler: its `HeapProfiler.getSamplingProfile`
//! collects before it answers, and what was born and died since the last collection is gone
//! (docs/recording-node.md has the other ways that were tried).

mod chunks;
mod events;
mod finish;
mod options;
mod places;
mod session;
mod spool;
mod stream;

pub use options::{GRANULARITY_MAX, GRANULARITY_MIN};
pub use spool::is_spool;

use crate::control::{ControlPage, Settings};
use crate::error::RecordError;
use crate::mark::spool_of;
use crate::{output, preload, spawn};
use heaplab_trace::bundle::Meta;
use heaplab_trace::tables::Process;
use spool::Facts;
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::SystemTime;

/// How to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command line: the program, then its arguments.
    pub command: Vec<OsString>,
    /// The bundle; its spool must not exist, nor it unless it is to be replaced.
    pub output: PathBuf,
    /// Replace a bundle of that name, once the new one is whole.
    pub replace: bool,
    /// End when the started program has ended, although a Node that it started runs on.
    pub detach_children: bool,
    /// Bytes in the young generation between two collections: a power of two from
    /// [`GRANULARITY_MIN`] to [`GRANULARITY_MAX`].
    pub granularity_bytes: u64,
    /// Innermost frames of each stack.
    pub stack_depth: u32,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Heaps so far.
    pub heaps: usize,
    /// Bytes that they wrote.
    pub spool_bytes: u64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of events.
    pub events: u64,
    /// Objects born.
    pub objects: u64,
    /// Bytes of them.
    pub object_bytes: u64,
    /// Deaths that were noticed.
    pub deaths: u64,
    /// Collections.
    pub collections: u64,
    /// The most bytes born between two collections of one heap: no death is noticed later than
    /// that.
    pub interval_bytes_max: u64,
    /// The most bytes live at once, of all heaps together.
    pub peak_bytes: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// How the started program ended; `None`: it runs on, or nobody saw it.
    pub status: Option<ExitStatus>,
    /// What was recorded, as `meta.json` has it but for the counts that are filled in there.
    pub meta: Meta,
    /// What there was.
    pub counts: Counts,
    /// The heaps: main threads and workers, in the order in which they began.
    pub processes: Vec<Process>,
    /// The bundle.
    pub output: PathBuf,
}

impl Recorded {
    /// The started program's exit code, 128 + N where signal N ended it.
    pub fn exit_code(&self) -> u8 {
        let Some(status) = self.status else { return 0 };
        status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1) as u8
    }
}

/// Runs the target and records the heaps of its Nodes into the bundle.
///
/// # Errors
/// The program cannot be started, forbids addons, or starts no Node that can be recorded: then
/// nothing is left behind. The bundle cannot be written: then the spool is left for [`recover`].
/// The target is waited for in each of these cases.
pub fn record(
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recorded, RecordError> {
    let name = options.command.first().ok_or_else(|| RecordError::NotFound(String::new()))?;
    let program = spawn::locate(name)?;
    options::check(&options.command, std::env::var_os(options::VARIABLE).as_deref())?;
    let command = options::command(&program, &options.command, options.granularity_bytes)?;
    let output = std::path::absolute(&options.output)
        .map_err(RecordError::io("cannot find", &options.output))?;
    let spool = spool_of(&output);
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&spool)
        .map_err(RecordError::io("cannot make the folder", &spool))?;
    let recorded = record_into(options, &program, &command, &spool, progress);
    match &recorded {
        Err(RecordError::Finish { .. }) => {}
        _ => output::discard_spool(&spool)?,
    }
    recorded
}

fn record_into(
    options: &Options,
    program: &Path,
    command: &[OsString],
    spool: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recorded, RecordError> {
    // The page is there for its lock and its clock; no target reads it.
    let control = ControlPage::create(
        spool,
        Settings {
            stack_depth: options.stack_depth,
            ring_bytes: 0,
            first_ring_bytes: 0,
            nested_bytes: 0,
            mark_signal: 0,
        },
    )?;
    let addon = preload::place_addon(spool)?;
    let facts = Facts {
        command: options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        program: program.to_string_lossy().into_owned(),
        began_unix_s: SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        granularity_bytes: options.granularity_bytes,
        stack_depth: options.stack_depth,
    };
    facts.write(spool)?;
    let session =
        session::start(program, command, options.detach_children, &addon, spool, control)?;
    let ending = session.run(progress);
    finish::finish(spool, &options.output, options.replace, Some(ending))
}

/// Finishes the spool of a recording whose heaplab died.
///
/// # Errors
/// It is no spool of a Node's recording, there is nothing in it, or the bundle cannot be written.
pub fn recover(spool: &Path, output: &Path, replace: bool) -> Result<Recorded, RecordError> {
    finish::finish(spool, output, replace, None)
}
