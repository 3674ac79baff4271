//! Runs the missing blocks of a plan. Each block has one file, written whole. A block with a file
//! is not run again, so resuming means calling this again, and merging means putting the files of
//! all machines into one folder.

use crate::plan::{CANARY, NULL_HEAP, Plan};
use crate::process::CellRunner;
use crate::results::{CellFailure, Machine, Results};
use crate::summary::summarize;
use heaplab_replay::{CellKind, CellReport, CellRequest, SpaceReport};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A file or folder of results.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The failed step.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The folder holds the results of something else.
    #[error("{}: is a block of another experiment (another workload or command, other heaps, settings or programs); name an empty folder with --results", .0.display())]
    OtherExperiment(PathBuf),
    /// A file of results that cannot be read.
    #[error("{}: is not a block's results: {reason}; remove it to run the block again", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// The driver itself could not be measured, so nothing can.
    #[error("the driver's own cost could not be measured: {0}")]
    Driver(String),
    /// The run was asked to end ([`CellRunner::is_stopped`]).
    #[error("interrupted; finished cells are kept, and the same command continues")]
    Interrupted,
}

impl ExperimentError {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| ExperimentError::Io { path, action, source }
    }
}

/// The progress of an experiment.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Cells done.
    pub done: u32,
    /// Cells there are.
    pub total: u32,
    /// The running cell: "time block 3: jemalloc".
    pub now: String,
}

/// One block of time cells, as its file holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// The experiment it belongs to.
    pub experiment: String,
    /// Its number.
    pub block: u32,
    /// Its cells, in the order they ran.
    pub cells: Vec<BlockCell>,
}

/// One cell of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockCell {
    /// The heap, the null heap, or the canary.
    pub heap: String,
    /// The result or the failure.
    pub report: CellReport,
}

/// The space cells of one heap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpaceCells {
    /// The heap.
    pub heap: String,
    /// The results of its cells.
    pub reports: Vec<SpaceReport>,
    /// The result of a cell under the other setting of huge pages.
    pub beside: Option<SpaceReport>,
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Space cells of the heaps, in the plan's order.
    pub space: Vec<SpaceCells>,
    /// Space of a driver without a heap.
    pub null_space: Option<SpaceReport>,
    /// The same under the other setting of huge pages.
    pub null_beside: Option<SpaceReport>,
    /// Time blocks, in order.
    pub blocks: Vec<Block>,
    /// Cells of space and verification that failed, by heap.
    pub failures: Vec<(String, CellFailure)>,
}

/// The cells of `plan`.
pub fn cells(plan: &Plan) -> u32 {
    let heaps = plan.heaps.len() as u32;
    let mut total = if plan.verify { heaps } else { 0 };
    if plan.space {
        total += 1 + plan.heaps.iter().map(|heap| heap.space_cells).sum::<u32>();
        total += if has_beside(plan) { 1 + heaps } else { 0 };
    }
    if plan.time {
        total += plan.blocks().count() as u32 * (heaps + 2);
    }
    total
}

/// Runs the missing cells of `plan` and summarizes all. Calls `report` before each cell.
pub fn run(
    plan: &Plan,
    runner: &dyn CellRunner,
    mut report: impl FnMut(&Progress),
) -> Result<(Results, Measured), ExperimentError> {
    let mut progress = Progress { done: 0, total: cells(plan), now: String::new() };
    let mut tell = move |now: String| {
        progress.now = now;
        report(&progress);
        progress.done += 1;
    };
    let mut measured = Measured::default();
    if plan.verify {
        verify(plan, runner, &mut measured, &mut tell)?;
    }
    if plan.space {
        space(plan, runner, &mut measured, &mut tell)?;
    }
    if plan.time {
        for block in plan.blocks() {
            let block = time_block(plan, runner, block, &mut tell)?;
            measured.blocks.push(block);
        }
        add_other_shards(plan, &mut measured)?;
    }
    Ok((summarize(plan, &measured, machine()), measured))
}

pub(crate) fn verify(
    plan: &Plan,
    runner: &dyn CellRunner,
    measured: &mut Measured,
    tell: &mut dyn FnMut(String),
) -> Result<(), ExperimentError> {
    for heap in &plan.heaps {
        tell(format!("verify {}", heap.name));
        let verified = runner.run(&plan.request(&heap.name, CellKind::Verify), &heap.environment);
        go_on(runner)?;
        if let Err(reason) = verified {
            measured
                .failures
                .push((heap.name.clone(), CellFailure { kind: "verify".into(), block: 0, reason }));
        }
    }
    Ok(())
}

/// A cell that ended because all was to end is no failure of its heap.
fn go_on(runner: &dyn CellRunner) -> Result<(), ExperimentError> {
    if runner.is_stopped() { Err(ExperimentError::Interrupted) } else { Ok(()) }
}

