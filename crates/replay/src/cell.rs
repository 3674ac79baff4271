//! A cell: one measurement of one heap, in a process of its own.
//!
//! Request and result travel as JSON, so any binary that links a heap can serve cells: it reads a
//! [`CellRequest`], makes the heap, calls [`run`] and prints the [`CellReport`]. Between the first
//! measurement and the last only the heap under test allocates.

use crate::driver::{Driver, ReplayError};
use crate::pages::{Pages, Zeroable};
use crate::system::Anonymous;
use crate::threads::Threaded;
use crate::{Touch, system};
use heaplab_heap::{Collection, CollectorLog, Heap, Manual, Verified, Violation};
use heaplab_trace::program::Program;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellKind {
    /// Resident and committed bytes at every checkpoint, and after a trim.
    Space,
    /// Time of each pass.
    Time,
    /// No measurement: checks every block for overlap, alignment and content.
    Verify,
    /// The time of a fixed piece of work without a heap.
    Canary,
}

/// Paths that are no UTF-8 pass through JSON as bytes.
mod any_path {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Name {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        let name = path.to_str().map_or_else(
            || Name::Bytes(path.as_os_str().as_bytes().to_vec()),
            |text| Name::Text(text.into()),
        );
        name.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(match Name::deserialize(from)? {
            Name::Text(text) => text.into(),
            Name::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

/// The request for a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellRequest {
    /// The heap's name with its parameters.
    pub heap: String,
    /// The kind of measurement.
    pub kind: CellKind,
    /// The replay program's file.
    #[serde(with = "any_path")]
    pub program: PathBuf,
    /// The blocks to write to.
    pub touch: Touch,
    /// One OS thread a recorded thread.
    pub threads: bool,
    /// Passes over the program (time).
    pub passes: u32,
    /// Processor to run on.
    pub core: Option<u32>,
    /// Whether the kernel may use huge pages, as the system is set.
    #[serde(default = "allowed")]
    pub huge_pages: bool,
}

fn allowed() -> bool {
    true
}

/// The result of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellReport {
    /// Space over the checkpoints.
    Space(SpaceReport),
    /// Time of the passes.
    Time(TimeReport),
    /// The heap kept every promise of the contract.
    Verified {
        /// The heap's own version text.
        version: String,
    },
    /// The time of the fixed work.
    Canary {
        /// CPU time, ns.
        ns: u64,
    },
    /// The heap or the program failed; in words.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// Space of one cell. Resident bytes are the whole process's, driver included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpaceReport {
    /// The heap's own version text.
    pub version: String,
    /// Anonymous resident bytes before the first event.
    pub baseline_bytes: u64,
    /// Baseline bytes in huge pages.
    #[serde(default)]
    pub baseline_huge_bytes: u64,
    /// One sample for each checkpoint of the program, in order.
    pub samples: Vec<SpaceSample>,
    /// Anonymous resident bytes after a trim; `None`: the heap cannot trim.
    pub trimmed_bytes: Option<u64>,
    /// Every collection of a heap that collects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collections: Vec<Collection>,
    /// Slices and counters of a heap that has them.
    #[serde(default, skip_serializing_if = "CollectorLog::is_empty")]
    pub log: CollectorLog,
}

/// Space at one checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceSample {
    /// Anonymous resident bytes.
    pub anonymous_bytes: u64,
    /// Anonymous resident bytes in huge pages.
    #[serde(default)]
    pub huge_bytes: u64,
    /// Committed bytes, by the heap's account.
    pub committed_bytes: Option<u64>,
    /// Bytes in pages with live blocks, by the heap's account.
    pub active_bytes: Option<u64>,
}

/// Time of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeReport {
    /// The heap's own version text.
    pub version: String,
    /// ns of each pass: CPU time on one thread, elapsed time with threads.
    pub passes_ns: Vec<u64>,
    /// CPU time of all passes and threads, ns.
    pub cpu_ns: u64,
    /// Page faults served without I/O during the passes.
    pub minor_faults: u64,
    /// Every collection of the first pass, with its pause, of a heap that collects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collections: Vec<Collection>,
}

