//! Slop, clownshoes, growth, churn and leaks, with what each would save.
//!
//! For whoever asks what to change in a program. The findings look over the shoulder of the profile's pass
//! ([`Detectors`] is an [`heaplab_profile::Observer`]), so that a report reads its recording once. Each detector is one
//! module: [`clownshoes`], [`growth`], [`churn`], [`leaks`]; [`slop`] makes the counts table and the sums by allocator.
//!
//! Source: "Clownshoes available in sizes 2^10+1 and up!" (2011) and "Please grow your buffers exponentially" (2014),
//! both on Firefox. Deviation: costs are given for several allocators, because what is free on one is waste on another.
//! A site that reads its usable size is never called waste.

pub mod churn;
pub mod clownshoes;
pub mod detect;
pub mod growth;
pub mod leaks;
mod model;
mod options;
mod sites;
pub mod slop;
mod words;

pub use detect::Detectors;
pub use model::*;
pub use options::Options;
