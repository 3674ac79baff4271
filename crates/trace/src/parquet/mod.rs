//! The part of Apache Parquet that bundles use, written and read by our own code.
//!
//! A general library does not serve, because a bundle is both untrusted input and a hot path. A
//! general reader believes lengths (a page header may claim 2 GiB, a footer a million columns) and
//! spends more on an event than an analysis does. Here every length is bounded before memory is
//! taken for it, and a page is decoded straight into integers. The files are plain Parquet: tests
//! read them with DuckDB, pandas and the `parquet` crate.
//!
//! Source: the format's specification (parquet.thrift, Encodings.md). Written: flat schemas; data
//! pages of version 1 with CRC; `RLE_DICTIONARY`, `DELTA_BINARY_PACKED` and bit-packed booleans;
//! zstd. Deviation, allowed by the specification: bit widths are whole bytes, because zstd then
//! sees the bytes repeat (a time column takes 6 % less than with minimal widths) and packing costs
//! nothing. The reader takes any width.
//!
//! - [`schema`]: columns as data. [`footer`]: the file's table of contents. [`thrift`]: the
//!   protocol both use.
//! - [`table`]: any table of rows as a file. [`encode`], [`mod@write`]: values to pages, pages to a
//!   file. [`decode`], [`read`]: the way back.

pub mod decode;
pub mod encode;
pub mod footer;
pub mod read;
pub mod schema;
pub mod table;
pub mod thrift;
pub mod write;

/// Rows of a page as written.
pub const PAGE_ROWS: usize = 64 * 1024;
/// Most rows of a row group, written or read.
pub const ROW_GROUP_ROWS: usize = 1024 * 1024;
/// Largest page content believed, uncompressed.
pub const PAGE_BYTES_LIMIT: usize = 64 << 20;
/// Largest column chunk believed, compressed.
pub const CHUNK_BYTES_LIMIT: usize = 128 << 20;
/// Largest footer believed.
pub const FOOTER_BYTES_LIMIT: usize = 256 << 20;

/// A contradiction of the format, without its place: the caller knows file, column and page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The content that the format requires.
    pub expected: String,
    /// The content found.
    pub found: String,
}

impl Fault {
    /// A fault in words.
    pub fn new(expected: impl Into<String>, found: impl Into<String>) -> Fault {
        Fault { expected: expected.into(), found: found.into() }
    }
}
