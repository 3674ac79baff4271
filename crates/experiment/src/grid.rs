//! Several workloads on the same heaps, as a person reads them: a row a heap, a column a workload,
//! each heap as a ratio to the first one, and the geometric mean of the ratios.
//!
//! Each workload's own results have all other figures.

mod measured;

use crate::results::Results;
use crate::text::{parameter_lines, word_lines};
use crate::verdict::never_whole;
use heaplab_text::lines::{cut, hanging, paragraph};
use heaplab_text::table::{Ruled, Ruling, ruled};
use heaplab_text::words::plural;
use measured::{Measured, Ratio};

/// Workloads that stand side by side in a terminal of 80 columns.
const WORKLOADS_MAX: usize = 5;
/// Columns for a workload's name.
const NAME_COLUMNS_MAX: usize = 10;

/// Least columns for a heap's name.
const HEAP_COLUMNS_MIN: usize = 16;
/// Between two columns.
const MARGINS: usize = 2;

/// The results of one workload, under a name that no other has.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name of its column.
    pub name: String,
    /// The results. All have the same heaps in the same order.
    pub results: Results,
}

/// The whole text, `columns` wide.
pub fn text(grid: &[Named], columns: usize) -> String {
    let Some(baseline) = grid.first().and_then(|named| named.results.heaps.first()) else {
        return String::new();
    };
    let heaps = grid[0].results.heaps.len();
    let heading = format!(
        "{} on {}, each as a ratio to {}: below 1 needs less. A ratio in brackets is no difference \
         that the cells show; ± is the distance to the farther end of its 95 % interval.",
        plural(grid.len() as u64, "workload"),
        plural(heaps as u64, "heap"),
        baseline.heap
    );
    let mut out = paragraph(&heading, "", 0, columns);
    for measure in Measured::ALL.into_iter().filter(|measure| measure.is_told(grid)) {
        for part in grid.chunks(side_by_side(grid, columns)) {
            out += &format!("\n{}\n", table(part, grid, measure, columns));
        }
        out.push('\n');
        for sentence in least(grid, measure) {
            out += &hanging(&sentence, "", columns);
        }
    }
    for caution in young_alone(grid) {
        out += &hanging(&caution, "Note: ", columns);
    }
    for failure in failures(grid) {
        out += &hanging(&failure, "Not measured: ", columns);
    }
    out
}

/// Number of workloads side by side at which names of heaps keep room for a word.
fn side_by_side(grid: &[Named], columns: usize) -> usize {
    const FIGURE_COLUMNS: usize = 8;
    const MEAN_COLUMNS: usize = 11;
    let longest = grid.iter().map(|named| named.name.chars().count()).max().unwrap_or(0);
    let each = longest.clamp(FIGURE_COLUMNS, NAME_COLUMNS_MAX) + MARGINS;
    let left = columns.saturating_sub(HEAP_COLUMNS_MIN + MARGINS + MEAN_COLUMNS);
    let most = (left / each).clamp(1, WORKLOADS_MAX);
    // Balanced tables: three and two, not four and one.
    grid.len().div_ceil(grid.len().div_ceil(most).max(1)).max(1)
}

/// Rows of heaps, columns of the workloads of `part`, and the mean over the whole grid.
fn table(part: &[Named], grid: &[Named], measure: Measured, columns: usize) -> Ruled {
    let mut headings = vec![measure.title().to_owned()];
    headings.extend(part.iter().map(|named| cut(&named.name, NAME_COLUMNS_MAX)));
    headings.push("geometric\nmean".into());
    let heaps = &grid[0].results.heaps;
    let figures: Vec<Vec<String>> = (0..heaps.len())
        .map(|at| {
            let mean = mean(grid, at, measure).map_or_else(String::new, |mean| {
                with_interval(format!("{:.3}", mean.value), mean.half_width())
            });
            part.iter().map(|named| cell(named, at, measure)).chain([mean]).collect()
        })
        .collect();
    let room = room(&headings[1..], &figures, columns);
    let rows = heaps.iter().zip(figures).map(|(heap, figures)| {
        let lines = parameter_lines(&heap.heap);
        let lines: Vec<String> = lines.lines().map(|line| word_lines(line, room)).collect();
        [vec![lines.join("\n")], figures].concat()
    });
    ruled(Ruling::Heading, headings.clone(), rows.collect::<Vec<_>>(), 1, columns)
}

