//! Errors of a file that should give symbols.

use std::path::PathBuf;

/// Why a file gives no symbols.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The file could not be opened or mapped.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A directory, pipe or device stands in a file's place; opening one could wait for ever.
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// The bytes are no ELF file, or a damaged one.
    #[error("not a readable ELF file: {0}")]
    Elf(String),
    /// The debug information is damaged.
    #[error("damaged debug information: {0}")]
    Dwarf(String),
    /// The compressed symbols inside the file are damaged, or another file's.
    #[error("the symbols in .gnu_debugdata are not used: {0}")]
    Mini(String),
    /// A compressed section claims more bytes than a real file of this length.
    #[error(
        "section {section} claims {claimed_bytes} bytes when decompressed; the limit for this file is {limit_bytes}"
    )]
    TooLarge {
        /// Name of the section.
        section: String,
        /// Bytes claimed by its header.
        claimed_bytes: u64,
        /// Most bytes accepted.
        limit_bytes: u64,
    },
}
