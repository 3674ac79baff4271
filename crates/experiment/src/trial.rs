//! A recording and a changed one, replayed on the same heaps by this program's own cells.

use crate::own_heaps::cells;
use crate::pair::{Pair, PairResults, run_pair};
use crate::prepare::{How, PrepareError};
use crate::results::{HugePages, Touch};
use crate::run::{ExperimentError, Progress};
use heaplab_replay::Selected;
use heaplab_trace::bundle::{Bundle, Selection};
use std::path::PathBuf;
use std::time::Duration;

/// Settings for the replays of both workloads.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The program that serves cells.
    pub executable: PathBuf,
    /// Space and no time.
    pub space_only: bool,
    /// Blocks of time cells.
    pub reps: u32,
    /// A cell that runs longer counts as failed.
    pub limit: Duration,
}

/// Why a trial gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Nothing can be measured.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The driver itself could not be measured.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
}

impl Trial {
    /// Replays both. Calls `report` before each cell.
    ///
    /// # Errors
    /// A bundle does not suit a heap, or the driver itself could not be measured.
    pub fn replay(
        &self,
        bundles: [&Bundle; 2],
        selection: Selection,
        heaps: &[Box<dyn Selected>],
        report: impl FnMut(&Progress),
    ) -> Result<PairResults, TrialError> {
        let how = How {
            touch: Touch::Known,
            threads: false,
            reps: self.reps,
            seed: 1,
            margin: 0.03,
            huge_pages: HugePages::None,
        };
        let mut pair = Pair::of(bundles, selection, heaps, &self.executable, &how)?;
        (pair.before.time, pair.after.time) = (!self.space_only, !self.space_only);
        Ok(run_pair(&pair, &cells(self.executable.clone(), self.limit, None), report)?)
    }
}
