//! Runs the missing cells of a plan, one file a block. After each cell its block's file is written
//! anew, whole. So an experiment that ends early (Ctrl-C, a full disk, a lost machine) keeps every
//! measurement. Running the same plan again continues behind the last one, and merging means
//! putting the files of all machines into one folder.

use crate::cell::{Canary, CellReport};
use crate::plan::{CellId, Plan};
use crate::source::{CellSource, Stopped};
use heaplab_experiment::run::{ExperimentError, write_json};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// A setting that never ran is not tried again after failures in this many blocks.
const FAILURES_ENOUGH: u32 = 2;

/// One block, as its file holds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// The experiment it belongs to.
    pub experiment: String,
    /// Its number.
    pub block: u32,
    /// The canary before its first cell.
    pub canary: Option<Canary>,
    /// Its cells so far, in the order they ran.
    pub cells: Vec<BlockCell>,
}

/// One cell of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockCell {
    /// The cell's identity.
    pub cell: CellId,
    /// The result.
    pub report: CellReport,
}

/// The progress of an experiment.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Cells done.
    pub done: u32,
    /// Cells there are.
    pub total: u32,
    /// Cells that earlier calls had done, among those done.
    pub known: u32,
    /// The running cell.
    pub now: String,
}

/// The reason why an experiment ended early.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// It was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The results cannot be written or read.
    #[error(transparent)]
    Results(#[from] ExperimentError),
}

/// All measurements, and the reason for an early end.
#[derive(Debug, Default)]
pub struct Measured {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// Why it ended early.
    pub ended: Option<Ended>,
}

/// Runs the missing cells of `plan`. Calls `report` before each cell.
pub fn run(plan: &Plan, source: &dyn CellSource, report: impl FnMut(&Progress)) -> Measured {
    let mut measured = Measured::default();
    if let Err(ended) = run_all(plan, source, report, &mut measured.blocks) {
        measured.ended = Some(ended);
    }
    measured.blocks.retain(|block| !block.cells.is_empty());
    measured.blocks.sort_by_key(|block| block.block);
    measured
}

/// Whether an earlier call, or other machines, measured all of this plan.
pub fn is_complete(plan: &Plan) -> bool {
    let Some(folder) = plan.results.as_ref().filter(|folder| folder.is_dir()) else { return false };
    let cells = plan.cells().len();
    read_blocks(plan, folder).is_ok_and(|blocks| {
        plan.blocks().all(|number| {
            blocks.iter().any(|block| block.block == number && block.cells.len() == cells)
        })
    })
}

fn run_all(
    plan: &Plan,
    source: &dyn CellSource,
    mut report: impl FnMut(&Progress),
    blocks: &mut Vec<Block>,
) -> Result<(), Ended> {
    if let Some(folder) = &plan.results {
        *blocks = read_blocks(plan, folder)?;
    }
    let cells = plan.cells().len() as u32;
    let is_done = |block: &u32, blocks: &[Block]| {
        blocks.iter().any(|known| known.block == *block && known.cells.len() as u32 == cells)
    };
    let missing: Vec<u32> = plan.blocks().filter(|block| !is_done(block, blocks)).collect();
    let warmups = if missing.is_empty() { 0 } else { plan.settings.warmup * cells };
    let known = (plan.blocks().count() - missing.len()) as u32 * cells;
    let mut progress = Progress {
        done: known,
        total: plan.blocks().count() as u32 * cells + warmups,
        known,
        now: String::new(),
    };
    let mut tell = |now: String| {
        progress.now = now;
        report(&progress);
        progress.done += 1;
    };
    if !missing.is_empty() {
        for (round, cell) in (0..plan.settings.warmup).flat_map(|round| {
            plan.order(u32::MAX - round).into_iter().map(move |cell| (round, cell))
        }) {
            tell(format!("warm-up {}: {}", round + 1, plan.label(cell)));
            source.run(plan, cell)?;
        }
    }
    for number in missing {
        run_block(plan, source, number, blocks, &mut tell)?;
    }
    Ok(())
}

