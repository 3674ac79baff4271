//! Every cell, and every collection of the heaps that collect, as a row of a Parquet file, for
//! DuckDB, pandas, Polars: the raw figures, from which everything in [`crate::results`] can be
//! computed again.

use crate::results::{HeapResult, Results};
use crate::run::{ExperimentError, Measured, write_json, write_whole};
use heaplab_heap::SpaceState;
use heaplab_replay::CellReport;
use heaplab_trace::parquet::schema::{Column, Encoding::*, Kind::*};
use heaplab_trace::parquet::table::{self, Value};
use std::path::Path;

const CELLS: [Column; 14] = [
    Column::required("heap", Text, Dictionary),
    Column::required("kind", Text, Dictionary),
    Column::required("block", I64, Delta),
    Column::optional("passes", I64, Delta),
    Column::optional("passes_ns", I64, Delta),
    Column::optional("first_pass_ns", I64, Delta),
    Column::optional("cpu_ns", I64, Delta),
    Column::optional("minor_faults", I64, Delta),
    Column::optional("baseline_bytes", I64, Delta),
    Column::optional("peak_anonymous_bytes", I64, Delta),
    Column::optional("end_anonymous_bytes", I64, Delta),
    Column::optional("trimmed_bytes", I64, Delta),
    Column::optional("peak_committed_bytes", I64, Delta),
    Column::optional("failure", Text, Dictionary),
];

const COLLECTIONS: [Column; 25] = [
    Column::required("heap", Text, Dictionary),
    Column::required("number", I64, Delta),
    Column::required("kind", Text, Dictionary),
    Column::required("cause", Text, Dictionary),
    Column::required("births", I64, Delta),
    Column::required("born_bytes", I64, Delta),
    Column::required("before_used_bytes", I64, Delta),
    Column::required("before_available_bytes", I64, Delta),
    Column::required("before_committed_bytes", I64, Delta),
    Column::optional("before_waste_bytes", I64, Delta),
    Column::required("after_used_bytes", I64, Delta),
    Column::required("after_available_bytes", I64, Delta),
    Column::required("after_committed_bytes", I64, Delta),
    Column::optional("after_waste_bytes", I64, Delta),
    Column::optional("marked_objects", I64, Delta),
    Column::optional("marked_bytes", I64, Delta),
    Column::optional("swept_objects", I64, Delta),
    Column::optional("swept_bytes", I64, Delta),
    Column::optional("moved_objects", I64, Delta),
    Column::optional("moved_bytes", I64, Delta),
    Column::optional("promoted_objects", I64, Delta),
    Column::optional("promoted_bytes", I64, Delta),
    Column::optional("pause_ns", I64, Delta),
    Column::required("spaces", Text, Dictionary),
    Column::optional("free_lists", Text, Dictionary),
];

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
    rows.extend(
        measured.null_space.iter().map(|report| row(crate::plan::NULL_HEAP, 0, &space(report))),
    );
    for cells in &measured.space {
        rows.extend(
            cells
                .reports
                .iter()
                .zip(0..)
                .map(|(report, repeat)| row(&cells.heap, repeat, &space(report))),
        );
    }
    for (heap, failure) in &measured.failures {
        rows.push(row(heap, failure.block, &CellReport::Failed { reason: failure.reason.clone() }));
    }
    for block in &measured.blocks {
        rows.extend(block.cells.iter().map(|cell| row(&cell.heap, block.block, &cell.report)));
    }
    rows
}

/// Writes a replay's results into a folder: `results.json`, `cells.parquet` and, for heaps that
/// collect, `collections.parquet`.
///
/// # Errors
/// A file cannot be written.
pub fn write_folder(
    folder: &Path,
    results: &Results,
    measured: &Measured,
) -> Result<(), ExperimentError> {
    write_json(&folder.join("results.json"), results)?;
    write(measured, &folder.join("cells.parquet"))?;
    if results.heaps.iter().any(|heap| !heap.collections.is_empty()) {
        write_collections(results, &folder.join("collections.parquet"))?;
    }
    Ok(())
}

/// Writes every cell of `measured` to a Parquet file at `path`, whole or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn write(measured: &Measured, path: &Path) -> Result<(), ExperimentError> {
    whole(path, encode(&rows(measured)))
}

/// Writes every collection of the heaps that collect to a Parquet file at `path`, whole or not at
/// all.
///
/// # Errors
/// The file cannot be written.
pub fn write_collections(results: &Results, path: &Path) -> Result<(), ExperimentError> {
    whole(path, encode_collections(&results.heaps))
}

