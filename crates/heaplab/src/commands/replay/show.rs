//! The results as a person reads them: a table, the verdict, what limits it.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use heaplab_experiment::results::{Comparison, Estimate, HeapResult, Measure, Results, Touch};
use heaplab_experiment::verdict::plural;
use heaplab_findings::words::bytes;
use std::fmt::Write;

/// Columns of a terminal.
const WIDTH: u16 = 100;

/// All of it.
pub fn results(results: &Results) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(out, "{}\n{}\n", heading(results), table(results));
    for sentence in &results.verdict {
        let _ = write!(out, "{}", wrapped(sentence, ""));
    }
    if !results.cautions.is_empty() {
        out.push('\n');
    }
    for caution in &results.cautions {
        let _ = write!(out, "{}", wrapped(caution, "Note: "));
    }
    out
}

fn heading(results: &Results) -> String {
    let (workload, settings) = (&results.workload, &results.settings);
    let program = workload.program.split_whitespace().next().unwrap_or("the workload");
    let order = if settings.threads { plural(workload.threads, "thread") } else { String::from("recorded order on one thread") };
    let touch = match settings.touch {
        Touch::All => "every block is written",
        Touch::Known => "blocks are written but for those asked for zeroed",
        Touch::None => "no block is written",
    };
    let timed = results.heaps.iter().any(|heap| heap.time.is_some());
    let blocks = if timed { format!("; {} of {}", plural(settings.reps, "block"), plural(settings.passes, "pass")) } else { String::new() };
    let text = format!(
        "{program}: {} events, {} objects, at most {} requested at once; {order}; {touch}{blocks}.",
        workload.events,
        workload.objects,
        bytes(workload.peak_requested_bytes),
    );
    wrapped(&text, "")
}

fn table(results: &Results) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.set_header(["heap", "peak resident", "trimmed", "committed", "space", "ns an event", "time"]);
    for heap in &results.heaps {
        table.add_row(row(results, heap));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn row(results: &Results, heap: &HeapResult) -> Vec<String> {
    let find = |measure| results.comparisons.iter().find(|comparison| comparison.heap == heap.heap && comparison.measure == measure);
    // A library's version is its path, which its name says already.
    let name = if heap.version.is_empty() || heap.heap.contains(&heap.version) {
        heap.heap.clone()
    } else {
        format!("{}\n{}", heap.heap, heap.version)
    };
    let mut cells = vec![name];
    match &heap.space {
        Some(space) => {
            cells.push(bytes(space.peak_resident_bytes));
            cells.push(space.trimmed_resident_bytes.map_or_else(String::new, bytes));
            cells.push(space.peak_committed_bytes.map_or_else(String::new, bytes));
        }
        None => cells.extend([failed(heap, "space"), String::new(), String::new()]),
    }
    cells.push(find(Measure::Space).map_or_else(String::new, ratio));
    match &heap.time {
        Some(time) => cells.push(range(time.ns_per_event, 1)),
        None => cells.push(failed(heap, "time")),
    }
    cells.push(find(Measure::Time).map_or_else(String::new, ratio));
    cells
}

fn failed(heap: &HeapResult, kind: &str) -> String {
    if heap.failures.iter().any(|failure| failure.kind == kind) { "failed".into() } else { String::new() }
}

fn ratio(comparison: &Comparison) -> String {
    range(comparison.ratio, 3)
}

fn range(estimate: Estimate, digits: usize) -> String {
    let [value, low, high] = [estimate.value, estimate.low, estimate.high].map(|number| format!("{number:.digits$}"));
    if low == high { value } else { format!("{value}\n{low} to {high}") }
}

/// `text` in lines of the terminal's width, the first behind `label`.
fn wrapped(text: &str, label: &str) -> String {
    let mut out = String::from(label);
    let mut column = label.chars().count();
    let mut line_begins = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !line_begins && column + 1 + length > usize::from(WIDTH) {
            out.push_str("\n  ");
            column = 2;
        } else if !line_begins {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
        line_begins = false;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_the_terminal_does() {
        let text = wrapped(&"word ".repeat(60), "Note: ");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert_eq!(text.split_whitespace().filter(|word| *word == "word").count(), 60);
    }
}