/// Runs the missing cells of one block.
fn run_block(
    plan: &Plan,
    source: &dyn CellSource,
    number: u32,
    blocks: &mut Vec<Block>,
    tell: &mut dyn FnMut(String),
) -> Result<(), Ended> {
    let failures = failures(blocks);
    let index = match blocks.iter().position(|block| block.block == number) {
        Some(index) => index,
        None => {
            blocks.push(Block { experiment: plan.identity(), block: number, ..Block::default() });
            blocks.len() - 1
        }
    };
    let block = &mut blocks[index];
    if block.canary.is_none() {
        block.canary = Some(source.canary(plan)?);
    }
    for cell in plan.order(number) {
        tell(format!("block {}: {}", number + 1, plan.label(cell)));
        if block.cells.iter().any(|known| known.cell == cell) {
            continue;
        }
        let report = match failures.get(&cell) {
            Some(FAILURES_ENOUGH..) => CellReport::Skipped,
            _ => source.run(plan, cell)?,
        };
        block.cells.push(BlockCell { cell, report });
        if let Some(folder) = &plan.results {
            write_json(&folder.join(block_name(number)), block)?;
        }
    }
    Ok(())
}

/// Number of failures of each cell that never ran.
fn failures(blocks: &[Block]) -> HashMap<CellId, u32> {
    let mut failures: HashMap<CellId, u32> = HashMap::new();
    let cells = || blocks.iter().flat_map(|block| &block.cells);
    for cell in cells().filter(|cell| matches!(cell.report, CellReport::Failed(_))) {
        *failures.entry(cell.cell).or_default() += 1;
    }
    for cell in cells().filter(|cell| cell.report.measure().is_some()) {
        failures.remove(&cell.cell);
    }
    failures
}

fn block_name(number: u32) -> String {
    format!("block-{number:05}.json")
}

/// The blocks in a folder of results: of earlier calls, and of other machines.
fn read_blocks(plan: &Plan, folder: &Path) -> Result<Vec<Block>, ExperimentError> {
    let io = |path: &Path, action: &'static str| {
        let path = path.to_path_buf();
        move |source| ExperimentError::Io { path, action, source }
    };
    fs::create_dir_all(folder).map_err(io(folder, "create"))?;
    let mut blocks = Vec::new();
    for entry in fs::read_dir(folder).map_err(io(folder, "list"))? {
        let path = entry.map_err(io(folder, "list"))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if name.starts_with("block-") && name.ends_with(".json") {
            let bytes = fs::read(&path).map_err(io(&path, "read"))?;
            blocks.push(read_block(plan, &path, &bytes)?);
        }
    }
    Ok(blocks)
}

