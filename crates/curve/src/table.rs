//! Every run as a row, for spreadsheets (CSV) and for DuckDB, pandas, Polars (Parquet): the raw
//! figures, from which everything in [`crate::results`] can be computed again.

use crate::cell::{CellReport, Measure};
use crate::plan::Plan;
use crate::run::Block;
use heaplab_trace::parquet::schema::{Column, Encoding::*, Kind::*};
use heaplab_trace::parquet::table::{self, Value};
use std::fmt::Write;

/// Columns of text, in order.
const TEXTS: [&str; 3] = ["variant", "setting", "failure"];

/// A column of numbers: its name, and its value for a run.
type Figure = (&'static str, fn(&Measure) -> Option<u64>);

/// Columns of numbers, behind those of text. The first column, `block`, is apart: every row has it.
const NUMBERS: [Figure; 17] = [
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
/// None in practice: the bytes stay in memory.
pub fn parquet(plan: &Plan, blocks: &[Block]) -> std::io::Result<Vec<u8>> {
    let rows = rows(plan, blocks);
    let columns: Vec<Column> = [Column::required("block", I64, Delta)]
        .into_iter()
        .chain(TEXTS.map(|name| Column::optional(name, Text, Dictionary)))
        .chain(NUMBERS.map(|(name, _)| Column::optional(name, I64, Delta)))
        .collect();
    table::write(Vec::new(), &columns, rows.len(), |row, column| match column {
        0 => Value::from(rows[row].block),
        text if text <= TEXTS.len() => Value::from(rows[row].texts[text - 1].as_ref()),
        number => Value::from(rows[row].numbers[number - 1 - TEXTS.len()]),
    })
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
        for (row, field) in [
            (0, "block: 0, variant: \"\", "),
            (0, "committed_bytes: null, "),
            (0, "garbage_bytes: 320000000}"),
            (13, "block: 1, "),
            (13, "failure: \"no memory, \"really\"\", wall_ns: 5, user_ns: null, "),
        ] {
            assert!(rows[row].contains(field), "{field} in {}", rows[row]);
        }
    }
}
