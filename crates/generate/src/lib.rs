//! Workloads from stated distributions, for whoever designs a heap and wants to know what it does
//! with sizes and lifetimes of a known shape. What is generated proves nothing about a real
//! program.
//!
//! A [`Spec`] says sizes and lifetimes; a [`Generator`] gives the events, in memory that grows with
//! the live objects only; its [`Statement`] holds what was stated against what was reached.
//!
//! The same spec gives the same events for all time: the generator is xoshiro256** seeded by
//! splitmix64 ([`random`]), written here, and nothing is computed with floating point but the
//! statement.

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
