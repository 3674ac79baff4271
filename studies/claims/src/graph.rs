//! A graph of lines as SVG, for the pictures of studies.

use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
/// The y of the x axis.
const BASE: f64 = HEIGHT - 72.0;
/// Colours that people with red-green blindness can distinguish (Okabe and Ito).
const COLOURS: [&str; 4] = ["#d55e00", "#0072b2", "#009e73", "#cc79a7"];

/// A line of a graph.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// By x.
    pub points: Vec<(f64, f64)>,
}

/// Lines over one x axis.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Above it.
    pub title: String,
    /// The label of the x axis.
    pub x: &'static str,
    /// The label of the y axis.
    pub y: &'static str,
    /// The lines; four to a row of the legend.
    pub series: Vec<Series>,
    /// Places on the x axis with a dashed line, each with its label.
    pub marks: Vec<(f64, String)>,
}

/// Writes graphs as files of these names into a folder, which it makes if missing. Returns the
/// files.
///
/// # Errors
/// The folder or a file cannot be written.
pub fn write(
    folder: &Path,
    graphs: impl IntoIterator<Item = (&'static str, Graph)>,
) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{}: cannot create this folder", folder.display()))?;
    let mut files = Vec::new();
    for (name, graph) in graphs {
        let path = folder.join(name);
        std::fs::write(&path, graph.svg())
            .with_context(|| format!("{}: cannot write", path.display()))?;
        files.push(path);
    }
    Ok(files)
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
        let scale = Scale {
            x_max: points().map(|(x, _)| *x).fold(1.0, f64::max),
            y_max: points().map(|(_, y)| *y).fold(1e-6, f64::max) * 1.05,
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
            self.title
        );
        self.draw_axes(&scale, &mut svg);
        self.draw_marks(&scale, &mut svg);
        self.draw_series(&scale, &mut svg);
        svg + "</svg>\n"
    }

    fn draw_axes(&self, scale: &Scale, svg: &mut String) {
        let mut at = 0.0;
        while at <= scale.y_max {
            let y = scale.down(at);
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
            at += tick(scale.y_max);
        }
        at = 0.0;
        while at <= scale.x_max {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{at}</text>",
                scale.across(at),
                BASE + 18.0
            );
            at += tick(scale.x_max);
        }
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            BASE + 36.0,
            self.x
        );
        let _ = writeln!(svg, "<text x=\"8\" y=\"{}\">{}</text>", TOP - 4.0, self.y);
    }

    fn draw_marks(&self, scale: &Scale, svg: &mut String) {
        for (place, says) in &self.marks {
            let x = scale.across(*place);
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{BASE}\" stroke=\"#888\" stroke-dasharray=\"3 3\"/>"
            );
            // A label without room before the frame's end stands to the left of its line.
            let fits = x + 6.0 * says.chars().count() as f64 <= WIDTH - RIGHT;
            let (x, anchor) = if fits { (x + 3.0, "start") } else { (x - 3.0, "end") };
            let y = TOP - 3.0;
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"10\" fill=\"#555\">{says}</text>"
            );
        }
    }

    fn draw_series(&self, scale: &Scale, svg: &mut String) {
        for (index, series) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let line: Vec<String> = series
                .points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", scale.across(*x), scale.down(*y)))
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
    }
}

/// The largest numbers on the axes.
struct Scale {
    x_max: f64,
    y_max: f64,
}

impl Scale {
    /// Where a number stands on the axis along the picture.
    fn across(&self, x: f64) -> f64 {
        LEFT + x / self.x_max * (WIDTH - LEFT - RIGHT)
    }

    /// Where a number stands on the upright axis.
    fn down(&self, y: f64) -> f64 {
        BASE - y / self.y_max * (BASE - TOP)
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
