//! Workloads from stated distributions. They show a designer of heaps what a heap does with sizes
//! and lifetimes of a known shape. A generated workload proves nothing about a real program.
//!
//! A [`Spec`] states sizes and lifetimes. A [`Generator`] generates the events, in memory that
//! grows with the live objects only. Its [`Statement`] compares the stated figures with the reached
//! ones.
//!
//! The same spec gives the same events for all time. The generator is xoshiro256** seeded by
//! splitmix64 ([`random`]), written here, and only the statement is computed with floating point.

pub mod generator;
mod lifetimes;
pub mod random;
pub mod sizes;
pub mod spec;
pub mod statement;

pub use generator::Generator;
pub use sizes::Sizes;
pub use spec::{Lifetimes, Spec, SpecError};
pub use statement::Statement;
