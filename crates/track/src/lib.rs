//! A program's memory over the commits of its project.
//!
//! For developers who ask which commit cost memory. Each commit is built in a tree of its own, and
//! its command is recorded. The store keeps the live bytes at each named phase, as "Are we slim
//! yet" did for Firefox (start, loaded, closed, 30 s later). [`Store`](store::Store) is a folder
//! with one small file a run. [`steps`](steps::steps) tells changes of the program from noise.
//! [`History`] is a store's content as text, JSON and a page. [`bisect`] finds the commit of a step
//! whose neighbours were not measured.
//!
//! ```
//! // Twenty commits, each run three times: one of them needs 64 KiB more.
//! let series: Vec<Vec<f64>> =
//!     (0..20).map(|at| vec![if at < 13 { 1048576.0 } else { 1114112.0 }; 3]).collect();
//! let steps = heaplab_track::steps::steps(&series);
//! assert_eq!((steps[0].at, steps[0].shift.change.value), (13, 65536.0));
//! ```

#![forbid(unsafe_code)]

pub mod bench;
pub mod bisect;
mod error;
pub mod figures;
mod history;
pub mod measure;
mod noise;
pub mod page;
pub mod plan;
pub mod repository;
pub mod run;
pub mod steps;
pub mod store;
pub mod text;
pub mod work;

pub use error::TrackError;
pub use history::{Figure, Gap, History, Place, Point, Series, Stepped};
