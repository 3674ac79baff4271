//! The picture of a sweep: each heap's ratio to the first one, a line a heap and a group a
//! workload, space on the left and time on the right. A bar from end to end is the interval.
//!
//! Plain SVG without scripts. Names from outside become text and never markup.

use crate::Report;
use crate::report::WorkloadReport;
use heaplab_experiment::results::{Comparison, Measure, Outcome};
use heaplab_text::lines::cut;
use heaplab_text::markup::escaped;
use std::fmt::Write;

const NAMES: f64 = 230.0;
const PANEL: f64 = 300.0;
const GAP: f64 = 28.0;
const TOP: f64 = 52.0;
const LINE: f64 = 18.0;
const GROUP: f64 = 12.0;
const BOTTOM: f64 = 34.0;
/// Letters of a heap's name that fit beside the panels.
const NAME_LETTERS: usize = 36;
const STYLE: &str = "text{font:12px system-ui,'Segoe UI',Roboto,'Liberation Sans',sans-serif;fill:#1b2026}\
    .muted{fill:#59626d}.rule{stroke:#dedad2}.one{stroke:#8b8f94}.paper{fill:#fcfbf9}\
    .less{stroke:#1f5fa8;fill:#1f5fa8}.more{stroke:#c8620f;fill:#c8620f}.none{stroke:#59626d;fill:#fcfbf9}";

/// Ratios from `low` to `high` on a logarithmic axis that begins at `left`.
struct Axis {
    left: f64,
    low: f64,
    high: f64,
}

impl Axis {
    /// Of every interval of this measure, 1 among them.
    fn of(report: &Report, measure: Measure, left: f64) -> Axis {
        let ends = report
            .workloads
            .iter()
            .flat_map(|one| comparisons(one, measure))
            .flat_map(|one| [one.ratio.low, one.ratio.value, one.ratio.high])
            .filter(|end| end.is_finite() && *end > 0.0);
        let (low, high) =
            ends.fold((1.0_f64, 1.0_f64), |(low, high), end| (low.min(end), high.max(end)));
        // A tenfold difference still leaves room for small ones; intervals beyond are cut.
        let (low, high) = (low.max(0.05), high.min(20.0));
        Axis { left, low: low / 1.05, high: high * 1.05 }
    }

    fn x(&self, ratio: f64) -> f64 {
        let share =
            (ratio.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln();
        self.left + share * PANEL
    }

    /// Ratios that have a line: few enough to read.
    fn ticks(&self) -> Vec<f64> {
        const ALL: [f64; 13] =
            [0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 1.0, 1.1, 1.25, 2.0, 5.0, 10.0, 20.0];
        let mut ticks: Vec<f64> = Vec::new();
        for tick in ALL.into_iter().filter(|tick| (self.low..=self.high).contains(tick)) {
            let is_clear = ticks.last().is_none_or(|last| self.x(tick) - self.x(*last) > 34.0);
            if is_clear || tick == 1.0 {
                if !is_clear {
                    ticks.pop();
                }
                ticks.push(tick);
            }
        }
        ticks
    }
}

fn comparisons(one: &WorkloadReport, measure: Measure) -> impl Iterator<Item = &Comparison> {
    one.results.comparisons.iter().filter(move |of| of.measure == measure)
}

/// The picture; without comparisons, one that says so.
pub fn picture(report: &Report) -> String {
    let rows: usize =
        report.workloads.iter().map(|one| one.results.heaps.len().saturating_sub(1)).sum();
    let groups = report.workloads.len() as f64;
    let height = TOP + rows as f64 * LINE + groups * (LINE + GROUP) + BOTTOM;
    let is_compared = |(measure, _): &(Measure, _)| {
        report.workloads.iter().any(|one| comparisons(one, *measure).next().is_some())
    };
    let measures = [(Measure::Space, "peak resident"), (Measure::Time, "time an event")];
    let measures: Vec<_> = measures.into_iter().filter(is_compared).collect();
    let width = NAMES + (PANEL + GAP) * measures.len().max(1) as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Ratios of heaps\">\n\
         <style>{STYLE}</style>\n<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n"
    );
    let baseline = report.workloads.first().and_then(|one| one.results.heaps.first());
    if measures.is_empty() {
        out += "<text x=\"20\" y=\"30\">Nothing was compared.</text>\n</svg>\n";
        return out;
    }
    let axes = measures.into_iter().enumerate().map(|(place, (measure, title))| {
        (measure, title, Axis::of(report, measure, NAMES + (PANEL + GAP) * place as f64))
    });
    let axes: Vec<_> = axes.collect();
    for (_, title, axis) in &axes {
        scale(&mut out, axis, title, height);
    }
    let name = baseline.map_or("", |heap| &heap.heap);
    let _ = writeln!(
        out,
        "<text class=\"muted\" x=\"12\" y=\"22\">ratio to {}</text>",
        escaped(&cut(name, NAME_LETTERS))
    );
    let mut y = TOP;
    for one in &report.workloads {
        y += LINE;
        let _ = writeln!(
            out,
            "<text x=\"12\" y=\"{y:.1}\" font-weight=\"600\">{}</text>",
            escaped(&cut(&one.name, NAME_LETTERS))
        );
        for heap in one.results.heaps.iter().skip(1) {
            y += LINE;
            let _ = writeln!(
                out,
                "<text x=\"24\" y=\"{y:.1}\">{}</text>",
                escaped(&cut(&heap.heap, NAME_LETTERS))
            );
            for (measure, _, axis) in &axes {
                let found = comparisons(one, *measure).find(|of| of.heap == heap.heap);
                found.into_iter().for_each(|found| bar(&mut out, axis, found, y - 4.0));
            }
        }
        y += GROUP;
    }
    out += "</svg>\n";
    out
}

/// The lines and figures of one panel.
fn scale(out: &mut String, axis: &Axis, title: &str, height: f64) {
    let bottom = height - BOTTOM;
    let _ = writeln!(out, "<text x=\"{:.1}\" y=\"22\">{title}</text>", axis.left);
    for tick in axis.ticks() {
        let (x, class) = (axis.x(tick), if tick == 1.0 { "one" } else { "rule" });
        let _ = writeln!(
            out,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"muted\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
            TOP - 8.0,
            TOP - 12.0
        );
    }
    let _ = writeln!(
        out,
        "<text class=\"muted\" x=\"{:.1}\" y=\"{:.1}\">\u{2190} less</text>",
        axis.left,
        height - 12.0
    );
}

/// One ratio with its interval: filled where a difference is shown.
fn bar(out: &mut String, axis: &Axis, found: &Comparison, y: f64) {
    let class = match found.outcome {
        Outcome::Less => "less",
        Outcome::More => "more",
        Outcome::Equivalent | Outcome::NotShown => "none",
    };
    let (low, x, high) =
        (axis.x(found.ratio.low), axis.x(found.ratio.value), axis.x(found.ratio.high));
    let title = format!(
        "{}: {:.3}, {:.3} to {:.3}",
        found.heap, found.ratio.value, found.ratio.low, found.ratio.high
    );
    let _ = writeln!(
        out,
        "<g class=\"{class}\"><title>{}</title><line x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke-width=\"2\"/>\
         <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" stroke-width=\"1.5\"/></g>",
        escaped(&title)
    );
}