/// Columns that the figures leave for names, each with its margins.
fn room(headings: &[String], figures: &[Vec<String>], columns: usize) -> usize {
    let longest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let taken: usize = (0..headings.len())
        .map(|at| {
            let figures = figures.iter().map(|row| longest(&row[at])).max().unwrap_or(0);
            figures.max(longest(&headings[at])) + MARGINS
        })
        .sum();
    columns.saturating_sub(taken + MARGINS).max(HEAP_COLUMNS_MIN)
}

/// The first heap's own figure; another heap's ratio to it.
fn cell(named: &Named, heap: usize, measure: Measured) -> String {
    let found = &named.results.heaps[heap];
    if !measure.is_in(found) {
        return String::from("failed");
    }
    if heap == 0 {
        return measure.figure(found);
    }
    measure.ratio(named, heap).map_or_else(String::new, |ratio| {
        let text = format!("{:.3}", ratio.value);
        let text = if ratio.is_shown { text } else { format!("({text})") };
        with_interval(text, ratio.half_width())
    })
}

/// A figure and, below it, its interval, if one shows at this number of digits.
fn with_interval(figure: String, half_width: Option<f64>) -> String {
    let shown = half_width.map(|half| format!("{half:.3}")).filter(|half| half != "0.000");
    shown.map_or(figure.clone(), |half| format!("{figure}\n±{half}"))
}

/// The geometric mean of a heap's ratios; `None` where a workload has none, so that means of
/// different workloads are never compared. Its interval is of these workloads, not of others:
/// blocks of two workloads are independent, so the half widths of the logarithms add up as roots of
/// squares.
fn mean(grid: &[Named], heap: usize, measure: Measured) -> Option<Ratio> {
    const ONE: Ratio = Ratio { value: 1.0, interval: None, is_shown: true };
    if heap == 0 {
        return grid.iter().all(|named| measure.is_in(&named.results.heaps[0])).then_some(ONE);
    }
    let logarithms: Option<Vec<(f64, f64)>> =
        grid.iter().map(|named| measure.ratio(named, heap)?.logarithm()).collect();
    let logarithms = logarithms?;
    let count = logarithms.len() as f64;
    let value = logarithms.iter().map(|(value, _)| value).sum::<f64>() / count;
    let half = logarithms.iter().map(|(_, half)| half * half).sum::<f64>().sqrt() / count;
    let interval = (half > 0.0).then(|| ((value - half).exp(), (value + half).exp()));
    Some(Ratio { value: value.exp(), interval, is_shown: true })
}

/// The heap with the least need in the mean, and that of each workload.
fn least(grid: &[Named], measure: Measured) -> Vec<String> {
    let what = measure.what();
    let heaps = &grid[0].results.heaps;
    let means = (0..heaps.len()).filter_map(|heap| Some((heap, mean(grid, heap, measure)?.value)));
    let best = means.min_by(|one, other| one.1.total_cmp(&other.1));
    let mut sentences: Vec<String> = best
        .map(|(heap, mean)| {
            format!("Least {what} in the mean: {}, {mean:.3} times.", heaps[heap].heap)
        })
        .into_iter()
        .collect();
    let by_workload: Vec<String> = grid
        .iter()
        .filter_map(|named| {
            let ratios =
                (1..heaps.len()).filter_map(|heap| Some((heap, measure.ratio(named, heap)?.value)));
            // The first of equal heaps: a heap that saves nothing is not named.
            let first = measure.is_in(&named.results.heaps[0]).then_some((0, 1.0));
            let (heap, ratio) =
                first.into_iter().chain(ratios).min_by(|one, other| one.1.total_cmp(&other.1))?;
            Some(format!("{}: {} ({ratio:.3})", named.name, heaps[heap].heap))
        })
        .collect();
    if !by_workload.is_empty() {
        sentences.push(format!("Least {what} by workload: {}.", by_workload.join("; ")));
    }
    sentences
}

/// A sentence a workload in which some heap collected young objects alone.
fn young_alone(grid: &[Named]) -> Vec<String> {
    grid.iter()
        .filter_map(|named| Some(format!("{}: {}", named.name, never_whole(&named.results.heaps)?)))
        .collect()
}

