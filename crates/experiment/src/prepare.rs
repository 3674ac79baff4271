//! Makes a [`Plan`] of a recording and heaps. Checks that the heaps can run the recording, and
//! identifies the code that runs cells.

use crate::pair::Pair;
use crate::plan::{HeapCell, Plan, passes_for};
use crate::process;
use crate::results::{HugePages, Settings, Touch, Workload};
use heaplab_heap::FamilyError;
use heaplab_replay::Selected;
use heaplab_replay::threads::STARTED_MAX;
use heaplab_text::words::count;
use heaplab_trace::TraceError;
use heaplab_trace::bundle::{Bundle, Selection};
use heaplab_trace::program::{self, Program};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A heap does not suit the workload.
    #[error("--on: {0}")]
    Unsuited(#[from] FamilyError),
    /// A library cannot serve.
    #[error("--on: {0}")]
    Library(String),
    /// The workload cannot be compiled.
    #[error(transparent)]
    Unread(#[from] TraceError),
    /// A changed workload asks for nothing.
    #[error("{}: nothing is left to replay", .0.display())]
    Empty(PathBuf),
    /// Arenas are replayed on one thread.
    #[error(
        "{}: its blocks live in {} arenas, which are replayed in recorded order on one thread only: leave out --threads",
        path.display(), count((*arenas).into())
    )]
    ArenasOnThreads {
        /// The recording.
        path: PathBuf,
        /// Its arenas.
        arenas: u32,
    },
    /// More threads than a cell can start in time.
    #[error(
        "{}: {} threads ran, and --threads starts no more than {} of them, which takes twenty seconds a cell: replay it in recorded order (without --threads), or one process of it (--process)",
        path.display(), count((*threads).into()), count(STARTED_MAX.into())
    )]
    TooManyThreads {
        /// The recording.
        path: PathBuf,
        /// Its threads.
        threads: u32,
    },
    /// A file cannot be read or started.
    #[error("{what}: {source}")]
    Io {
        /// The failed step.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// The way of measuring a workload.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The blocks that the driver writes.
    pub touch: Touch,
    /// One OS thread for each recorded thread.
    pub threads: bool,
    /// Blocks of time cells.
    pub reps: u32,
    /// Seed of the cells' order and of the bootstrap.
    pub seed: u64,
    /// Differences within this share are called equivalent.
    pub margin: f64,
    /// In space cells.
    pub huge_pages: HugePages,
}

/// Whether the heaps suit the program, and their libraries can be loaded.
///
/// # Errors
/// One does not, or cannot.
pub fn are_ready(
    heaps: &[Box<dyn Selected>],
    program: &Program,
    executable: &Path,
) -> Result<(), PrepareError> {
    for heap in heaps {
        heap.suits(program)?;
        loads(&**heap, executable)?;
    }
    Ok(())
}

/// Whether each recorded thread can have its own thread.
///
/// # Errors
/// The workload of the recording at `path` has arenas, or too many threads.
pub fn can_thread(path: &Path, program: &Program) -> Result<(), PrepareError> {
    let (arenas, threads) = (program.facts().regions, program.facts().threads);
    if arenas > 0 {
        return Err(PrepareError::ArenasOnThreads { path: path.to_path_buf(), arenas });
    }
    if threads > STARTED_MAX {
        return Err(PrepareError::TooManyThreads { path: path.to_path_buf(), threads });
    }
    Ok(())
}

/// Whether the recorded program, or its replayed process, switched huge pages off.
pub fn is_without_huge_pages(bundle: &Bundle, program: &Program) -> bool {
    let process = program.facts().process;
    let without = &bundle.meta().without_huge_pages;
    without.iter().any(|row| process.is_none_or(|process| process == *row))
}

/// Identifies the code that runs cells of these heaps.
///
/// # Errors
/// A file cannot be read.
pub fn code_version(
    heaps: &[Box<dyn Selected>],
    program: &Program,
    executable: &Path,
) -> Result<String, PrepareError> {
    let traits: Vec<_> = heaps.iter().map(|heap| heap.traits()).collect();
    let of_heaps = traits
        .iter()
        .flat_map(|traits| traits.library.iter().chain(&traits.files))
        .map(PathBuf::as_path);
    let files = [executable, program.path()].into_iter().chain(of_heaps);
    let what = || String::from("cannot read this program's own file");
    process::content_version(files).map_err(|source| PrepareError::Io { what: what(), source })
}

