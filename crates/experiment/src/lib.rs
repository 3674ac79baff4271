//! Blocks and cells: which heap needs less space or time, with what interval.
//!
//! - [`results`]: what an experiment found, as data.

pub mod results;
