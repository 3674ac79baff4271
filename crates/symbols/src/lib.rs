//! From module and offset to function, file, line and inlined frames.
//!
//! Turns addresses of a program into names: at the end of a recording, for `heaplab symbolize`, or
//! for any other tool. The crate knows nothing of traces.
//!
//! Three layers, each usable without the ones below it in this list:
//! - [`Image`] and [`Resolver`]: bytes of ELF files in, names out. No I/O.
//! - [`locate`]: which files on this machine belong to a module, by build id, `.gnu_debuglink` and
//!   `.gnu_debugaltlink`, the symbols inside it (`.gnu_debugdata`), and the files of split DWARF
//!   (`.dwo`, `.dwp`).
//! - [`resolve_module`]: both together, for all addresses of one module at once, so that at most
//!   one module's debug information is in memory.
//!
//! # A missing name is better than a wrong one
//! A name is given only when a function of the debug information or a sized symbol *contains* the
//! address. Many tools take the nearest symbol before it, which in a stripped library names an
//! unrelated exported function. So symbols of size zero (hand-written assembler without `.size`)
//! are never used. A file with another build id than the recorded one is another program: it gives
//! no names at all.
//!
//! # Addresses
//! An address is a virtual address as the file numbers it (address in memory less the load bias).
//! For a return address ask one byte lower: the call may be the last instruction of a function that
//! does not return.
//!
//! # Example
//! ```
//! let options = heaplab_symbols::Options::default();
//! let executable = std::env::current_exe().unwrap();
//! let report = heaplab_symbols::resolve_module(&executable, "", &options, &[0], |_, places| {
//!     // The ELF header is no function.
//!     assert!(places.is_empty());
//! });
//! assert!(report.file.is_some(), "{:?}", report.notes);
//! ```

mod abbreviations;
mod demangle;
mod error;
mod image;
pub mod locate;
mod mini;
mod module;
mod resolver;
mod split;
mod symbol_table;

pub use demangle::demangle;
pub use error::SymbolError;
pub use image::{BuildId, Image};
pub use locate::{Located, LocatedSplit, Options};
pub use mini::unpack as unpack_symbols;
pub use module::{ModuleReport, resolve_module};
pub use resolver::{Place, Resolver};
pub use split::SplitUnit;