impl Plan {
    /// Space and time of `program`, compiled from `bundle`, on all heaps: all blocks, none kept.
    ///
    /// # Errors
    /// This program's own file cannot be read.
    pub fn of(
        bundle: &Bundle,
        program: &Program,
        heaps: &[Box<dyn Selected>],
        executable: &Path,
        how: &How,
    ) -> Result<Plan, PrepareError> {
        let facts = program.facts();
        let settings = Settings {
            touch: how.touch,
            threads: how.threads,
            reps: how.reps,
            passes: passes_for(facts.events, if how.threads { facts.threads.into() } else { 0 }),
            seed: how.seed,
            margin: how.margin,
            confidence: 0.95,
            debug_build: cfg!(debug_assertions),
            huge_pages: Some(how.huge_pages),
            program_without_huge_pages: is_without_huge_pages(bundle, program),
        };
        Ok(Plan {
            program: program.path().to_path_buf(),
            workload: Workload::of(program, bundle.path(), bundle.meta().duration_ns),
            heaps: heaps.iter().map(|heap| HeapCell::of(&**heap, how.threads)).collect(),
            settings,
            cache: Some(bundle.path().join("replay-cells")),
            code_version: code_version(heaps, program, executable)?,
            core: process::last_processor(),
            ..Plan::default()
        })
    }
}

/// Space cells of each heap and workload of a pair: enough to show by how much runs differ. The
/// changes may be small, and some heaps' peaks differ from run to run.
const PAIR_SPACE_CELLS: u32 = 3;

impl Pair {
    /// A recording and a changed one on the same heaps.
    ///
    /// # Errors
    /// A bundle cannot be compiled, has nothing to replay, or does not suit a heap; a heap's
    /// library cannot be loaded.
    pub fn of(
        bundles: [&Bundle; 2],
        selection: Selection,
        heaps: &[Box<dyn Selected>],
        executable: &Path,
        how: &How,
    ) -> Result<Pair, PrepareError> {
        let plan = |bundle: &Bundle| {
            let program = program::cached(bundle, selection)?;
            if program.facts().events == 0 {
                return Err(PrepareError::Empty(bundle.path().into()));
            }
            are_ready(heaps, &program, executable)?;
            let mut plan = Plan::of(bundle, &program, heaps, executable, how)?;
            for heap in &mut plan.heaps {
                heap.space_cells = heap.space_cells.max(PAIR_SPACE_CELLS);
            }
            Ok(plan)
        };
        let (before, mut after) = (plan(bundles[0])?, plan(bundles[1])?);
        // Cells of one block should take about the same time.
        after.settings.passes = before.settings.passes;
        Ok(Pair { before, after })
    }
}

/// Checks once that a library works, so that not every cell fails because of it. A process of its
/// own loads the library, because its constructors run.
///
/// # Errors
/// The library does not work.
fn loads(heap: &dyn Selected, executable: &Path) -> Result<(), PrepareError> {
    let Some(library) = heap.traits().library else { return Ok(()) };
    let mut child = Command::new(executable);
    child.args(["replay", "--load"]).arg(&library).stdin(Stdio::null()).env_clear();
    child
        .envs(process::KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .envs(HeapCell::of(heap, false).environment);
    let what = || format!("{} cannot be started", executable.display());
    let output = child.output().map_err(|source| PrepareError::Io { what: what(), source })?;
    if output.status.success() {
        return Ok(());
    }
    // The last line of standard output has the reason, as JSON; the library may print anything
    // before it.
    let said = String::from_utf8_lossy(&output.stdout);
    match said.lines().last().and_then(|line| serde_json::from_str(line).ok()) {
        Some(reason) => Err(PrepareError::Library(reason)),
        None => Err(PrepareError::Library(format!(
            "{}: loading it ended with {}",
            library.display(),
            output.status
        ))),
    }
}
