//! Every cell as a row of a Parquet file, for DuckDB, pandas, Polars: the raw figures, from which everything in
//! [`crate::results`] can be computed again.

use crate::run::{ExperimentError, Measured, write_whole};
use heaplab_replay::CellReport;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::path::Path;
use std::sync::Arc;

const SCHEMA: &str = "message cells {
    required binary heap (UTF8);
    required binary kind (UTF8);
    required int64 block;
    optional int64 passes;
    optional int64 passes_ns;
    optional int64 first_pass_ns;
    optional int64 cpu_ns;
    optional int64 minor_faults;
    optional int64 baseline_bytes;
    optional int64 peak_anonymous_bytes;
    optional int64 end_anonymous_bytes;
    optional int64 trimmed_bytes;
    optional int64 peak_committed_bytes;
    optional binary failure (UTF8);
}";

#[derive(Default)]
struct Row {
    heap: String,
    kind: &'static str,
    block: i64,
    /// The optional numbers, in the order of the schema.
    numbers: [Option<u64>; 10],
    failure: Option<String>,
}

fn row(heap: &str, block: u32, report: &CellReport) -> Row {
    let mut row = Row { heap: heap.into(), block: block.into(), ..Row::default() };
    match report {
        CellReport::Space(space) => {
            row.kind = "space";
            row.numbers[5] = Some(space.baseline_bytes);
            row.numbers[6] = space.samples.iter().map(|sample| sample.anonymous_bytes).max();
            row.numbers[7] = space.samples.last().map(|sample| sample.anonymous_bytes);
            row.numbers[8] = space.trimmed_bytes;
            row.numbers[9] = space.samples.iter().filter_map(|sample| sample.committed_bytes).max();
        }
        CellReport::Time(time) => {
            row.kind = "time";
            row.numbers[0] = Some(time.passes_ns.len() as u64);
            row.numbers[1] = Some(time.passes_ns.iter().sum());
            row.numbers[2] = time.passes_ns.first().copied();
            row.numbers[3] = Some(time.cpu_ns);
            row.numbers[4] = Some(time.minor_faults);
        }
        CellReport::Canary { ns } => {
            row.kind = "canary";
            row.numbers[1] = Some(*ns);
        }
        CellReport::Verified { .. } => row.kind = "verify",
        CellReport::Failed { reason } => {
            row.kind = "failed";
            row.failure = Some(reason.clone());
        }
    }
    row
}

fn rows(measured: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    let space = |report: &heaplab_replay::SpaceReport| CellReport::Space(report.clone());
    rows.extend(measured.null_space.iter().map(|report| row(crate::plan::NULL_HEAP, 0, &space(report))));
    for cells in &measured.space {
        rows.extend(cells.reports.iter().zip(0..).map(|(report, repeat)| row(&cells.heap, repeat, &space(report))));
    }
    for (heap, failure) in &measured.failures {
        rows.push(row(heap, failure.block, &CellReport::Failed { reason: failure.reason.clone() }));
    }
    for block in &measured.blocks {
        rows.extend(block.cells.iter().map(|cell| row(&cell.heap, block.block, &cell.report)));
    }
    rows
}

/// Writes every cell of `measured` to a Parquet file at `path`, whole or not at all.
pub fn write(measured: &Measured, path: &Path) -> Result<(), ExperimentError> {
    let failed = |error: ParquetError| ExperimentError::io(path, "write")(std::io::Error::other(error));
    let bytes = encode(&rows(measured)).map_err(failed)?;
    write_whole(path, &bytes)
}

fn encode(rows: &[Row]) -> Result<Vec<u8>, ParquetError> {
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(Default::default())).build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(parse_message_type(SCHEMA)?), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    let mut column = 0;
    while let Some(mut writer) = group.next_column()? {
        let text = |value: &str| ByteArray::from(value.as_bytes().to_vec());
        match column {
            0 => {
                let values: Vec<ByteArray> = rows.iter().map(|row| text(&row.heap)).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            1 => {
                let values: Vec<ByteArray> = rows.iter().map(|row| text(row.kind)).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            2 => {
                let values: Vec<i64> = rows.iter().map(|row| row.block).collect();
                writer.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            13 => {
                let values: Vec<ByteArray> = rows.iter().filter_map(|row| row.failure.as_deref().map(text)).collect();
                let present: Vec<i16> = rows.iter().map(|row| i16::from(row.failure.is_some())).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&present), None)?;
            }
            number => {
                let values: Vec<i64> = rows.iter().filter_map(|row| row.numbers[number - 3]).map(|value| value as i64).collect();
                let present: Vec<i16> = rows.iter().map(|row| i16::from(row.numbers[number - 3].is_some())).collect();
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
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn every_cell_is_a_row() {
        let time =
            CellReport::Time(heaplab_replay::TimeReport { passes_ns: vec![7, 5], cpu_ns: 12, minor_faults: 3, ..Default::default() });
        let failed = CellReport::Failed { reason: "it was ended by SIGSEGV".into() };
        let bytes = encode(&[row("glibc", 2, &time), row("jemalloc", 2, &failed)]).unwrap();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 2);
        assert!(
            rows[0].contains("heap: \"glibc\"") && rows[0].contains("passes_ns: 12") && rows[0].contains("minor_faults: 3"),
            "{}",
            rows[0]
        );
        assert!(rows[1].contains("kind: \"failed\"") && rows[1].contains("SIGSEGV"), "{}", rows[1]);
    }
}
