//! The document's pictures as SVG: single points, curves, and memory against heap over iteration
//! counts; for the lab, and for the real runtime if OCaml 4 is installed. `heaplab curve` draws the
//! curves of measured times.

use crate::{DEFAULT, OVERHEADS, counted, lab, programs, real};
use anyhow::{Context, Result};
use heaplab_curve::compare::Fitted;
use heaplab_curve::results::CurveResult;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 72.0;
/// Colours that people with red-green blindness can distinguish (Okabe and Ito).
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#56b4e9", "#e69f00"];
/// Both policies, by their names in legends.
const POLICIES: [&str; 2] = ["next-fit", "best-fit"];
const MIB: f64 = 1_048_576.0;

/// A series of points; `line`: the line to draw with them.
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    line: Vec<(f64, f64)>,
    /// Names beside points, by their index.
    labels: Vec<(usize, String)>,
}

struct Graph {
    title: String,
    x: &'static str,
    y: &'static str,
    series: Vec<Series>,
}

/// Draws every picture into `folder` and returns the files.
pub fn draw(folder: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{}: cannot create this folder", folder.display()))?;
    let mut pictures = vec![
        ("lab-curves.svg".into(), lab_curves()?.svg()),
        ("lab-heap-and-touched.svg".into(), lab_grown()?.svg()),
    ];
    for program in programs::all()? {
        let name = program.name;
        let points = real::measured(&program)?.points;
        if name == "strcache" {
            pictures.push(("points.svg".into(), single(&points).svg()));
        }
        let measured = real::picture(name)?;
        let measured =
            std::fs::read_to_string(&measured).with_context(|| measured.display().to_string())?;
        pictures.push((format!("curves-{name}.svg"), measured));
        if let Some(counts) = counted::counts(&program)? {
            pictures.push((format!("counted-{name}.svg"), counted_curves(name, &counts).svg()));
        }
    }
    for (name, runs) in real::grown()? {
        pictures.push((format!("heap-and-memory-{name}.svg"), grown(name, &runs).svg()));
    }
    let mut files = Vec::new();
    for (name, picture) in pictures {
        let path = folder.join(name);
        std::fs::write(&path, picture)
            .with_context(|| format!("{}: cannot write", path.display()))?;
        files.push(path);
    }
    Ok(files)
}

/// The document's first picture: a point for each policy.
fn single(points: &[Vec<real::Measured>; 2]) -> Graph {
    let at = OVERHEADS.iter().position(|one| *one == DEFAULT).unwrap_or_default();
    let series = |policy: usize| {
        let point = points[policy][at];
        Series::of(POLICIES[policy], vec![(point.seconds, point.space_bytes / MIB)])
    };
    Graph {
        title: format!("strcache at o={DEFAULT}"),
        x: "CPU seconds",
        y: "RSS, MiB",
        series: vec![series(0), series(1)],
    }
}

/// A policy's points over `o`, and its curve if that describes them. Values are divided by `units`
/// of time and space.
fn curve(policy: usize, (fitted, result): &(Fitted, CurveResult), units: (f64, f64)) -> Series {
    let place = |time: f64, space: f64| (time / units.0, space / units.1);
    let points = fitted.points().iter().map(|point| place(point.time, point.space)).collect();
    let line = result.line.iter().map(|at| place(at.time_s, at.space_bytes.value)).collect();
    let last = OVERHEADS.len() - 1;
    let named = |nth: &usize| [0, last].contains(nth) || OVERHEADS[*nth] == DEFAULT;
    let labels = (0..=last).filter(named).map(|nth| (nth, format!("o={}", OVERHEADS[nth])));
    Series { line, labels: labels.collect(), ..Series::of(POLICIES[policy], points) }
}

fn counted_curves(name: &str, counts: &counted::Counts) -> Graph {
    let [next, best] = counted::fits(counts);
    Graph {
        title: format!("{name}, o from {} to {}", OVERHEADS[0], OVERHEADS[OVERHEADS.len() - 1]),
        x: "10\u{2079} instructions",
        y: "top heap, MiB",
        series: vec![curve(0, &next, (1e9, MIB)), curve(1, &best, (1e9, MIB))],
    }
}

fn lab_curves() -> Result<Graph> {
    let [next, best] = lab::fits()?;
    Ok(Graph {
        title: "A cache of strings in the lab, o from 20 to 320".into(),
        x: "million words marked and swept, and free blocks looked at",
        y: "touched, MiB",
        series: vec![curve(0, &next, (1.0, 1.0)), curve(1, &best, (1.0, 1.0))],
    })
}

