//! The document's graphs, as SVG: committed against used, old beside elastic; committed and RSS, old against elastic; and the
//! histogram of sizes.

use super::claims::{DESIGNS, looks};
use super::curves::Look;
use super::workload;
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
}

/// Draws every graph into `folder` and returns the files.
pub fn draw(folder: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot create this folder", folder.display()))?;
    let mut files = Vec::new();
    for (name, graph) in graphs()? {
        let path = folder.join(name);
        std::fs::write(&path, graph.svg()).with_context(|| format!("{}: cannot write", path.display()))?;
        files.push(path);
    }
    Ok(files)
}

fn graphs() -> Result<Vec<(&'static str, Graph)>> {
    let old = looks("churn", "jdk11")?;
    let elastic = looks("churn", "jdk17")?;
    let x = "events of the recorded churn, in thousands";
    let against_used = |title: &str, looks: &[Look]| Graph {
        title: title.into(),
        x,
        y: "MB",
        series: vec![series("committed", looks, |look| look.moment.committed), series("used", looks, |look| look.moment.used)],
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
        ("committed-used-elastic.svg", against_used("Committed and used, elastic (JDK 17, balanced)", &elastic)),
        ("committed.svg", Graph { title: "Committed metaspace, old and elastic".into(), x, y: "MB", series: committed }),
        ("rss.svg", Graph { title: "RSS, old and elastic (every block written)".into(), x, y: "MB", series: resident }),
        ("sizes.svg", histogram()?),
    ])
}

fn series(name: &str, looks: &[Look], value: impl Fn(&Look) -> u64) -> Series {
    let point = |look: &Look| (look.event as f64 / 1e3, value(look) as f64 / f64::from(1 << 20));
    Series { name: name.into(), points: looks.iter().map(point).collect() }
}

/// How many requests of each size up to 100 words, per mille of all, outside of class space.
fn histogram() -> Result<Graph> {
    let mut all = Vec::new();
    for workload in [workload::churn()?, workload::jruby()?] {
        let mut counts = [0u64; 101];
        let mut total = 0u64;
        for (words, _) in workload.requests().filter(|(_, class)| !class) {
            total += 1;
            if let Some(count) = counts.get_mut(words) {
                *count += 1;
            }
        }
        let points = counts.iter().enumerate().skip(1).map(|(words, count)| (words as f64, 1e3 * *count as f64 / total as f64)).collect();
        all.push(Series { name: workload.name.into(), points });
    }
    Ok(Graph { title: "Requests outside of class space, by size".into(), x: "words", y: "per mille", series: all })
}

/// A step of 1, 2 or 5 times a power of ten that cuts `span` into at most eight.
fn tick(span: f64) -> f64 {
    let power = 10f64.powf((span / 8.0).max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| span / step <= 8.0).unwrap_or(span)
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
            let _ = writeln!(svg, "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>", WIDTH - RIGHT);
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{at}</text>", LEFT - 6.0, y + 4.0);
            at += tick(y_max);
        }
        at = 0.0;
        while at <= x_max {
            let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{at}</text>", across(at), bottom + 18.0);
            at += tick(x_max);
        }
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", WIDTH - RIGHT, bottom + 36.0, self.x);
        let _ = writeln!(svg, "<text x=\"8\" y=\"{}\">{}</text>", TOP - 4.0, self.y);
        for (index, series) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let line: Vec<String> = series.points.iter().map(|(x, y)| format!("{:.1},{:.1}", across(*x), down(*y))).collect();
            let _ = writeln!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>", line.join(" "));
            let place = LEFT + index as f64 * (WIDTH - LEFT - RIGHT) / 4.0;
            let _ = writeln!(svg, "<rect x=\"{place}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>", HEIGHT - 18.0);
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", place + 20.0, HEIGHT - 12.0, series.name);
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
        let series = vec![Series { name: "committed".into(), points: vec![(0.0, 0.0), (10.0, 4.0), (20.0, 2.0)] }];
        let svg = Graph { title: "t".into(), x: "events", y: "MB", series }.svg();
        assert!(svg.contains("points=\"64.0,268.0 384.0,50.9 704.0,") && svg.ends_with("</svg>\n"), "{svg}");
    }
}
