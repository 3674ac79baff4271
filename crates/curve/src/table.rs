//! Every run as a row, for spreadsheets (CSV) and for DuckDB, pandas, Polars (Parquet): the raw
//! figures, from which everything in [`crate::results`] can be computed again.

use crate::cell::{CellReport, Measure};
use crate::plan::Plan;
use crate::run::Block;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fmt::Write;
use std::sync::Arc;

/// Columns of text, in order.
const TEXTS: [&str; 3] = ["variant", "setting", "failure"];

/// A column of numbers: its name, and its value for a run.
type Column = (&'static str, fn(&Measure) -> Option<u64>);

/// Columns of numbers, behind those of text. The first column, `block`, is apart: every row has it.
const NUMBERS: [Column; 17] = [
    ("wall_ns", |measure| Some(measure.wall_ns)),
    ("user_ns", |measure| Some(measure.user_ns)),
    ("system_ns", |measure| Some(measure.system_ns)),
    ("peak_bytes", |measure| Some(measure.peak_bytes)),
    ("peak_anonymous_bytes", |measure| Some(measure.peak_anonymous_bytes)),
    ("mean_anonymous_bytes", |measure| Some(measure.mean_anonymous_bytes)),
    ("committed_bytes", |measure| measure.committed_bytes),
    ("major_faults", |measure| Some(measure.major_faults)),
    ("minor_faults", |measure| Some(measure.minor_faults)),
    ("voluntary_switches", |measure| Some(measure.voluntary_switches)),
    ("involuntary_switches", |measure| Some(measure.involuntary_switches)),
    ("processes", |measure| Some(measure.processes.into())),
    ("looks", |measure| Some(measure.looks.into())),
    ("left_behind", |measure| Some(measure.left_behind.len() as u64)),
    ("collections", |measure| Some(measure.collections?.cycles)),
    ("collected_bytes", |measure| Some(measure.collections?.collected_bytes)),
    ("garbage_bytes", |measure| Some(measure.collections?.garbage_a_cycle()? as u64)),
];

struct Row {
    block: u64,
    texts: [Option<String>; TEXTS.len()],
    numbers: [Option<u64>; NUMBERS.len()],
}

fn rows(plan: &Plan, blocks: &[Block]) -> Vec<Row> {
    let mut rows = Vec::new();
    for block in blocks {
        for cell in &block.cells {
            let name = plan.variants.get(cell.cell.variant).map(|variant| variant.name.clone());
            let (failure, failed) = match &cell.report {
                CellReport::Measured(_) => (None, None),
                CellReport::Failed(failure) => (Some(failure.reason.clone()), Some(failure)),
                CellReport::Skipped => (Some("not run: it failed before".into()), None),
            };
            let mut numbers = NUMBERS.map(|(_, number)| cell.report.measure().and_then(number));
            if let Some(failure) = failed {
                numbers[0] = Some(failure.wall_ns);
                numbers[3] = Some(failure.peak_bytes);
            }
            rows.push(Row {
                block: block.block.into(),
                texts: [name, Some(plan.setting_label(cell.cell)), failure],
                numbers,
            });
        }
    }
    rows
}

/// All runs as CSV (RFC 4180) with a header.
pub fn csv(plan: &Plan, blocks: &[Block]) -> String {
    let header: Vec<&str> =
        ["block"].into_iter().chain(TEXTS).chain(NUMBERS.map(|(name, _)| name)).collect();
    let mut out = header.join(",") + "\n";
    for row in rows(plan, blocks) {
        let _ = write!(out, "{}", row.block);
        for text in row.texts {
            let _ = write!(out, ",{}", quoted(&text.unwrap_or_default()));
        }
        for number in row.numbers {
            let _ = write!(out, ",{}", number.map_or(String::new(), |number| number.to_string()));
        }
        out.push('\n');
    }
    out
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

/// All runs as a Parquet file.
///
/// # Errors
/// The format has no place for the table, which does not happen with this one.
pub fn parquet(plan: &Plan, blocks: &[Block]) -> std::io::Result<Vec<u8>> {
    encode(&rows(plan, blocks)).map_err(std::io::Error::other)
}

fn encode(rows: &[Row]) -> Result<Vec<u8>, ParquetError> {
    let mut schema = String::from("message runs {\n    required int64 block;\n");
    TEXTS.iter().for_each(|name| schema.push_str(&format!("    optional binary {name} (UTF8);\n")));
    NUMBERS.iter().for_each(|(name, _)| schema.push_str(&format!("    optional int64 {name};\n")));
    schema.push('}');
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(Default::default())).build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(
        &mut bytes,
        Arc::new(parse_message_type(&schema)?),
        Arc::new(properties),
    )?;
    let mut group = file.next_row_group()?;
    let mut column = 0;
    while let Some(mut writer) = group.next_column()? {
        match column {
            0 => {
                let values: Vec<i64> = rows.iter().map(|row| row.block as i64).collect();
                writer.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            text if text <= TEXTS.len() => {
                let values: Vec<ByteArray> = rows
                    .iter()
                    .filter_map(|row| row.texts[text - 1].as_ref())
                    .map(|text| text.as_bytes().to_vec().into())
                    .collect();
                let present: Vec<i16> =
                    rows.iter().map(|row| i16::from(row.texts[text - 1].is_some())).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&present), None)?;
            }
            number => {
                let at = number - 1 - TEXTS.len();
                let values: Vec<i64> = rows
                    .iter()
                    .filter_map(|row| row.numbers[at])
                    .map(|value| value as i64)
                    .collect();
                let present: Vec<i16> =
                    rows.iter().map(|row| i16::from(row.numbers[at].is_some())).collect();
                writer.typed::<Int64Type>().write_batch(&values, Some(&present), None)?;
            }
        }
        writer.close()?;
        column += 1;
    }
    group.close()?;
    file.close()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Failure;
    use crate::simulated::{Program, experiment};
    use ::parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn every_run_is_a_row_of_both() {
        let (plan, mut blocks) = experiment(&[Program::EXAMPLE], 2, 1);
        blocks[1].cells[3].report = CellReport::Failed(Failure {
            reason: "no memory, \"really\"".into(),
            wall_ns: 5,
            ..Failure::default()
        });
        let text = csv(&plan, &blocks);
        assert_eq!(text.lines().count(), 21);
        assert!(
            text.starts_with("block,variant,setting,failure,wall_ns,")
                && text.contains("\"no memory, \"\"really\"\"\",5,"),
            "{text}"
        );
        let reader =
            SerializedFileReader::new(bytes::Bytes::from(parquet(&plan, &blocks).unwrap()))
                .unwrap();
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 20);
        assert!(
            rows[13].contains("failure: \"no memory") && rows[0].contains("collections: "),
            "{}",
            rows[13]
        );
    }
}
