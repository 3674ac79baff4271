//! Recordings of JavaScript heaps: a stock Node loads a small addon that makes V8 report every
//! object's birth and death.
//!
//! The addon (crates/preload/node) comes by `--require` in `NODE_OPTIONS`: every Node that the
//! program starts loads it, and every worker thread. Nothing is patched, no port is open, and
//! nothing appears on the program's standard error. V8's sampling heap profiler at interval 1
//! numbers every object at its birth and forgets the object at the collection that finds it dead.
//! The addon reads the profile just before each collection, and makes every collection a full one,
//! after as many bytes as the young generation holds (`--granularity`).
//!
//! Each heap writes its own stream of checksummed blocks into the spool (docs/spool-format.md):
//! written blocks survive every killed process, and the program never waits for heaplab. The
//! streams become the bundle when the program has ended, or by `heaplab recover`.
//!
//! The inspector has the same profiler but does not serve: its `HeapProfiler.getSamplingProfile`
//! collects before it answers, and objects born and dead since the last collection are gone
//! (docs/recording-node.md lists the other ways that were tried).

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
use crate::{clock, output, preload, spawn};
use heaplab_text::words::{bytes, plural};
use spool::Facts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// NodeOptions of a recording.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The command line: the program, then its arguments.
    pub command: Vec<OsString>,
    /// The bundle; neither its spool nor (unless `replace` is set) the bundle may exist.
    pub output: PathBuf,
    /// Replace a bundle of that name once the new one is whole.
    pub replace: bool,
    /// End with the started program, even if a Node that it started runs on.
    pub detach_children: bool,
    /// Bytes of the young generation, allocated between two collections: a power of two from
    /// [`GRANULARITY_MIN`] to [`GRANULARITY_MAX`].
    pub granularity_bytes: u64,
    /// Innermost frames of each stack.
    pub stack_depth: u32,
}

/// Progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Heaps so far.
    pub heaps: usize,
    /// Bytes that the heaps wrote.
    pub spool_bytes: u64,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let heaps = plural(self.heaps as u64, "JavaScript heap");
        write!(to, "recording: {heaps}, spool {}", bytes(self.spool_bytes))
    }
}

/// Counts of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of events.
    pub events: u64,
    /// Objects born.
    pub objects: u64,
    /// Bytes born.
    pub object_bytes: u64,
    /// Deaths noticed.
    pub deaths: u64,
    /// Collections.
    pub collections: u64,
    /// Most bytes born between two collections of one heap: the largest delay of a noticed death.
    pub interval_bytes_max: u64,
    /// Peak of live bytes, all heaps together.
    pub peak_bytes: u64,
}

/// The result of a recording.
pub type Recorded = crate::target::Recorded<Counts>;

/// Runs the target and records the heaps of its Nodes into the bundle. Waits for the target in
/// every case.
///
/// # Errors
/// The program cannot be started, forbids addons, or starts no Node that can be recorded: nothing
/// is left behind. The bundle cannot be written: the spool stays for [`recover`].
pub fn record(
    options: &NodeOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recorded, RecordError> {
    let program = spawn::located(&options.command)?;
    options::check(&options.command, std::env::var_os(options::VARIABLE).as_deref())?;
    let command = options::command(&program, &options.command, options.granularity_bytes)?;
    output::with_spool(&options.output, |spool| {
        record_into(options, &program, &command, spool, progress)
    })
}

fn record_into(
    options: &NodeOptions,
    program: &Path,
    command: &[OsString],
    spool: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recorded, RecordError> {
    // The page serves for its lock and its clock; no target reads it.
    let settings = Settings { stack_depth: options.stack_depth, ..Settings::default() };
    let control = ControlPage::create(spool, settings)?;
    let addon = preload::place_addon(spool)?;
    let facts = Facts {
        command: spawn::shown(&options.command),
        program: program.to_string_lossy().into_owned(),
        began_unix_s: clock::unix_s(),
        granularity_bytes: options.granularity_bytes,
        stack_depth: options.stack_depth,
    };
    facts.write(spool)?;
    let session =
        session::start(program, command, options.detach_children, &addon, spool, control)?;
    let ending = session.run(progress);
    finish::finish(spool, &options.output, options.replace, Some(&ending))
}

/// Finishes the spool of a recording after its heaplab died.
///
/// # Errors
/// The folder is no spool of a Node's recording, the spool is empty, or the bundle cannot be
/// written.
pub fn recover(spool: &Path, output: &Path, replace: bool) -> Result<Recorded, RecordError> {
    finish::finish(spool, output, replace, None)
}
