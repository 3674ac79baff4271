//! Rows as a Parquet file, by the same writer as a recording's tables.

use heaplab_snapshot::query::answer::{Answer, Cell};
use heaplab_snapshot::query::plan::Field;
use heaplab_trace::parquet::PAGE_ROWS;
use heaplab_trace::parquet::encode::Present;
use heaplab_trace::parquet::schema::{Column, Encoding, Kind};
use heaplab_trace::parquet::write::FileWriter;
use std::io::{self, Write};

/// Writes all rows.
///
/// # Errors
/// `out` fails.
pub fn write(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    let fields = answer.fields();
    let columns: Vec<Column> = fields
        .iter()
        .map(|field| Column::required(field.json_name(), kind(*field), Encoding::Dictionary))
        .collect();
    let mut writer = FileWriter::new(out, &columns)?;
    let mut numbers = Vec::new();
    for first in (0..answer.row_count()).step_by(PAGE_ROWS) {
        let rows = first..answer.row_count().min(first + PAGE_ROWS);
        writer.page(rows.len(), |column, writer, squeeze| {
            let cells = rows.clone().map(|row| answer.cell(row, fields[column]));
            if fields[column].is_text() {
                let texts: Vec<String> = cells
                    .map(|cell| if let Cell::Text(text) = cell { text } else { String::new() })
                    .collect();
                return writer.texts(texts.iter().map(|text| Some(text.as_str())), squeeze);
            }
            numbers.clear();
            numbers.extend(
                cells.map(|cell| if let Cell::Number(number) = cell { number as u64 } else { 0 }),
            );
            writer.integers(&numbers, Present::All, rows.len(), squeeze)
        })?;
    }
    writer.finish(&[("heaplab".into(), "snapshot query".into())])?;
    Ok(())
}

fn kind(field: Field) -> Kind {
    match field {
        Field::Type | Field::Class | Field::Name => Kind::Text,
        Field::Distance => Kind::I32,
        Field::Id | Field::Dominator => Kind::U32,
        _ => Kind::U64,
    }
}
