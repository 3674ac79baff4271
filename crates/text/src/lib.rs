//! What text for a person is made of, the same in every command, page and study: numbers in
//! sentences ([`words`]), lines that fit a width ([`lines`]), tables ([`table`]), sections with
//! colours ([`paint`]), what stands below the options of a command ([`help`]), numbers as a JVM
//! writes them ([`jcmd`]), words of a command that a shell takes ([`shell`]), and text within HTML
//! and XML ([`markup`]).
//!
//! It writes nothing and asks no terminal: who prints knows the columns.
//!
//! ```
//! use heaplab_text::words::{bytes, plural};
//! assert_eq!(format!("{} in {}", bytes(9_247_632), plural(1, "block")), "8.82 MiB in 1 block");
//! ```

pub mod help;
pub mod jcmd;
pub mod lines;
pub mod markup;
pub mod paint;
pub mod shell;
pub mod table;
pub mod words;
