//! A sweep as tables: every comparison as a line of CSV, every cell as a row of Parquet with the
//! node and the epoch that it ran in.

use crate::report::Blocks;
use crate::store::{self, About};
use crate::{Report, SweepError};
use heaplab_experiment::results::{HeapResult, Measure};
use heaplab_experiment::run::{BlockCell, write_whole};
use heaplab_replay::CellReport;
use heaplab_statistics::Estimate;
use heaplab_trace::parquet::schema::{Column, Encoding::*, Kind::*};
use heaplab_trace::parquet::table::{self, Value};
use std::path::{Path, PathBuf};

/// The first line of the CSV.
const HEADINGS: &str = "workload,heap,measure,value,value_low,value_high,baseline,ratio,ratio_low,ratio_high,confidence,p_adjusted,blocks,nodes,between_nodes,outcome";

/// Every heap of every workload by space (peak resident bytes) and by time (ns an event), beside
/// the heap that it is compared with. An empty field says nothing was measured.
pub fn csv(report: &Report) -> String {
    let mut out = format!("{HEADINGS}\n");
    for one in &report.workloads {
        for heap in &one.results.heaps {
            for measure in [Measure::Space, Measure::Time] {
                let Some(value) = value(heap, measure) else { continue };
                let compared = one
                    .results
                    .comparisons
                    .iter()
                    .find(|of| of.heap == heap.heap && of.measure == measure);
                let mut fields = vec![
                    quoted(&one.name),
                    quoted(&heap.heap),
                    word(&measure),
                    value.value.to_string(),
                    value.low.to_string(),
                    value.high.to_string(),
                ];
                match compared {
                    None => fields.extend(vec![String::new(); 10]),
                    Some(of) => fields.extend([
                        quoted(&of.baseline),
                        of.ratio.value.to_string(),
                        of.ratio.low.to_string(),
                        of.ratio.high.to_string(),
                        of.confidence.map_or_else(String::new, |share| share.to_string()),
                        of.p_adjusted.map_or_else(String::new, |p| p.to_string()),
                        of.blocks.to_string(),
                        of.nodes.map_or_else(String::new, |over| over.nodes.to_string()),
                        of.nodes.map_or_else(String::new, |over| over.between.to_string()),
                        word(&of.outcome),
                    ]),
                }
                out += &(fields.join(",") + "\n");
            }
        }
    }
    out
}

fn value(heap: &HeapResult, measure: Measure) -> Option<Estimate> {
    match measure {
        Measure::Space => {
            heap.space.as_ref().filter(|space| !space.resident_unknown).map(|space| Estimate {
                value: space.peak_resident_bytes as f64,
                low: space.peak_resident_range_bytes.0 as f64,
                high: space.peak_resident_range_bytes.1 as f64,
            })
        }
        Measure::Time => heap.time.as_ref().map(|time| time.ns_per_event),
    }
}

/// As JSON has it.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default().trim_matches('"').to_string()
}

/// A field with what CSV gives a meaning between quotes.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

const CELLS: [Column; 16] = [
    Column::required("workload", Text, Dictionary),
    Column::required("heap", Text, Dictionary),
    Column::required("block", I64, Delta),
    Column::required("node", Text, Dictionary),
    Column::required("epoch", Text, Dictionary),
    Column::required("processor", Text, Dictionary),
    Column::required("kernel", Text, Dictionary),
    Column::required("kind", Text, Dictionary),
    Column::required("void", I64, Delta),
    Column::optional("passes", I64, Delta),
    Column::optional("passes_ns", I64, Delta),
    Column::optional("first_pass_ns", I64, Delta),
    Column::optional("cpu_ns", I64, Delta),
    Column::optional("minor_faults", I64, Delta),
    Column::optional("canary_ns", I64, Delta),
    Column::optional("failure", Text, Dictionary),
];

struct Row {
    workload: usize,
    node: usize,
    block: u32,
    is_void: bool,
    cell: BlockCell,
}

/// Writes every cell of the times in `folders` to a Parquet file at `path`, whole or not at all.
///
/// # Errors
/// As for [`Report::read`], or the file cannot be written.
pub fn write_cells(folders: &[PathBuf], path: &Path) -> Result<(), SweepError> {
    let about = crate::report::about(folders)?;
    let mut blocks = Blocks::find(&about, folders, &mut |_| ())?;
    blocks.void();
    let rows = rows(&about, &blocks)?;
    let encoded = table::write(Vec::new(), &CELLS, rows.len(), |row, column| {
        let Row { workload, node, block, is_void, cell } = &rows[row];
        let node = &blocks.nodes[*node];
        match column {
            0 => Value::from(&about.workloads[*workload].name),
            1 => Value::from(&cell.heap),
            2 => Value::from(u64::from(*block)),
            3 => Value::from(&node.name),
            4 => Value::from(&node.epoch),
            5 => Value::from(&node.machine.processor),
            6 => Value::from(&node.machine.kernel),
            7 => Value::from(kind(&cell.report)),
            8 => Value::from(u64::from(*is_void)),
            15 => match &cell.report {
                CellReport::Failed { reason } => Value::from(Some(reason)),
                _ => Value::from(None::<&String>),
            },
            number => Value::from(figures(&cell.report)[number - 9]),
        }
    });
    Ok(write_whole(path, &encoded.map_err(SweepError::io(path, "write"))?)?)
}

fn rows(about: &About, blocks: &Blocks) -> Result<Vec<Row>, SweepError> {
    let mut rows = Vec::new();
    for (workload, (one, found)) in about.workloads.iter().zip(&blocks.of).enumerate() {
        let plan = one.plan();
        for found in found {
            let cells = store::read_time(&found.path, &plan)?.block.cells;
            rows.extend(cells.into_iter().map(|cell| Row {
                workload,
                node: found.node,
                block: found.number,
                is_void: found.is_void,
                cell,
            }));
        }
    }
    Ok(rows)
}

fn kind(report: &CellReport) -> &'static str {
    match report {
        CellReport::Space(_) => "space",
        CellReport::Time(_) => "time",
        CellReport::Canary { .. } => "canary",
        CellReport::Verified { .. } => "verify",
        CellReport::Failed { .. } => "failed",
    }
}

/// passes, passes_ns, first_pass_ns, cpu_ns, minor_faults, canary_ns.
fn figures(report: &CellReport) -> [Option<u64>; 6] {
    match report {
        CellReport::Time(time) => [
            Some(time.passes_ns.len() as u64),
            Some(time.passes_ns.iter().sum()),
            time.passes_ns.first().copied(),
            Some(time.cpu_ns),
            Some(time.minor_faults),
            None,
        ],
        CellReport::Canary { ns } => [None, None, None, None, None, Some(*ns)],
        _ => [None; 6],
    }
}
