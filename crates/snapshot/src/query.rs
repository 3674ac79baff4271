//! Questions of a snapshot as a person writes them, and their answers.
//!
//! - [`subject`]: an object by its id, or classes by a pattern.
//! - [`plan`] and [`answer`]: objects as rows, filtered, grouped, sorted.
//! - [`object`]: the fields of an object.
//! - [`condition`]: conditions on them.
//! - [`assertion`]: conditions that a heap must fulfil.
//! - [`filter`]: DevTools' filters by name.

pub mod answer;
pub mod assertion;
pub mod condition;
pub mod filter;
pub mod object;
pub mod plan;
pub mod subject;

/// The file lacks the named thing. The text lists what the file has, so that the user can ask for
/// that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotThere(pub String);
