//! Blocks and cells: which heap needs less space or time, with what interval.
//!
//! A cell is one heap in a process of its own. A block is one repetition of every cell to be
//! compared, with the null heap and a canary, in random order on one processor. Comparisons are
//! made inside blocks only, so changes of the machine between two blocks affect all heaps alike
//! (`heaplab_statistics` has the tests and intervals).
//! Space is measured once and cached; time is repeated (docs/measuring.md).
//!
//! - [`own_heaps`]: an experiment for a program with heaps of its own.
//! - [`pair`]: a program as recorded and as changed, on the same heaps.
//! - [`prepare`]: a recording and heaps as a plan; [`alias`]: short names of libraries.
//! - [`plan`]: the cells to run, and this machine's part of them.
//! - [`process`]: a cell as a fresh process with a clean environment.
//! - [`mod@run`]: runs the missing blocks, one file a block, so that resuming and merging are file
//!   operations.
//! - [`comparison`], [`summary`] and [`verdict`]: from cells to [`results`], and to sentences.
//! - [`grid`]: the results of several workloads on the same heaps, side by side.
//! - [`many`]: several recordings as one job. [`heap_list`]: every heap there is, with parameters.
//! - [`kept_replays`]: the replays of a recording, kept beside it for its report.
//! - [`text`]: results as a person reads them, in a terminal.
//! - [`table`]: every cell as a row of a Parquet file.

pub mod alias;
pub mod comparison;
#[cfg(test)]
mod drift;
pub mod grid;
pub mod heap_list;
pub mod kept_replays;
pub mod many;
pub mod own_heaps;
pub mod pair;
pub mod plan;
pub mod prepare;
pub mod process;
pub mod results;
pub mod run;
pub mod summary;
pub mod table;
pub mod text;
pub mod trial;
pub mod verdict;

pub use plan::{HeapCell, Plan};
pub use process::{CellRunner, Processes};
pub use results::Results;
pub use run::{ExperimentError, Progress, run};
