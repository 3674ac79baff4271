//! An experiment for a program with heaps of its own: a table of families, a list of names, a
//! recording.
//!
//! The program's main calls [`serve`] as a cell, and [`compare`] otherwise. `examples/own-heap` is
//! such a program.

use crate::plan::{HeapCell, Plan, passes_for};
use crate::process::{self, Processes};
use crate::results::{HugePages, Results, Settings, Workload};
use crate::run::{ExperimentError, run};
use heaplab_heap::FamilyError;
use heaplab_replay::{CellReport, CellRequest, Families, Touch};
use heaplab_trace::TraceError;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::program;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The argument that makes a program serve a cell.
pub const CELL: &str = "--cell";
/// A cell that runs longer counts as failed.
const LIMIT: Duration = Duration::from_secs(600);

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] TraceError),
    /// A heap's name is wrong, or the recording lacks a thing that the heap's parameters name.
    #[error(transparent)]
    Heap(#[from] FamilyError),
    /// The experiment cannot be run.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The program's own file, its input or output.
    #[error("the cell's process: {0}")]
    Process(#[from] std::io::Error),
    /// Standard input holds no request.
    #[error("standard input is not a cell's request: {0}")]
    Request(#[from] serde_json::Error),
}

/// Serves the cell requested on standard input, and writes the report to standard output. A program
/// calls this when its first argument is [`CELL`].
///
/// # Errors
/// Standard input holds no request. The report has the heap's own errors.
pub fn serve(families: &Families) -> Result<(), OwnError> {
    // Started by a descriptor, the process has the descriptor's number as its name.
    // SAFETY: the name ends in a zero byte.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"heaplab-cell".as_ptr()) };
    let mut question = String::new();
    std::io::stdin().read_to_string(&mut question)?;
    let request: CellRequest = serde_json::from_str(&question)?;
    let report = families
        .serve(&request)
        .unwrap_or_else(|error| CellReport::Failed { reason: error.to_string() });
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(())
}

/// Cells in processes of `executable`, a program that serves them when its first argument is
/// [`CELL`].
pub fn cells(executable: PathBuf, limit: Duration, stop: Option<&AtomicBool>) -> Processes<'_> {
    Processes { executable, arguments: vec![CELL.into()], limit, stop }
}

/// Compares the heaps of a list, `glibc,mine:limit=64m`, on a recording by space and by time in
/// `reps` blocks. Each cell is this program again with the argument [`CELL`].
///
/// # Errors
/// The recording cannot be read, or a name is wrong. A heap that fails is a failure of its row.
pub fn compare(
    families: &Families,
    heaps: &str,
    bundle: &Path,
    reps: u32,
) -> Result<Results, OwnError> {
    let recording = Bundle::open(bundle)?;
    let program = program::cached(&recording, Selection::default())?;
    let heaps = families.parse_list(heaps)?;
    heaps.iter().try_for_each(|heap| heap.suits(&program))?;
    let executable = std::env::current_exe()?;
    let facts = program.facts();
    let settings = Settings {
        touch: Touch::Known,
        reps,
        passes: passes_for(facts.events, 0),
        seed: 1,
        margin: 0.03,
        confidence: 0.95,
        debug_build: cfg!(debug_assertions),
        huge_pages: Some(HugePages::None),
        ..Settings::default()
    };
    let plan = Plan {
        program: program.path().to_path_buf(),
        workload: Workload::of(&program, bundle, recording.meta().duration_ns),
        heaps: heaps.iter().map(|heap| HeapCell::of(&**heap, false)).collect(),
        settings,
        verify: true,
        code_version: process::content_version([executable.as_path(), program.path()].into_iter())?,
        core: process::last_processor(),
        ..Plan::default()
    };
    let runner = cells(executable, LIMIT, None);
    let (results, _) = run(&plan, &runner, |_| ())?;
    Ok(results)
}
