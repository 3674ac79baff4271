//! The terminal of a command-line program: its width and colours ([`size`]), help laid out for that
//! width ([`help`]), progress ([`progress`]), output whose reader may have gone ([`output`]), files
//! that appear whole or not at all ([`whole_file`]), and mapped files, with a sentence in place of
//! "Bus error" ([`bus`]).
//!
//! A crate of its own, because studies use it too, with its own errors ([`OutputError`]).

pub mod bus;
pub mod help;
pub mod output;
pub mod progress;
pub mod size;
pub mod whole_file;

pub use output::OutputError;
pub use size::{choose_colours, columns, error_width, has_colours, look, width};
