//! The document's graphs, as SVG: committed against used, old beside elastic; committed and RSS,
//! old against elastic; and the histograms of sizes, asked for and put on free lists.

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
    let x = "looks at the recorded churn: every 4000 events, and before and after each drop";
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

/// How wide a plateau a look after a drop is drawn: the program stood still then, and next to no
/// events tell so.
const PLATEAU: f64 = 10.0;

/// Where each look lies on the x axis, and where its plateau ends. The axis counts looks rather
/// than events, because churn's last drops come within a few hundred events of each other, after
/// 430,000.
fn places(looks: &[Look]) -> Vec<(f64, f64)> {
    let mut at = 0.0;
    let mut places = Vec::with_capacity(looks.len());
    for look in looks {
        let width = if matches!(look.phase, Phase::Dropped | Phase::Empty) { PLATEAU } else { 0.0 };
        places.push((at, at + width));
        at += width + 1.0;
    }
    places
}

fn series(name: &str, looks: &[Look], value: impl Fn(&Look) -> u64) -> Series {
    let megabytes = |look: &Look| value(look) as f64 / f64::from(1 << 20);
    let points = looks
        .iter()
        .zip(places(looks))
        .flat_map(|(look, (from, to))| [(from, megabytes(look)), (to, megabytes(look))]);
    Series { name: name.into(), points: points.collect() }
}

/// The drops, numbered, and where everything died.
fn drops(looks: &[Look]) -> Vec<(f64, String)> {
    let mut number = 0;
    let mut marks = Vec::new();
    for (look, (from, _)) in looks.iter().zip(places(looks)) {
        match look.phase {
            Phase::Dropped => {
                number += 1;
                marks.push((from, format!("drop {number}")));
            }
            Phase::Empty => marks.push((from, "all gone".into())),
            Phase::Running | Phase::Loaded => {}
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

/// Blocks put on free lists by size: given back early, or left of a retired chunk.
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