fn read_block(plan: &Plan, path: &Path, bytes: &[u8]) -> Result<Block, ExperimentError> {
    let malformed = |reason: String| ExperimentError::Malformed { path: path.into(), reason };
    let block: Block =
        serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
    if block.experiment != plan.identity() {
        return Err(ExperimentError::OtherExperiment(path.into()));
    }
    let name = block_name(block.block);
    if path.file_name().is_none_or(|own| own != name.as_str()) {
        return Err(malformed(format!(
            "it holds block {}, whose file is called {name}",
            block.block
        )));
    }
    let order = plan.order(block.block);
    match block.cells.iter().enumerate().find(|(at, cell)| {
        !order.contains(&cell.cell)
            || block.cells[..*at].iter().any(|known| known.cell == cell.cell)
    }) {
        Some((_, wrong)) => Err(malformed(format!(
            "the cell {:?} is none of this block, or stands there twice",
            wrong.cell
        ))),
        None => Ok(block),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Failure, Measure};
    use crate::plan::{Settings, variants};
    use crate::vary::Vary;
    use std::cell::RefCell;

    /// Returns fixed figures, and ends after some cells.
    struct Fixed {
        left: RefCell<u32>,
        runs: RefCell<Vec<CellId>>,
    }

    impl CellSource for Fixed {
        fn run(&self, _: &Plan, cell: CellId) -> Result<CellReport, Stopped> {
            let mut left = self.left.borrow_mut();
            *left = left.checked_sub(1).ok_or(Stopped::Interrupted)?;
            self.runs.borrow_mut().push(cell);
            Ok(match cell.setting {
                Some(0) => {
                    CellReport::Failed(Failure { reason: "no memory".into(), ..Failure::default() })
                }
                _ => CellReport::Measured(Box::new(Measure { wall_ns: 7, ..Measure::default() })),
            })
        }

        fn canary(&self, _: &Plan) -> Result<Canary, Stopped> {
            Ok(Canary { cpu_ns: 5, wall_ns: 5 })
        }
    }

    fn plan(folder: &Path) -> Plan {
        let vary = Vary::of_variable("GOGC=1..4x3").unwrap();
        let variants = variants(&["./b".into()], &vary, &[]).unwrap();
        let settings = Settings { reps: 5, default: true, ..Settings::default() };
        Plan {
            vary,
            variants,
            settings,
            runtime: None,
            shard: (0, 1),
            results: Some(folder.into()),
            code_version: String::new(),
        }
    }

    fn fixed(left: u32) -> Fixed {
        Fixed { left: RefCell::new(left), runs: RefCell::default() }
    }

    #[test]
    fn an_interrupted_experiment_keeps_every_cell_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path());
        let first = run(&plan, &fixed(6), |_| {});
        assert!(matches!(first.ended, Some(Ended::Stopped(Stopped::Interrupted))));
        assert_eq!(first.blocks.iter().map(|block| block.cells.len()).collect::<Vec<_>>(), [4, 2]);
        let source = fixed(100);
        let second = run(&plan, &source, |_| {});
        assert!(second.ended.is_none());
        assert_eq!(second.blocks.iter().map(|block| block.cells.len()).collect::<Vec<_>>(), [4; 5]);
        // Of twelve cells with running settings four were done earlier; the failing setting was
        // tried in two of five blocks.
        let failed = second
            .blocks
            .iter()
            .flat_map(|block| &block.cells)
            .filter(|cell| matches!(cell.report, CellReport::Failed(_)))
            .count();
        assert_eq!((failed, source.runs.borrow().len()), (2, 5 * 3 + 2 - 6));
        let orders: Vec<Vec<CellId>> = (0..5).map(|block| plan.order(block)).collect();
        assert!(orders.iter().any(|order| *order != orders[0]), "blocks have orders of their own");
    }

    #[test]
    fn shards_are_merged_by_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan(folder.path());
        plan.shard = (1, 2);
        assert_eq!(run(&plan, &fixed(100), |_| {}).blocks.len(), 2);
        plan.shard = (0, 2);
        assert_eq!(
            run(&plan, &fixed(100), |_| {}).blocks.len(),
            5,
            "those of the other part are read"
        );
    }

    #[test]
    fn files_of_something_else_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan(folder.path());
        run(&plan, &fixed(100), |_| {});
        fs::rename(folder.path().join("block-00003.json"), folder.path().join("block-00009.json"))
            .unwrap();
        let said = |plan: &Plan| run(plan, &fixed(100), |_| {}).ended.unwrap().to_string();
        assert!(said(&plan).contains("whose file is called block-00003.json"), "{}", said(&plan));
        fs::write(folder.path().join("block-00009.json"), "{").unwrap();
        assert!(said(&plan).contains("is not a block's results"), "{}", said(&plan));
        fs::remove_file(folder.path().join("block-00009.json")).unwrap();
        plan.settings.timeout_ms += 1;
        assert!(said(&plan).contains("another experiment"), "{}", said(&plan));
    }
}
