//! Questions of a snapshot as a person writes them, and their answers.
//!
//! - [`subject`]: an object by its id, or classes by a pattern.
//! - [`plan`] and [`answer`]: objects as rows, filtered, grouped, sorted.
//! - [`object`]: the fields of an object, and conditions on them.
//! - [`assertion`]: what has to hold of a heap.
//! - [`filter`]: DevTools' filters by name.

pub mod answer;
pub mod assertion;
pub mod filter;
pub mod object;
pub mod plan;
pub mod subject;

/// What was asked for is not in the file: asking differently helps. The text says what there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotThere(pub String);
