//! What a command-line program does with its terminal: how wide it is and whether it takes colours
//! ([`size`]), help laid out for that width ([`help`]), progress ([`progress`]), output whose
//! reader may have gone ([`output`]), files that appear whole or not at all ([`whole_file`]), and a
//! sentence in place of "Bus error" ([`bus`]).
//!
//! Apart from the command line, so that studies have the same, and with errors of its own
//! ([`OutputError`]).

pub mod bus;
pub mod help;
pub mod output;
pub mod progress;
pub mod size;
pub mod whole_file;

pub use output::OutputError;
pub use size::{choose_colours, columns, error_width, has_colours, look, width};