/// Serves `request` with a heap for one thread.
pub fn run<H: Manual>(heap: H, program: &Program, request: &CellRequest) -> CellReport {
    measure(heap, program, request).unwrap_or_else(|error| error.into())
}

/// Serves `request` with a heap for many threads, one clone each.
pub fn run_shared<H: Manual + Clone + Send>(
    heap: H,
    program: &Program,
    request: &CellRequest,
) -> CellReport {
    measure_shared(heap, program, request).unwrap_or_else(|error| error.into())
}

impl From<ReplayError> for CellReport {
    fn from(error: ReplayError) -> CellReport {
        CellReport::Failed { reason: error.to_string() }
    }
}

/// [`run`] with the plain error.
pub(crate) fn measure<H: Manual>(
    heap: H,
    program: &Program,
    request: &CellRequest,
) -> Result<CellReport, ReplayError> {
    if request.threads {
        let reason = format!(
            "{} is a heap for one thread; replay it in recorded order (without --threads)",
            request.heap
        );
        return Ok(CellReport::Failed { reason });
    }
    match request.kind {
        CellKind::Space => space(Driver::new(program, heap)?, program, request),
        CellKind::Time => time(Driver::new(program, heap)?, request),
        CellKind::Verify => verify(heap, program),
        CellKind::Canary => Ok(canary()),
    }
}

/// [`run_shared`] with the plain error.
pub(crate) fn measure_shared<H: Manual + Clone + Send>(
    heap: H,
    program: &Program,
    request: &CellRequest,
) -> Result<CellReport, ReplayError> {
    match request.kind {
        CellKind::Space if request.threads => {
            space(Threaded::new(program, heap, true)?, program, request)
        }
        CellKind::Time if request.threads => time(Threaded::new(program, heap, false)?, request),
        _ => measure(heap, program, &CellRequest { threads: false, ..request.clone() }),
    }
}

