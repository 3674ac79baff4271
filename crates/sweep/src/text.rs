//! A sweep as text: the table of workloads and heaps, the nodes, the missing blocks.

use crate::Report;
use heaplab_experiment::{grid, text};
use heaplab_text::lines::hanging;
use heaplab_text::table::{Ruling, ruled};
use heaplab_text::words::{count, duration};
use std::time::Duration;

/// The whole text, `columns` wide.
pub fn report(report: &Report, columns: usize) -> String {
    let mut out = match &report.workloads[..] {
        [only] => text::results(&only.results, columns),
        _ => grid::text(&report.named(), columns),
    };
    if !report.nodes.is_empty() {
        out += &format!("\n{}\n", nodes(report, columns));
    }
    for note in &report.notes {
        out += &hanging(note, "Note: ", columns);
    }
    out
}

/// The time until the end of a sweep: `40 s left`.
pub fn left(left: Option<Duration>) -> String {
    match left {
        None => "time left unknown".into(),
        // Hundredths of a second are no estimate's.
        Some(left) if left.as_secs() < 120 => format!("{:.0} s left", left.as_secs_f64()),
        Some(left) => format!("{} left", duration(left.as_nanos() as u64)),
    }
}

/// The nodes that ran blocks of times.
fn nodes(report: &Report, columns: usize) -> String {
    let rows = report.nodes.iter().map(|of| {
        vec![
            format!("{}\n{}", of.node.name, of.node.epoch),
            format!("{}\nLinux {}", of.node.machine.processor, of.node.machine.kernel),
            count(of.blocks.into()),
            count(of.void_blocks.into()),
            format!("{:.2} ms", of.canary_ns / 1e6),
        ]
    });
    let headings = ["node\nepoch", "machine", "blocks", "void", "canary"];
    ruled(Ruling::Heading, headings, rows.collect::<Vec<_>>(), 2, columns).to_string()
}
