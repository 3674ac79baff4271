//! The document's graphs, as SVG: committed against used, old beside elastic; committed and RSS,
//! old against elastic; and histograms of the sizes of requests and of blocks on free lists.

use super::claims::{DESIGNS, LARGE_WORDS, looks};
use super::curves::{self, Look, Phase};
use super::workload::{self, Event};
use anyhow::Result;
use heaplab_study::graph::{self, Graph, Series};
use std::path::{Path, PathBuf};

/// Draws every graph into `folder` and returns the files.
pub fn draw(folder: &Path) -> Result<Vec<PathBuf>> {
    graph::write(folder, graphs()?)
}

fn graphs() -> Result<Vec<(&'static str, Graph)>> {
    let old = looks("churn", "jdk11")?;
    let elastic = looks("churn", "jdk17")?;
    let x = "seconds since the recorded JVM began; everything dies at the end";
    let against_used = |title: &str, looks: &[Look]| Graph {
        title: title.into(),
        x,
        y: "MB",
        series: vec![
            series("committed", looks, |look| look.moment.committed),
            series("used", looks, |look| look.moment.used),
        ],
        marks: drops(looks),
    };
    let mut committed = Vec::new();
    let mut resident = Vec::new();
    for (design, name) in DESIGNS {
        let looks = looks("churn", design)?;
        committed.push(series(name, &looks, |look| look.moment.committed));
        resident.push(series(name, &looks, |look| look.resident));
    }
    Ok(vec![
        ("committed-used-old.svg", against_used("Committed and used, old design (JDK 11)", &old)),
        (
            "committed-used-elastic.svg",
            against_used("Committed and used, elastic (JDK 17, balanced)", &elastic),
        ),
        (
            "committed.svg",
            Graph {
                title: "Committed metaspace, old and elastic".into(),
                x,
                y: "MB",
                series: committed,
                marks: drops(&old),
            },
        ),
        (
            "rss.svg",
            Graph {
                title: "RSS, old and elastic (every block written)".into(),
                x,
                y: "MB",
                series: resident,
                marks: drops(&old),
            },
        ),
        ("sizes.svg", requested()?),
        ("sizes-freed.svg", put_away()?),
    ])
}

/// A look's place on the x axis.
fn seconds(look: &Look) -> f64 {
    look.time_us as f64 / 1e6
}

/// The measured values, each held until the next look: there was no level between two looks.
fn series(name: &str, looks: &[Look], value: impl Fn(&Look) -> u64) -> Series {
    let megabytes = |look: &Look| value(look) as f64 / f64::from(1 << 20);
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(2 * looks.len());
    for look in looks {
        let (at, now) = (seconds(look), megabytes(look));
        points.extend(points.last().map(|(_, before)| (at, *before)));
        points.push((at, now));
    }
    Series { name: name.into(), points }
}

/// Marks closer than this have one label.
const ONE_LABEL_SECONDS: f64 = 0.2;

/// The numbered drops, and the point where everything died.
fn drops(looks: &[Look]) -> Vec<(f64, String)> {
    let mut number = 0;
    let mut marks: Vec<(f64, String)> = Vec::new();
    for look in looks {
        let says = match look.phase {
            Phase::Dropped => {
                number += 1;
                format!("drop {number}")
            }
            Phase::Empty => "all gone".into(),
            Phase::Running | Phase::Loaded => continue,
        };
        let from = seconds(look);
        match marks.last_mut() {
            Some((last, label)) if from - *last < ONE_LABEL_SECONDS => {
                label.push_str(", ");
                label.push_str(&says);
            }
            _ => marks.push((from, says)),
        }
    }
    marks
}

/// A histogram of `sizes` up to 100 words, per mille of all.
fn per_mille(name: &str, sizes: impl Iterator<Item = usize>) -> Series {
    let mut counts = [0u64; 101];
    let mut total = 0u64;
    for words in sizes {
        total += 1;
        if let Some(count) = counts.get_mut(words) {
            *count += 1;
        }
    }
    let share = |count: u64| 1e3 * count as f64 / total.max(1) as f64;
    let points = counts
        .iter()
        .enumerate()
        .skip(1)
        .map(|(words, count)| (words as f64, share(*count)))
        .collect();
    Series { name: name.into(), points }
}

fn sizes(title: &str, series: Vec<Series>) -> Graph {
    let marks = vec![(LARGE_WORDS as f64, format!("{LARGE_WORDS} words"))];
    Graph { title: title.into(), x: "words", y: "per mille", series, marks }
}

/// Requests by size, outside of class space.
fn requested() -> Result<Graph> {
    let of = |workload: workload::Workload| {
        per_mille(
            workload.name,
            workload.requests().filter(|(_, class)| !class).map(|(words, _)| words),
        )
    };
    Ok(sizes(
        "Requests outside of class space, by size",
        vec![of(workload::churn()?), of(workload::jruby()?)],
    ))
}

/// Blocks put on free lists by size: freed early, or left of a retired chunk.
fn put_away() -> Result<Graph> {
    let mut all = Vec::new();
    for workload in [workload::churn()?, workload::jruby()?] {
        let given_back = |event: &Event| {
            if let Event::Deallocate(_, words, _) = event { Some(*words) } else { None }
        };
        for (design, name) in [("jdk11", "old"), ("jdk17", "elastic")] {
            let left = curves::leftovers(&workload, design)?;
            all.push(per_mille(
                &format!("{}, {name}", workload.name),
                left.into_iter().chain(workload.events.iter().filter_map(given_back)),
            ));
        }
    }
    Ok(sizes("Blocks put on free lists, both spaces, by size", all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaplab_metaspace::designs::Usage;

    #[test]
    fn a_line_holds_each_look_until_the_next_and_invents_none() {
        let look = |time_us, used| Look {
            phase: Phase::Running,
            time_us,
            moment: Usage { used, ..Usage::default() },
            resident: 0,
            mappings: 0,
        };
        let ends = [Phase::Dropped, Phase::Dropped, Phase::Empty]
            .map(|phase| Look { phase, ..look(2_000_000, 0) });
        assert_eq!(drops(&ends), [(2.0, "drop 1, drop 2, all gone".to_string())]);
        let mib = 1 << 20;
        let looks = [look(0, 4 * mib), look(2_000_000, mib), look(10_000_000, 2 * mib)];
        let line = series("used", &looks, |look| look.moment.used);
        assert_eq!(line.points, [(0.0, 4.0), (2.0, 4.0), (2.0, 1.0), (10.0, 1.0), (10.0, 2.0)]);
    }
}