fn lab_grown() -> Result<Graph> {
    let grown = lab::grown()?;
    let runs: Vec<real::Grown> = grown
        .iter()
        .map(|(births, both)| {
            (*births, both.each_ref().map(|run| (run.top_bytes(), run.touched_bytes())))
        })
        .collect();
    Ok(Graph { x: "births", ..graph_of_grown("A growing cache in the lab", &runs, "touched") })
}

fn grown(name: &str, runs: &[real::Grown]) -> Graph {
    graph_of_grown(&format!("{name}, run after run"), runs, "memory")
}

/// Four lines, as in the document: heap and memory of each policy.
fn graph_of_grown(title: &str, runs: &[real::Grown], memory: &str) -> Graph {
    let mut series = Vec::new();
    for (policy, name) in POLICIES.iter().enumerate() {
        let line = |what: &str, of: fn(&(f64, f64)) -> f64| {
            let points: Vec<_> =
                runs.iter().map(|(at, both)| (*at as f64, of(&both[policy]) / MIB)).collect();
            Series { line: points.clone(), ..Series::of(&format!("{name}: {what}"), points) }
        };
        series.extend([line("top heap", |run| run.0), line(memory, |run| run.1)]);
    }
    series.swap(1, 2);
    Graph { title: title.into(), x: "first argument", y: "MiB", series }
}

impl Graph {
    fn svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| series.points.iter().chain(&series.line));
        let ends = |of: fn(&(f64, f64)) -> f64| {
            all().map(of).fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
                (least.min(value), most.max(value))
            })
        };
        let ((x_least, x_most), (_, y_most)) = (ends(|point| point.0), ends(|point| point.1));
        // The x axis begins near the first time or count, the axis of memory at zero.
        let (x_least, x_most) = (x_least * 0.95, x_most * 1.02);
        let y_most = y_most * 1.1;
        let x = |value: f64| LEFT + (value - x_least) / (x_most - x_least) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - value / y_most * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" \
             fill=\"#fff\"/>\n<text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>\n",
            self.title
        );
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for value in ticks(0.0, y_most) {
            let at = y(value);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{:.1}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        for value in ticks(x_least, x_most) {
            let at = x(value);
            let _ = writeln!(
                svg,
                "<path d=\"M{at:.1} {bottom}v5\" stroke=\"#333\"/><text x=\"{at:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\">{value}</text>",
                bottom + 18.0
            );
        }
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#333\"/>\n\
             <text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n\
             <text x=\"8\" y=\"{TOP}\">{}</text>",
            bottom + 36.0,
            self.x,
            self.y
        );
        for (nth, series) in self.series.iter().enumerate() {
            series.draw(&mut svg, COLOURS[nth % COLOURS.len()], nth, &x, &y);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl Series {
    fn of(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, line: Vec::new(), labels: Vec::new() }
    }

    fn draw(
        &self,
        svg: &mut String,
        colour: &str,
        nth: usize,
        x: &dyn Fn(f64) -> f64,
        y: &dyn Fn(f64) -> f64,
    ) {
        if !self.line.is_empty() {
            let places: Vec<_> =
                self.line.iter().map(|at| format!("{:.1},{:.1}", x(at.0), y(at.1))).collect();
            let places = places.join(" ");
            let _ = writeln!(
                svg,
                "<polyline points=\"{places}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
            );
        }
        for point in &self.points {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                x(point.0),
                y(point.1)
            );
        }
        // One policy's names stand above its points, the other's below.
        let dy = if nth == 0 { -7.0 } else { 15.0 };
        for (nth, label) in &self.labels {
            let Some(point) = self.points.get(*nth) else { continue };
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" text-anchor=\"middle\" \
                 fill=\"{colour}\">{label}</text>",
                x(point.0).min(WIDTH - RIGHT - 14.0),
                y(point.1) + dy
            );
        }
        let at = LEFT + 145.0 * nth as f64;
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/><text x=\"{:.1}\" \
             y=\"{:.1}\">{}</text>",
            at + 4.0,
            HEIGHT - 14.0,
            at + 14.0,
            HEIGHT - 10.0,
            self.name
        );
    }
}

/// Round values between two ends, about five.
fn ticks(least: f64, most: f64) -> Vec<f64> {
    let rough = (most - least) / 5.0;
    let magnitude = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * magnitude)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let first = (least / step).ceil() as i64;
    (first..)
        .map(|nth| (nth as f64 * step * 1e6).round() / 1e6)
        .take_while(|value| *value <= most)
        .collect()
}
