//! Answers about a heap snapshot as a person and as a machine reads them: each module has one
//! answer of `heaplab_snapshot`, as text of so many columns and as JSON (docs/snapshot-json.md);
//! some have it as an HTML file, too.
//!
//! It reads no file and prints nothing.

#![forbid(unsafe_code)]

pub mod about_object;
mod attachment;
pub mod check;
pub mod convert;
pub mod diff;
pub mod dominators;
pub mod leaks;
pub mod object;
pub mod packed;
pub mod page;
pub mod path;
pub mod query;
pub mod repair;
pub mod retainers;
pub mod rows;
pub mod strings;
pub mod summary;
pub mod validate;
