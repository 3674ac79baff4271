//! The tables beside the events, each a Parquet file, as rows of plain columns.
//!
//! One list of columns a table serves both directions: reading matches writing.

use crate::TraceError;
use crate::parquet::read::{ColumnReader, FileReader, Stretch};
use crate::parquet::schema::Column;
use crate::parquet::table::{self, Value};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Most rows of a table believed: a 32-bit id can name four billion rows, memory allows far fewer.
const ROWS_LIMIT: u64 = 64 << 20;

/// Most rows believed of a table, in any file and for each byte of the file. A footer may claim
/// anything, and a missing or constant column takes no bytes. Files written here have some 30 rows
/// a byte if every column is constant.
const ROWS_OF_ANY_FILE: u64 = 64 << 10;
const ROWS_OF_A_BYTE: u64 = 1024;

/// Writes a table: `value(row, column)` gives each value. The file is synced.
pub fn write<'a>(
    path: &Path,
    columns: &[Column],
    rows: usize,
    value: impl Fn(usize, usize) -> Value<'a>,
) -> Result<(), TraceError> {
    let inner = || {
        let out = table::write(BufWriter::new(File::create_new(path)?), columns, rows, value)?;
        out.into_inner().map_err(|error| error.into_error())
    };
    inner()
        .map_err(TraceError::io(path, "write"))?
        .sync_all()
        .map_err(TraceError::io(path, "write"))
}

/// A table's columns, whole.
#[derive(Debug)]
pub struct Rows {
    path: PathBuf,
    columns: Vec<&'static str>,
    values: Vec<Vec<u64>>,
    texts: Vec<Vec<String>>,
    rows: usize,
}

/// Stands for null in [`Rows`]: no id, size or time of a bundle is this large.
const NULL: u64 = u64::MAX;

impl Rows {
    /// Reads a table.
    pub fn read(path: &Path, columns: &[Column]) -> Result<Rows, TraceError> {
        let file = FileReader::open(path)?;
        let rows = file.footer().rows;
        let file_bytes = std::fs::metadata(path).map_or(0, |about| about.len());
        let limit = ROWS_LIMIT.min(ROWS_OF_ANY_FILE + file_bytes.saturating_mul(ROWS_OF_A_BYTE));
        if rows > limit {
            let place = "footer".into();
            return Err(TraceError::Limit {
                path: path.into(),
                place,
                what: "the number of rows",
                found: rows,
                limit,
            });
        }
        let mut read = Rows {
            path: path.into(),
            columns: columns.iter().map(|column| column.name).collect(),
            values: Vec::new(),
            texts: Vec::new(),
            rows: rows as usize,
        };
        for column in columns {
            let (values, texts) = match file.column(column)? {
                Some(reader) => column_values(&file, reader)?,
                None => (vec![NULL; rows as usize], Vec::new()),
            };
            read.values.push(values);
            read.texts.push(texts);
        }
        Ok(read)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// The value, if present.
    pub fn optional(&self, row: usize, column: usize) -> Option<u64> {
        Some(self.values[column][row]).filter(|value| *value != NULL)
    }

    /// The text, if present.
    pub fn text(&self, row: usize, column: usize) -> Option<&str> {
        self.optional(row, column)
            .and_then(|index| self.texts[column].get(index as usize))
            .map(String::as_str)
    }

    /// A number under `limit`, or null.
    pub fn optional_under(
        &self,
        row: usize,
        column: usize,
        limit: u64,
    ) -> Result<Option<u64>, TraceError> {
        match self.optional(row, column) {
            Some(value) if value >= limit => {
                Err(self.wrong(row, column, format!("a value under {limit}"), value.to_string()))
            }
            value => Ok(value),
        }
    }

    /// A number under `limit`.
    pub fn under(&self, row: usize, column: usize, limit: u64) -> Result<u64, TraceError> {
        self.optional_under(row, column, limit)?
            .ok_or_else(|| self.wrong(row, column, "a value".into(), "null".into()))
    }

    /// An error about a value.
    pub fn wrong(&self, row: usize, column: usize, expected: String, found: String) -> TraceError {
        let place = format!("row {row}, column {}", self.columns[column]);
        TraceError::Malformed { path: self.path.clone(), place, expected, found }
    }
}

fn column_values(
    file: &FileReader,
    mut reader: ColumnReader,
) -> Result<(Vec<u64>, Vec<String>), TraceError> {
    let (mut values, mut texts) = (Vec::new(), Vec::new());
    for group in 0..file.footer().groups.len() {
        reader.open_group(file, group)?;
        loop {
            let rows = reader.rows_ready(file)?;
            if rows == 0 {
                break;
            }
            let before = texts.len() as u64;
            let shifted = |value: u64| if value == NULL { NULL } else { value + before };
            match reader.take(rows) {
                Stretch::Constant(value) => values.resize(values.len() + rows, shifted(value)),
                Stretch::Values(page) => values.extend(page.iter().map(|value| shifted(*value))),
            }
        }
        texts.extend_from_slice(reader.texts());
    }
    Ok((values, texts))
}
