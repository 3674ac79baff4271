//! The document's graphs, as SVG: committed against used, old beside elastic; committed and RSS,
//! old against elastic; and the histograms of sizes, asked for and put on free lists.

use super::claims::{DESIGNS, LARGE_WORDS, looks};
use super::curves::{self, Look, Phase};
use super::workload::{self, Event};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 72.0;
/// Colours that people who do not see red and green apart can tell (Okabe and Ito).
const COLOURS: [&str; 4] = ["#d55e00", "#0072b2", "#009e73", "#cc79a7"];

/// A line of a graph.
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

struct Graph {
    title: String,
    x: &'static str,
    y: &'static str,
    series: Vec<Series>,
    /// Places on the x axis that a dashed line marks, each with what it says.
    marks: Vec<(f64, String)>,
}

/// Draws every graph into `folder` and returns the files.
pub fn draw(folder: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{}: cannot create this folder", folder.display()))?;
    let mut files = Vec::new();
    for (name, graph) in graphs()? {
        let path = folder.join(name);
        std::fs::write(&path, graph.svg())
            .with_context(|| format!("{}: cannot write", path.display()))?;
        files.push(path);
    }
    Ok(files)
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

/// A step of 1, 2 or 5 times a power of ten that cuts `span` into at most eight.
fn tick(span: f64) -> f64 {
    let power = 10f64.powf((span / 8.0).max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| span / step <= 8.0)
        .unwrap_or(span)
}

impl Graph {
    fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x_max = points().map(|(x, _)| *x).fold(1.0, f64::max);
        let y_max = points().map(|(_, y)| *y).fold(1e-6, f64::max) * 1.05;
        let across = |x: f64| LEFT + x / x_max * (WIDTH - LEFT - RIGHT);
        let down = |y: f64| HEIGHT - BOTTOM - y / y_max * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
            self.title
        );
        let bottom = HEIGHT - BOTTOM;
        let mut at = 0.0;
        while at <= y_max {
            let y = down(at);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>",
                WIDTH - RIGHT
            );
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{at}</text>",
                LEFT - 6.0,
                y + 4.0
            );
            at += tick(y_max);
        }
        at = 0.0;
        while at <= x_max {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{at}</text>",
                across(at),
                bottom + 18.0
            );
            at += tick(x_max);
        }
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            bottom + 36.0,
            self.x
        );
        let _ = writeln!(svg, "<text x=\"8\" y=\"{}\">{}</text>", TOP - 4.0, self.y);
        for (place, says) in &self.marks {
            let x = across(*place);
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#888\" stroke-dasharray=\"3 3\"/>"
            );
            let (x, y) = (x + 3.0, TOP - 3.0);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y}\" font-size=\"10\" fill=\"#555\">{says}</text>"
            );
        }
        for (index, series) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let line: Vec<String> = series
                .points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", across(*x), down(*y)))
                .collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
                line.join(" ")
            );
            let place = LEFT + index as f64 * (WIDTH - LEFT - RIGHT) / 4.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{place}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>",
                HEIGHT - 18.0
            );
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\">{}</text>",
                place + 20.0,
                HEIGHT - 12.0,
                series.name
            );
        }
        svg + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!([7.0, 9.0, 100.0, 436.0, 0.5].map(tick), [1.0, 2.0, 20.0, 100.0, 0.1]);
    }

    #[test]
    fn a_graph_holds_every_point_within_its_frame() {
        let series = vec![Series {
            name: "committed".into(),
            points: vec![(0.0, 0.0), (10.0, 4.0), (20.0, 2.0)],
        }];
        let svg = Graph {
            title: "t".into(),
            x: "events",
            y: "MB",
            series,
            marks: vec![(10.0, "half".into())],
        }
        .svg();
        assert!(
            svg.contains("points=\"64.0,268.0 384.0,50.9 704.0,") && svg.ends_with("</svg>\n"),
            "{svg}"
        );
        assert!(svg.contains("x1=\"384.0\" x2=\"384.0\"") && svg.contains(">half</text>"), "{svg}");
    }
}
