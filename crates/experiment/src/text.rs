//! The results for a reader: a table, the verdict and its limits.

mod collections;

use crate::results::{HeapResult, Measure, Results, Space, Touch};
use crate::verdict::has_ratio;
use heaplab_statistics::Estimate;
use heaplab_text::lines::hanging;
use heaplab_text::table::{Ruled, Ruling, ruled};
use heaplab_text::words::{bytes, bytes_range, plural};

/// The whole text, `columns` wide.
pub fn results(results: &Results, columns: usize) -> String {
    let mut out = hanging(&heading(results), "", columns);
    for table in [space_table(results, columns), time_table(results, columns)].into_iter().flatten()
    {
        out += &format!("\n{table}\n");
    }
    for table in collections::tables(&results.heaps, columns) {
        out += &format!("\n{table}\n");
    }
    out.push('\n');
    out + &conclusions(&results.verdict, &results.cautions, columns)
}

/// The sentences of a verdict, and its limits as notes.
pub fn conclusions(verdict: &[String], cautions: &[String], columns: usize) -> String {
    let mut out: String = verdict.iter().map(|line| hanging(line, "", columns)).collect();
    if !cautions.is_empty() {
        out.push('\n');
    }
    out.extend(cautions.iter().map(|caution| hanging(caution, "Note: ", columns)));
    out
}

fn heading(results: &Results) -> String {
    let (workload, settings) = (&results.workload, &results.settings);
    let program = workload.program.split_whitespace().next().unwrap_or("the workload");
    let order = if settings.threads {
        plural(workload.threads.into(), "thread")
    } else {
        String::from("recorded order on one thread")
    };
    let touch = match settings.touch {
        Touch::All => "every block is written",
        Touch::Known => "blocks are written but for those asked for zeroed",
        Touch::None => "no block is written",
    };
    let timed = results.earlier != Some(Measure::Time)
        && results.heaps.iter().any(|heap| heap.time.is_some());
    let blocks = if timed {
        format!(
            "; {} of {}",
            plural(settings.reps.into(), "block"),
            plural(settings.passes.into(), "pass")
        )
    } else {
        String::new()
    };
    format!(
        "{program}: {}, {}, at most {} requested at once; {order}; {touch}{blocks}.",
        plural(workload.events, "event"),
        plural(workload.objects, "object"),
        bytes(workload.peak_requested_bytes),
    )
}

/// The space of each heap, where it was measured.
fn space_table(results: &Results, columns: usize) -> Option<Ruled> {
    let rows = results.heaps.iter().filter_map(|heap| {
        let mut cells = vec![name(heap)];
        match &heap.space {
            Some(space) => {
                cells.push(peak(space));
                cells.push(space.trimmed_resident_bytes.map_or_else(String::new, bytes));
                cells.push(space.peak_committed_bytes.map_or_else(String::new, bytes));
            }
            None => cells.extend([failed(heap, "space")?, String::new(), String::new()]),
        }
        cells.push(compared(results, heap, Measure::Space));
        Some(cells)
    });
    table(
        [title(results, Measure::Space), "peak resident", "trimmed", "committed", "ratio"],
        rows.collect(),
        columns,
    )
}

/// The time of each heap, where it was measured.
fn time_table(results: &Results, columns: usize) -> Option<Ruled> {
    let rows = results.heaps.iter().filter_map(|heap| {
        let ns = match &heap.time {
            Some(time) => range(time.ns_per_event, 1),
            None => failed(heap, "time")?,
        };
        Some(vec![name(heap), ns, compared(results, heap, Measure::Time)])
    });
    table([title(results, Measure::Time), "ns an event", "ratio"], rows.collect(), columns)
}

fn title(results: &Results, measure: Measure) -> &'static str {
    match (measure, results.earlier == Some(measure)) {
        (Measure::Space, false) => "space",
        (Measure::Space, true) => "space, earlier",
        (Measure::Time, false) => "time",
        (Measure::Time, true) => "time, earlier",
    }
}

/// The peak and, if several cells differ, their range: `23.5 to 27.9 MiB`, with a common unit only
/// once.
fn peak(space: &Space) -> String {
    if space.resident_unknown {
        return "not measured".into();
    }
    let value = bytes(space.peak_resident_bytes);
    match space.peak_resident_range_bytes {
        (low, high) if bytes(low) == bytes(high) => value,
        (low, high) => format!("{value}\n{}", bytes_range(low, high)),
    }
}

/// `None`: there is nothing to show.
fn table<T: ToString>(
    headings: impl IntoIterator<Item = T>,
    rows: Vec<Vec<String>>,
    columns: usize,
) -> Option<Ruled> {
    (!rows.is_empty()).then(|| ruled(Ruling::EveryRow, headings, rows, 1, columns))
}

/// A heap's name and, below it, its version. A library has its path as version, which is left out.
fn name(heap: &HeapResult) -> String {
    let parameters = if heap.heap.starts_with("lib:") {
        path_lines(&heap.heap)
    } else {
        parameter_lines(&heap.heap)
    };
    if heap.version.is_empty() || heap.heap.contains(&heap.version) {
        parameters
    } else {
        format!("{parameters}\n{}", heap.version)
    }
}

/// A heap's name with a line for each parameter; the first one, too, if the name is long.
pub(crate) fn parameter_lines(name: &str) -> String {
    const COLUMNS: usize = 18;
    let first = name.split(',').next().unwrap_or(name);
    let name = if first.contains('=') && first.chars().count() > COLUMNS {
        name.replacen(':', ":\n ", 1)
    } else {
        name.into()
    };
    name.replace(',', ",\n ")
}

/// A library's path in lines about as wide as its column in the table, broken between words.
fn path_lines(path: &str) -> String {
    word_lines(path, 22)
}

/// A name in lines of about so many columns, broken where its words end.
pub(crate) fn word_lines(name: &str, columns: usize) -> String {
    let mut lines = vec![String::new()];
    for word in name.split_inclusive(['/', '-', '_']) {
        match lines.last_mut() {
            Some(line)
                if line.is_empty() || line.chars().count() + word.chars().count() <= columns =>
            {
                line.push_str(word)
            }
            _ => lines.push(format!(" {word}")),
        }
    }
    lines.join("\n")
}

fn failed(heap: &HeapResult, kind: &str) -> Option<String> {
    heap.failures.iter().any(|failure| failure.kind == kind).then(|| String::from("failed"))
}

/// The heap against the first one.
fn compared(results: &Results, heap: &HeapResult, measure: Measure) -> String {
    let found = results
        .comparisons
        .iter()
        .find(|comparison| comparison.heap == heap.heap && comparison.measure == measure);
    // A ratio to next to nothing is meaningless; the verdict has the difference.
    let found = found.filter(|comparison| has_ratio(comparison, results));
    found.map_or_else(String::new, |comparison| range(comparison.ratio, 3))
}

fn range(estimate: Estimate, digits: usize) -> String {
    let [value, low, high] =
        [estimate.value, estimate.low, estimate.high].map(|number| format!("{number:.digits$}"));
    if low == high { value } else { format!("{value}\n{low} to {high}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_long_names_fit_the_terminal() {
        let json = include_str!("../tests/data/results.json");
        let results: Results = serde_json::from_str(json).unwrap();
        let text = super::results(&results, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }
}
