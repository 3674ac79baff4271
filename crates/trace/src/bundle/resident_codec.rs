//! `resident.parquet`: the parts of resident memory. The file exists only for recordings that know
//! them; older readers do not open it.

use super::tables_codec;
use super::tables_file::{Rows, write};
use crate::TraceError;
use crate::parquet::schema::{Column, Encoding::*, Kind::*};
use crate::parquet::table::Value;
use crate::tables::{ResidentKind, ResidentPart};
use std::path::Path;

const FILE: &str = "resident.parquet";

const COLUMNS: [Column; 10] = [
    Column::required("time_ns", I64, Delta),
    Column::required("process", U32, Dictionary),
    Column::required("kind", Text, Dictionary),
    Column::optional("name", Text, Dictionary),
    Column::optional("stack", U32, Dictionary),
    Column::required("bytes", U64, Delta),
    Column::optional("huge_bytes", U64, Dictionary),
    Column::required("mappings", U32, Dictionary),
    // Older bundles lack the columns.
    Column::optional("reserved_bytes", U64, Dictionary),
    Column::optional("committed_bytes", U64, Dictionary),
];

const TIME_LIMIT: u64 = 1 << 63;
const BYTES_LIMIT: u64 = 1 << 48;

/// Writes the file, unless there is no part.
pub fn write_parts(folder: &Path, parts: &[ResidentPart]) -> Result<(), TraceError> {
    if parts.is_empty() {
        return Ok(());
    }
    let unless_zero = |value: u64| if value == 0 { Value::Null } else { Value::Number(value) };
    write(&folder.join(FILE), &COLUMNS, parts.len(), |row, column| match (column, &parts[row]) {
        (0, part) => part.time_ns.into(),
        (1, part) => part.process.into(),
        (2, part) => part.kind.name().into(),
        (3, part) if part.name.is_empty() => Value::Null,
        (3, part) => (&part.name).into(),
        (4, part) => unless_zero(part.stack.into()),
        (5, part) => part.bytes.into(),
        (6, part) => unless_zero(part.huge_bytes),
        (7, part) => part.mappings.into(),
        (8, part) => unless_zero(part.reserved_bytes),
        (_, part) => unless_zero(part.committed_bytes),
    })
}

/// Reads the file, which must have `expected` rows.
pub fn read_parts(
    folder: &Path,
    expected: u64,
    processes: u64,
    stacks: u64,
) -> Result<Vec<ResidentPart>, TraceError> {
    let Some(table) = tables_codec::optional(folder, FILE, &COLUMNS, expected)? else {
        return Ok(Vec::new());
    };
    (0..table.len()).map(|row| part(&table, row, processes, stacks)).collect()
}

fn part(table: &Rows, row: usize, processes: u64, stacks: u64) -> Result<ResidentPart, TraceError> {
    let name = table.text(row, 2);
    let kind = ResidentKind::ALL.iter().find(|(_, known)| Some(*known) == name);
    let unknown = || {
        let names = ResidentKind::ALL.map(|(_, name)| name).join(", ");
        table.wrong(row, 2, format!("one of {names}"), format!("{:?}", name.unwrap_or("null")))
    };
    Ok(ResidentPart {
        time_ns: table.under(row, 0, TIME_LIMIT)?,
        process: table.under(row, 1, processes)? as u32,
        kind: kind.ok_or_else(unknown)?.0,
        name: table.text(row, 3).unwrap_or_default().into(),
        stack: table.optional_under(row, 4, stacks)?.unwrap_or(0) as u32,
        bytes: table.under(row, 5, BYTES_LIMIT)?,
        huge_bytes: table.optional_under(row, 6, BYTES_LIMIT)?.unwrap_or(0),
        mappings: table.under(row, 7, 1 << 32)? as u32,
        reserved_bytes: table.optional_under(row, 8, BYTES_LIMIT)?.unwrap_or(0),
        committed_bytes: table.optional_under(row, 9, BYTES_LIMIT)?.unwrap_or(0),
    })
}