/// Runs the space cells of `plan` into `measured`. Calls `tell` before each.
///
/// # Errors
/// The run was asked to end, or the driver itself could not be measured.
pub fn space(
    plan: &Plan,
    runner: &dyn CellRunner,
    measured: &mut Measured,
    tell: &mut dyn FnMut(String),
) -> Result<(), ExperimentError> {
    tell(format!("space: {NULL_HEAP}"));
    let null = space_cell(plan, runner, NULL_HEAP, 0);
    go_on(runner)?;
    measured.null_space = Some(null.map_err(ExperimentError::Driver)?);
    if has_beside(plan) {
        tell(format!("space, other huge pages: {NULL_HEAP}"));
        measured.null_beside = beside(plan, runner, NULL_HEAP);
    }
    for heap in &plan.heaps {
        let mut cells = SpaceCells { heap: heap.name.clone(), ..SpaceCells::default() };
        for repeat in 0..heap.space_cells {
            tell(format!("space: {}", heap.name));
            let report = space_cell(plan, runner, &heap.name, repeat);
            go_on(runner)?;
            match report {
                Ok(report) => cells.reports.push(report),
                Err(reason) => {
                    measured.failures.push((
                        heap.name.clone(),
                        CellFailure { kind: "space".into(), block: repeat, reason },
                    ));
                    break;
                }
            }
        }
        if has_beside(plan) {
            tell(format!("space, other huge pages: {}", heap.name));
            cells.beside = beside(plan, runner, &heap.name).filter(|_| !cells.reports.is_empty());
            go_on(runner)?;
        }
        measured.space.push(cells);
    }
    Ok(())
}

/// Whether this machine has another setting of huge pages to measure.
fn has_beside(plan: &Plan) -> bool {
    plan.request_beside(NULL_HEAP).is_some() && machine().huge_pages != "never"
}

/// A heap under the other setting of huge pages. A failure here gives no result, and does not fail
/// the comparison.
fn beside(plan: &Plan, runner: &dyn CellRunner, heap: &str) -> Option<SpaceReport> {
    asked_cell(plan, runner, plan.request_beside(heap)?, 0).ok()
}

/// A space cell by the plan, from the cache if possible; the error says in words how it failed.
///
/// # Errors
/// The cell failed.
pub fn space_cell(
    plan: &Plan,
    runner: &dyn CellRunner,
    heap: &str,
    repeat: u32,
) -> Result<SpaceReport, String> {
    asked_cell(plan, runner, plan.request(heap, CellKind::Space), repeat)
}

/// A space cell from the cache, or run and put there.
fn asked_cell(
    plan: &Plan,
    runner: &dyn CellRunner,
    request: CellRequest,
    repeat: u32,
) -> Result<SpaceReport, String> {
    let heap = request.heap.as_str();
    let machine = machine();
    let identity = (
        &plan.workload,
        plan.environment(heap),
        &request,
        &plan.code_version,
        repeat,
        &machine.kernel,
        &machine.huge_pages,
    );
    let key = xxh3_64(&serde_json::to_vec(&identity).unwrap_or_default());
    let cache = plan.cache.as_ref().filter(|_| !plan.writes_file(heap));
    let kept = cache.map(|folder| folder.join(format!("space-{key:016x}.json")));
    if let Some(report) = kept.as_deref().and_then(Kept::read) {
        return Ok(report);
    }
    match runner.run(&request, plan.environment(heap))? {
        CellReport::Space(report) => {
            if let Some(path) = &kept {
                // A result that cannot be kept is measured again next time.
                let _ = write_json(path, &Kept::of(report.clone()));
            }
            Ok(report)
        }
        other => Err(format!("it reported {other:?} instead of space")),
    }
}

/// A space cell from its file. Nobody looks at these files, and a damaged one would pass for a
/// measurement, so a doubtful one is measured again.
#[derive(Serialize, Deserialize)]
struct Kept {
    checksum: String,
    report: SpaceReport,
}

impl Kept {
    fn of(report: SpaceReport) -> Kept {
        Kept {
            checksum: format!("{:016x}", xxh3_64(&serde_json::to_vec(&report).unwrap_or_default())),
            report,
        }
    }

    /// The cached result of this name, if the file is as it was written.
    fn read(path: &Path) -> Option<SpaceReport> {
        let Kept { checksum, report } = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let whole = Kept::of(report);
        (whole.checksum == checksum).then_some(whole.report)
    }
}

fn time_block(
    plan: &Plan,
    runner: &dyn CellRunner,
    number: u32,
    tell: &mut dyn FnMut(String),
) -> Result<Block, ExperimentError> {
    let path = plan.results.as_ref().map(|folder| folder.join(block_name(number)));
    if let Some(block) =
        path.as_ref().filter(|path| path.exists()).map(|path| read_block(plan, path)).transpose()?
    {
        block.cells.iter().for_each(|_| tell(format!("time block {number}: done before")));
        return Ok(block);
    }
    let block = block(plan, runner, number, tell)?;
    if let Some(path) = &path {
        write_json(path, &block)?;
    }
    Ok(block)
}