fn whole(path: &Path, encoded: std::io::Result<Vec<u8>>) -> Result<(), ExperimentError> {
    write_whole(path, &encoded.map_err(ExperimentError::io(path, "write"))?)
}

fn encode(rows: &[Row]) -> std::io::Result<Vec<u8>> {
    table::write(Vec::new(), &CELLS, rows.len(), |row, column| match column {
        0 => Value::from(&rows[row].heap),
        1 => Value::from(rows[row].kind),
        2 => Value::from(rows[row].block as u64),
        13 => Value::from(rows[row].failure.as_ref()),
        number => Value::from(rows[row].numbers[number - 3]),
    })
}

fn encode_collections(heaps: &[HeapResult]) -> std::io::Result<Vec<u8>> {
    let of_heap = |heap: &'_ HeapResult| heap.collections.len();
    let rows: Vec<(&HeapResult, usize)> =
        heaps.iter().flat_map(|heap| (0..of_heap(heap)).map(move |nth| (heap, nth))).collect();
    let state = |state: &SpaceState| {
        let [used, available] = [state.used_bytes, state.available_bytes].map(Some);
        [used, available, Some(state.committed_bytes), state.waste_bytes]
    };
    table::write(Vec::new(), &COLLECTIONS, rows.len(), |row, column| {
        let (heap, nth) = rows[row];
        let collection = &heap.collections[nth];
        let work = collection.work;
        match column {
            0 => Value::from(&heap.heap),
            1 => Value::from(nth as u64),
            2 => Value::from(collection.kind.as_ref()),
            3 => Value::from(collection.cause.as_ref()),
            4 => Value::from(collection.births),
            5 => Value::from(collection.born_bytes),
            6..=9 => Value::from(state(&collection.before)[column - 6]),
            10..=13 => Value::from(state(&collection.after)[column - 10]),
            14 => Value::from(work.map(|work| work.marked_objects)),
            15 => Value::from(work.map(|work| work.marked_bytes)),
            16 => Value::from(work.map(|work| work.swept_objects)),
            17 => Value::from(work.map(|work| work.swept_bytes)),
            18 => Value::from(work.map(|work| work.moved_objects)),
            19 => Value::from(work.map(|work| work.moved_bytes)),
            20 => Value::from(work.map(|work| work.promoted_objects)),
            21 => Value::from(work.map(|work| work.promoted_bytes)),
            22 => Value::from(collection.pause_ns),
            23 => Value::from(serde_json::to_string(&collection.spaces).unwrap_or_default()),
            _ => {
                let lists = collection.free_lists.as_ref();
                Value::from(lists.and_then(|lists| serde_json::to_string(lists).ok()))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn every_cell_is_a_row() {
        let time = CellReport::Time(heaplab_replay::TimeReport {
            passes_ns: vec![7, 5],
            cpu_ns: 12,
            minor_faults: 3,
            ..Default::default()
        });
        let failed = CellReport::Failed { reason: "it was ended by SIGSEGV".into() };
        let bytes = encode(&[row("glibc", 2, &time), row("jemalloc", 2, &failed)]).unwrap();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 2);
        assert!(
            rows[0].contains("heap: \"glibc\"")
                && rows[0].contains("passes_ns: 12")
                && rows[0].contains("minor_faults: 3"),
            "{}",
            rows[0]
        );
        assert!(rows[1].contains("kind: \"failed\"") && rows[1].contains("SIGSEGV"), "{}", rows[1]);
    }

    #[test]
    fn every_collection_is_a_row() {
        let after = SpaceState {
            used_bytes: 10,
            available_bytes: 20,
            committed_bytes: 40,
            waste_bytes: Some(3),
        };
        let collection = heaplab_heap::Collection {
            kind: "mark-sweep".into(),
            births: 7,
            after,
            pause_ns: Some(5),
            ..Default::default()
        };
        let heap = HeapResult {
            heap: "v8:many".into(),
            collections: vec![collection],
            ..HeapResult::default()
        };
        let bytes = encode_collections(&[HeapResult::default(), heap]).unwrap();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 1);
        for field in [
            "heap: \"v8:many\"",
            "births: 7",
            "after_committed_bytes: 40",
            "after_waste_bytes: 3",
            "marked_bytes: null",
            "pause_ns: 5",
        ] {
            assert!(rows[0].contains(field), "{field} in {}", rows[0]);
        }
    }
}
