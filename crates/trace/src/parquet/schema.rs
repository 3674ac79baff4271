//! Columns as data: their types for readers, and their encodings.

/// The type of a column, in the file and to its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `BOOLEAN`.
    Bool,
    /// `INT32`.
    I32,
    /// `INT32` annotated as unsigned.
    U32,
    /// `INT64`.
    I64,
    /// `INT64` annotated as unsigned.
    U64,
    /// `BYTE_ARRAY` annotated as UTF-8.
    Text,
}

impl Kind {
    /// Parquet's number of the physical type.
    pub const fn physical(self) -> i32 {
        match self {
            Kind::Bool => 0,
            Kind::I32 | Kind::U32 => 1,
            Kind::I64 | Kind::U64 => 2,
            Kind::Text => 6,
        }
    }

    /// Parquet's number of the converted type, the older form of the annotation.
    pub const fn converted(self) -> Option<i32> {
        match self {
            Kind::U32 => Some(13),
            Kind::U64 => Some(14),
            Kind::Text => Some(0),
            Kind::Bool | Kind::I32 | Kind::I64 => None,
        }
    }

    /// Bytes of a value in a dictionary; `None`: it carries its own length.
    pub const fn plain_bytes(self) -> Option<usize> {
        match self {
            Kind::I32 | Kind::U32 => Some(4),
            Kind::I64 | Kind::U64 => Some(8),
            Kind::Bool | Kind::Text => None,
        }
    }
}

/// How a column's values are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Booleans, one bit each.
    Bits,
    /// Distinct values once a row group, then their indices; beyond
    /// [`super::write::DICTIONARY_LIMIT`] values integers switch to differences.
    Dictionary,
    /// Differences to the row before.
    Delta,
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether it may be null.
    pub optional: bool,
    /// Its encoding as written.
    pub encoding: Encoding,
}

impl Column {
    /// A column that is never null.
    pub const fn required(name: &'static str, kind: Kind, encoding: Encoding) -> Column {
        Column { name, kind, optional: false, encoding }
    }

    /// A column that may be null.
    pub const fn optional(name: &'static str, kind: Kind, encoding: Encoding) -> Column {
        Column { name, kind, optional: true, encoding }
    }
}
