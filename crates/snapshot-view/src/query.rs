//! Objects as rows: a table, JSON, Parquet.

pub mod parquet;

use crate::rows::distance;
use heaplab_snapshot::query::answer::{Answer, Cell};
use heaplab_snapshot::query::plan::Field;
use heaplab_text::lines::cut;
use heaplab_text::table::Table;
use heaplab_text::words::{bytes, count as number};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io;

/// Characters of a text that is not in the last column.
const TEXT_CHARACTERS: usize = 30;

/// The rows as a table for a terminal of so many columns.
pub fn text(answer: &Answer, columns: usize) -> String {
    let mut fields = answer.fields();
    // The last column is the one that gives way.
    if let Some(wide) = fields.iter().rposition(|field| field.is_text()) {
        let wide = fields.remove(wide);
        fields.push(wide);
    }
    let mut table = Table::new(fields.iter().map(|field| field.name()));
    for row in 0..answer.row_count() {
        let last = fields.len() - 1;
        let cells = fields.iter().enumerate().map(|(at, field)| match answer.cell(row, *field) {
            Cell::Text(text) if at == last => text,
            Cell::Text(text) => cut(&text, TEXT_CHARACTERS),
            Cell::Number(value) => shown(*field, value),
        });
        table.row(cells);
    }
    let mut text = table.text(columns);
    if answer.row_count() < answer.found {
        let _ = writeln!(text, "... of {} (top N shows more)", number(answer.found as u64));
    }
    text
}

fn shown(field: Field, value: i64) -> String {
    match field {
        Field::Shallow | Field::Retained => bytes(value as u64),
        Field::Distance => distance(value as i32),
        Field::Id | Field::Dominator => format!("@{value}"),
        _ => number(value as u64),
    }
}

fn cell_json(cell: Cell) -> Value {
    match cell {
        Cell::Number(number) => number.into(),
        Cell::Text(text) => text.into(),
    }
}

/// All rows as one document, a row a line.
///
/// # Errors
/// `out` fails.
pub fn write_json(answer: &Answer, out: &mut dyn io::Write) -> io::Result<()> {
    let fields = answer.fields();
    let head = json!({"format": "heaplab-snapshot-query", "version": 1, "found": answer.found});
    write!(out, "{},\"rows\":[", head.to_string().trim_end_matches('}'))?;
    for row in 0..answer.row_count() {
        let object: Map<String, Value> = fields
            .iter()
            .map(|field| (field.json_name().into(), cell_json(answer.cell(row, *field))))
            .collect();
        write!(out, "{}{}", if row > 0 { ",\n" } else { "\n" }, Value::Object(object))?;
    }
    writeln!(out, "]}}")
}