/// The operations of a driver that a measurement needs, on one thread or on many.
pub(crate) trait Runs {
    /// The heap under test.
    type Heap: Manual;
    /// The heap.
    fn heap(&mut self) -> &mut Self::Heap;
    /// Runs the whole program.
    fn pass(&mut self, touch: Touch) -> Result<(), ReplayError>;
    /// Runs the whole program and calls `each` at every checkpoint, in order.
    fn pass_with(
        &mut self,
        touch: Touch,
        each: impl FnMut(&mut Self::Heap) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError>;
    /// Frees all live blocks and goes back to the beginning.
    fn rewind(&mut self);
    /// The clock of a pass, ns.
    fn clock() -> u64;
}

/// A sample in its form during the measurement: no `Option`, because zero must be a value.
#[derive(Clone, Copy)]
struct RawSample {
    anonymous: Anonymous,
    /// Plus one; 0: unknown.
    committed_bytes: u64,
    /// Plus one; 0: unknown.
    active_bytes: u64,
}

// SAFETY: integers; zero is a value.
unsafe impl Zeroable for RawSample {}

impl From<RawSample> for SpaceSample {
    fn from(raw: RawSample) -> Self {
        let known = |value: u64| value.checked_sub(1);
        let (committed_bytes, active_bytes) = (known(raw.committed_bytes), known(raw.active_bytes));
        SpaceSample {
            anonymous_bytes: raw.anonymous.bytes,
            huge_bytes: raw.anonymous.huge_bytes,
            committed_bytes,
            active_bytes,
        }
    }
}

fn anonymous() -> Result<Anonymous, ReplayError> {
    system::anonymous()
        .ok_or_else(|| ReplayError::Memory("/proc/self tells no anonymous memory".into()))
}

fn space<R: Runs>(
    mut runs: R,
    program: &Program,
    request: &CellRequest,
) -> Result<CellReport, ReplayError> {
    let mut samples: Pages<RawSample> = Pages::zeroed(program.checkpoints().len())?;
    // The process's malloc has served this process's start: the program would use its free resident
    // memory unseen. The first reading itself takes the memory that readings need.
    runs.heap().trim();
    anonymous()?;
    let baseline = anonymous()?;
    let mut next = 0;
    runs.pass_with(request.touch, |heap| {
        let anonymous = anonymous()?;
        let footprint = heap.footprint();
        let raw = |value: Option<u64>| value.map_or(0, |value| value + 1);
        let (committed_bytes, active_bytes) =
            (raw(footprint.committed_bytes), raw(footprint.active_bytes));
        samples.as_mut_slice()[next] = RawSample { anonymous, committed_bytes, active_bytes };
        next += 1;
        Ok(())
    })?;
    let trimmed_bytes = if runs.heap().trim() { Some(anonymous()?.bytes) } else { None };
    let samples = samples.iter().map(|raw| SpaceSample::from(*raw)).collect();
    let Anonymous { bytes: baseline_bytes, huge_bytes: baseline_huge_bytes } = baseline;
    // Asked for last, because a text takes memory from the process's malloc.
    let version = runs.heap().version();
    Ok(CellReport::Space(SpaceReport {
        version,
        baseline_bytes,
        baseline_huge_bytes,
        samples,
        trimmed_bytes,
        ..SpaceReport::default()
    }))
}

fn time<R: Runs>(mut runs: R, request: &CellRequest) -> Result<CellReport, ReplayError> {
    let mut passes: Pages<u64> = Pages::zeroed(request.passes as usize)?;
    let (cpu, faults) = (system::cpu_ns(), system::minor_faults());
    for pass in passes.as_mut_slice() {
        let begin = R::clock();
        runs.pass(request.touch)?;
        *pass = R::clock() - begin;
        runs.rewind();
    }
    let (cpu_ns, minor_faults) = (system::cpu_ns() - cpu, system::minor_faults() - faults);
    Ok(CellReport::Time(TimeReport {
        version: runs.heap().version(),
        passes_ns: passes.to_vec(),
        cpu_ns,
        minor_faults,
        collections: Vec::new(),
    }))
}

fn verify<H: Manual>(heap: H, program: &Program) -> Result<CellReport, ReplayError> {
    let failed = |violation: Violation| Ok(CellReport::Failed { reason: violation.to_string() });
    let mut driver = Driver::new(program, Verified::new(heap))?;
    // The wrapper fills the blocks itself; the driver's own stores would look like damage to it.
    driver.run(Touch::None)?;
    if let Err(violation) = driver.heap().finish() {
        return failed(violation);
    }
    driver.rewind();
    match driver.heap().finish() {
        Ok(()) => Ok(CellReport::Verified { version: driver.heap().version() }),
        Err(violation) => failed(violation),
    }
}

/// Steps of the canary's work: about 50 ms on a machine of 2020. A debug build takes a tenth, as of
/// a timed cell's events, so its canary is rougher.
const CANARY_STEPS: u32 = if cfg!(debug_assertions) { 800_000 } else { 8_000_000 };
/// Entries of the canary's table: 1 MiB, so that the cache matters.
const CANARY_ENTRIES: usize = 1 << 17;

/// The report of [`CellKind::Canary`]: a fixed walk through a fixed table, arithmetic and dependent
/// loads.
pub fn canary() -> CellReport {
    let mut table = match Pages::<u64>::zeroed(CANARY_ENTRIES) {
        Ok(table) => table,
        Err(error) => return CellReport::Failed { reason: ReplayError::from(error).to_string() },
    };
    let mut state = 1_u64;
    let begin = system::cpu_ns();
    for _ in 0..CANARY_STEPS {
        // A linear congruential generator (Knuth's constants); its next step depends on the load.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let entry = &mut table.as_mut_slice()[(state >> 47) as usize];
        *entry = entry.wrapping_add(state);
        state ^= *entry;
    }
    std::hint::black_box(state);
    CellReport::Canary { ns: system::cpu_ns() - begin }
}