/// A sentence a heap and workload with failed cells.
fn failures(grid: &[Named]) -> Vec<String> {
    grid.iter()
        .flat_map(|named| named.results.heaps.iter().map(move |heap| (named, heap)))
        .filter_map(|(named, heap)| {
            let failure = heap.failures.first()?;
            Some(format!("{} on {} ({}): {}", named.name, heap.heap, failure.kind, failure.reason))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Measure;
    use heaplab_heap::{Collection, SpaceState};
    use heaplab_statistics::Estimate;

    fn results() -> Results {
        serde_json::from_str(include_str!("../tests/data/results.json")).unwrap()
    }

    fn grid() -> Vec<Named> {
        let mut other = results();
        for comparison in &mut other.comparisons {
            let Estimate { value, low, high } = &mut comparison.ratio;
            for number in [value, low, high] {
                *number /= 4.0;
            }
        }
        ["sqlite", "a-long-name-of-a-workload"]
            .map(String::from)
            .into_iter()
            .zip([results(), other])
            .map(|(name, results)| Named { name, results })
            .collect()
    }

    #[test]
    fn two_workloads_stand_side_by_side_with_their_mean() {
        let text = text(&grid(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn long_names_are_broken_between_their_words() {
        let mut grid: Vec<Named> = ["a", "b", "c", "d", "e"]
            .map(|name| Named { name: name.repeat(10), results: results() })
            .into();
        for named in &mut grid {
            let heap = &mut named.results.heaps[1].heap;
            let name = "v8:half-small-many-fast-path,every=20000";
            for one in named.results.comparisons.iter_mut().filter(|one| one.heap == *heap) {
                one.heap = name.into();
            }
            *heap = name.into();
        }
        let text = text(&grid, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let table = text.split("Least").next().unwrap();
        for line in ["v8:half-small-many-fast-path, ", " every=20000 "] {
            assert!(table.lines().any(|shown| shown.starts_with(line)), "{line} in {table}");
        }
        let workloads = |letter: &str| table.lines().position(|line| line.contains(letter));
        assert!(workloads("cccccccccc") < workloads("dddddddddd"), "three, and two: {table}");
    }

    #[test]
    fn the_mean_is_of_all_workloads_or_of_none() {
        let mut grid = grid();
        let one = Measured::Resident.ratio(&grid[0], 1).unwrap().value;
        let halved = mean(&grid, 1, Measured::Resident).unwrap().value;
        assert!((halved - one / 2.0).abs() < 1e-12, "of a ratio and a quarter of it: {halved}");
        grid[1].results.comparisons.clear();
        assert!(mean(&grid, 1, Measured::Resident).is_none());
        assert_eq!(mean(&grid, 0, Measured::Resident).unwrap().value, 1.0);
    }

    #[test]
    fn a_mean_of_two_equal_ratios_is_surer_than_each() {
        let mut grid = grid();
        grid[1].results = grid[0].results.clone();
        let one = Measured::Time.ratio(&grid[0], 1).unwrap();
        let both = mean(&grid, 1, Measured::Time).unwrap();
        assert!((both.value - one.value).abs() < 1e-12);
        let [one, both] = [one, both].map(|ratio| ratio.logarithm().unwrap().1);
        assert!((one / both - 2_f64.sqrt()).abs() < 1e-9, "{one} and {both}");
    }

    #[test]
    fn failed_cells_are_named() {
        let mut grid = grid();
        let heap = &mut grid[1].results.heaps[1];
        heap.space = None;
        heap.failures.push(crate::results::CellFailure {
            kind: "space".into(),
            block: 0,
            reason: "out of memory".into(),
        });
        grid[1].results.comparisons.retain(|one| one.measure != Measure::Space);
        let text = text(&grid, 80);
        assert!(text.contains("failed") && text.contains("out of memory"), "{text}");
    }

    #[test]
    fn heaps_that_collect_are_compared_by_their_main_space_too() {
        let mut grid = grid();
        let resident = |grid: &[Named]| !text(grid, 80).contains("main space");
        assert!(resident(&grid), "no heap collects");
        let collection = |kind: &'static str, committed_bytes| Collection {
            kind: kind.into(),
            before: SpaceState { committed_bytes, ..SpaceState::default() },
            ..Collection::default()
        };
        for named in &mut grid {
            for (at, heap) in named.results.heaps.iter_mut().enumerate() {
                let most = 1 << (20 + at);
                heap.collections = vec![collection("scavenge", most), collection("mark-sweep", 1)];
            }
        }
        grid[1].results.heaps[1].collections.pop();
        let ratio = mean(&grid, 1, Measured::Main).unwrap().value;
        assert!((ratio - 2.0).abs() < 1e-12, "{ratio}");
        let all = text(&grid, 80);
        assert!(all.contains("main space") && all.contains("Least main space in the mean: glibc"));
        assert!(all.contains("Note: a-long-name-of-a-workload: No collection of"), "{all}");
        assert!(!all.contains("Note: sqlite: No collection"), "{all}");
        grid[0].results.heaps[2].collections.clear();
        assert!(resident(&grid), "one heap does not collect");
    }
}
