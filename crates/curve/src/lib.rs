//! Space against time for any garbage-collected command.
//!
//! Such a program is no point (seconds, bytes) but a curve: later collections need more space and
//! less time. So a change (another allocator, another collector, another commit) is compared curve
//! against curve: space at equal time, time at equal space, never at an equal parameter. Source:
//! "Modelling the major GC" of Jane Street's post on OCaml's best-fit allocator.
//!
//! - [`vary`]: the range of a parameter. [`question`]: a user's question. [`plan`]: variants,
//!   settings, blocks. [`handling`]: exit statuses, output, processors. [`launch`]: from a cell to
//!   a command line.
//! - [`source`]: sources of measurements. [`measure`]: one run, in a process of its own. [`tree`]:
//!   its processes' memory. [`lab`]: the lab's own heaps. [`runtimes`]: runtimes' reports of their
//!   collections. [`mod@run`]: blocks, files, resuming.
//! - [`fit`]: the curve. [`sample`]: points and intervals. [`compare`]: curves and points against
//!   each other. [`frontier`]: the edge of points without a curve. [`effect`]: whether the
//!   parameter has an effect.
//! - [`summary`], [`verdict`], [`budget`]: [`results`] and sentences. [`svg`], [`page`], [`table`]:
//!   pictures and [`files`]. [`minimum`]: the least setting that runs.

pub mod budget;
pub mod cell;
pub mod compare;
#[cfg(test)]
mod coverage;
pub mod effect;
pub mod expanded;
pub mod files;
pub mod fit;
pub mod frontier;
pub mod handling;
pub mod lab;
pub mod launch;
pub mod markdown;
pub mod measure;
pub mod minimum;
pub mod page;
pub mod plan;
pub mod question;
pub mod results;
pub mod run;
pub mod runtimes;
pub mod sample;
#[cfg(test)]
mod simulated;
pub mod source;
pub mod summary;
pub mod svg;
pub mod table;
pub mod text;
pub mod tree;
pub mod vary;
pub mod verdict;
