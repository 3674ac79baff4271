//! The spool: all that a recording knows before it is finished, in a form that survives the death
//! of any process (docs/spool-format.md).

pub mod block;
pub mod note;
pub mod reader;
pub mod record;
pub mod widths;
pub mod writer;

/// The file of blocks in the spool folder.
pub const EVENTS_FILE: &str = "events.spool";
/// File of marks set from outside, a line of JSON each.
pub const MARKS_FILE: &str = "marks";