/// Runs the cells of time block `number` in their order. Calls `tell` before each.
///
/// # Errors
/// The run was asked to end. A failed cell is in the block.
pub fn block(
    plan: &Plan,
    runner: &dyn CellRunner,
    number: u32,
    tell: &mut dyn FnMut(String),
) -> Result<Block, ExperimentError> {
    let mut block = Block { experiment: plan.name(), block: number, cells: Vec::new() };
    for heap in plan.order(number) {
        tell(format!("time block {}: {heap}", number + 1));
        let kind = if heap == CANARY { CellKind::Canary } else { CellKind::Time };
        let report = runner.run(&plan.request(heap, kind), plan.environment(heap));
        go_on(runner)?;
        let report = report.unwrap_or_else(|reason| CellReport::Failed { reason });
        block.cells.push(BlockCell { heap: heap.into(), report });
    }
    Ok(block)
}

fn block_name(number: u32) -> String {
    format!("block-{number:05}.json")
}

/// Blocks in the results folder that other machines, or earlier calls with more repetitions, ran.
fn add_other_shards(plan: &Plan, measured: &mut Measured) -> Result<(), ExperimentError> {
    let Some(folder) = &plan.results else { return Ok(()) };
    for entry in fs::read_dir(folder).map_err(ExperimentError::io(folder, "list"))? {
        let path = entry.map_err(ExperimentError::io(folder, "list"))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if !(name.starts_with("block-") && name.ends_with(".json")) {
            continue;
        }
        let block = read_block(plan, &path)?;
        if !measured.blocks.iter().any(|known| known.block == block.block) {
            measured.blocks.push(block);
        }
    }
    measured.blocks.sort_by_key(|block| block.block);
    Ok(())
}

fn read_block(plan: &Plan, path: &Path) -> Result<Block, ExperimentError> {
    let bytes = fs::read(path).map_err(ExperimentError::io(path, "read"))?;
    let malformed = |error: serde_json::Error| ExperimentError::Malformed {
        path: path.into(),
        reason: error.to_string(),
    };
    let block: Block = serde_json::from_slice(&bytes).map_err(malformed)?;
    check_block(plan, &block, path)?;
    Ok(block)
}

/// Whether `block`, read from `path`, could be the output of a run of `plan`.
///
/// # Errors
/// The block is of another experiment, or incomplete.
pub fn check_block(plan: &Plan, block: &Block, path: &Path) -> Result<(), ExperimentError> {
    if block.experiment != plan.name() {
        return Err(ExperimentError::OtherExperiment(path.into()));
    }
    match wrong_with(plan, block, path) {
        Some(reason) => Err(ExperimentError::Malformed { path: path.into(), reason }),
        None => Ok(()),
    }
}

/// The difference between `block`, read from `path`, and the output of a run of `plan`: fewer cells
/// or passes would silently count as less.
fn wrong_with(plan: &Plan, block: &Block, path: &Path) -> Option<String> {
    let name = block_name(block.block);
    if path.file_name().is_none_or(|own| own != name.as_str()) {
        return Some(format!("it holds block {}, whose file is called {name}", block.block));
    }
    let (expected, found) = (
        plan.order(block.block),
        block.cells.iter().map(|cell| cell.heap.as_str()).collect::<Vec<_>>(),
    );
    if expected != found {
        return Some(format!(
            "expected the cells {}, found {}",
            expected.join(", "),
            if found.is_empty() { "none".into() } else { found.join(", ") }
        ));
    }
    let wrong = |cell: &&BlockCell| match &cell.report {
        CellReport::Failed { .. } => false,
        CellReport::Canary { .. } => cell.heap != CANARY,
        CellReport::Time(report) => {
            let sum = report.passes_ns.iter().try_fold(0_u64, |sum, pass| sum.checked_add(*pass));
            let passes = report.passes_ns.len() == plan.settings.passes as usize;
            cell.heap == CANARY || !passes || sum.is_none()
        }
        CellReport::Space(_) | CellReport::Verified { .. } => true,
    };
    let cell = block.cells.iter().find(wrong)?;
    Some(format!(
        "expected of the cell {} the times of {} passes, or of the canary one time; found something else",
        cell.heap, plan.settings.passes
    ))
}

/// Writes `value` beside `path` and renames, so that the file appears whole or not at all.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), ExperimentError> {
    let bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| ExperimentError::io(path, "write")(error.into()))?;
    write_whole(path, &bytes)
}

/// Writes `bytes` beside `path` and renames, so that the file appears whole or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ExperimentError> {
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(ExperimentError::io(folder, "create"))?;
    let mut file =
        tempfile::NamedTempFile::new_in(folder).map_err(ExperimentError::io(folder, "write to"))?;
    // Names the file itself: the other writer's error names a file that nobody knows.
    file.as_file_mut().write_all(bytes).map_err(ExperimentError::io(path, "write"))?;
    file.persist(path)
        .map_err(|error| ExperimentError::io(path, "give its name to")(error.error))?;
    Ok(())
}

/// This machine.
pub fn machine() -> Machine {
    let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_string();
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = processor
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(": "));
    let huge_pages = line("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = huge_pages
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or("", |(word, _)| word);
    Machine {
        processor: named.map_or(String::new(), |(_, name)| name.trim().into()),
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        kernel: line("/proc/sys/kernel/osrelease"),
        huge_pages: chosen.into(),
        architecture: std::env::consts::ARCH.into(),
    }
}
