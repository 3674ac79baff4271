//! A history as one self-contained HTML page: a picture a phase, its steps marked with their
//! commits, gaps as gaps, and every commit as a row that can be linked to.
//!
//! Plain HTML and SVG without scripts; names from outside become text and never markup.

use crate::history::{Figure, History, Series};
use crate::text::{amount, changed, made_by, name};
use heaplab_text::markup::escaped;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 20.0;
/// Room for a commit's name.
const NAME_WIDTH: f64 = 72.0;
/// Rows of the table of commits.
const ROWS_MAX: usize = 5_000;

/// The page. `least`: smaller steps, as a share of the level before, are not marked.
pub fn html(history: &History, least: f64) -> String {
    let title = heaplab_text::shell::line(&history.subject.command);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{0} - heaplab track</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <p class=\"muted\">Memory over commits</p>\n<h1><code>{0}</code></h1>\n",
        escaped(&title)
    );
    let measured = history.commits.iter().filter(|place| place.runs > 0).count();
    let build = history
        .subject
        .build
        .as_deref()
        .map_or(String::new(), |build| format!("; built by <code>{}</code>", escaped(build)));
    let _ = writeln!(
        out,
        "<p>{} commits of {}, {measured} of them measured{build}.</p>",
        history.commits.len(),
        escaped(&history.subject.repository)
    );
    for caution in &history.cautions {
        let _ = writeln!(out, "<p class=\"notice\">{}</p>", escaped(caution));
    }
    for figure in Figure::ALL {
        let series: Vec<&Series> = history.of_figure(figure).collect();
        if series.is_empty() {
            continue;
        }
        let _ = writeln!(out, "<h2 id=\"{0}\">{1}</h2>", figure.name(), figure.title());
        for series in series {
            one(&mut out, history, series, least);
        }
    }
    gaps(&mut out, history);
    commits(&mut out, history);
    let _ = writeln!(
        out,
        "<p class=\"muted\">Made by heaplab track {}. Everything is in this file.</p>\n</main>\n</body>\n</html>",
        env!("CARGO_PKG_VERSION")
    );
    out
}

/// Least room above and below the values, as a share of the largest: labels have three digits, so
/// labels that are closer than a hundredth may read the same.
const MARGIN: f64 = 0.0125;

/// Where values lie.
struct Scale {
    commits: usize,
    least: f64,
    most: f64,
}

impl Scale {
    fn of(history: &History, series: &Series) -> Scale {
        let least = series.points.iter().map(|point| point.low).fold(f64::INFINITY, f64::min);
        let most = series.points.iter().map(|point| point.high).fold(0.0, f64::max);
        Scale::around(history.commits.len(), least, most)
    }

    fn around(commits: usize, least: f64, most: f64) -> Scale {
        let margin = ((most - least) * 0.1).max(most * MARGIN).max(2.0);
        Scale { commits, least: (least - margin).max(0.0), most: most + margin }
    }

    /// The values that have a rule and a label.
    fn labelled(&self) -> [f64; 3] {
        [self.least, f64::midpoint(self.least, self.most), self.most]
    }

    fn x(&self, commit: usize) -> f64 {
        let last = self.commits.saturating_sub(1).max(1) as f64;
        LEFT + commit as f64 / last * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value - self.least) / (self.most - self.least) * (HEIGHT - TOP - BOTTOM)
    }
}

fn one(out: &mut String, history: &History, series: &Series, least: f64) {
    let id = format!("{}-{}", series.figure.name(), series.phase);
    let _ = writeln!(
        out,
        "<section id=\"{0}\"><h3><a href=\"#{0}\">{1}</a></h3>",
        escaped(&id.replace(' ', "-")),
        escaped(name(series))
    );
    picture(out, history, series, least);
    let shown = || series.steps.iter().filter(|step| step.share().abs() >= least);
    if shown().next().is_some() {
        out.push_str("<ul class=\"steps\">\n");
        for step in shown() {
            let commit = &history.commits[step.commit].commit;
            let _ = writeln!(
                out,
                "<li><a href=\"#{}\">{}</a><br>{}</li>",
                commit.short(),
                escaped(&made_by(history, step)),
                escaped(&changed(series, step))
            );
        }
        out.push_str("</ul>\n");
    }
    let small = series.steps.len() - shown().count();
    if small > 0 {
        let _ = writeln!(
            out,
            "<p class=\"muted\">And {small} smaller than {:.2} %.</p>",
            least * 100.0
        );
    }
    out.push_str("</section>\n");
}

fn picture(out: &mut String, history: &History, series: &Series, least: f64) {
    let scale = Scale::of(history, series);
    let _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} over commits\">",
        escaped(name(series))
    );
    for value in scale.labelled() {
        let y = scale.y(value);
        let _ = writeln!(
            out,
            "<line class=\"rule\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            amount(series.figure, value)
        );
    }
    let half = ((WIDTH - LEFT - RIGHT) / scale.commits.max(2) as f64 / 2.0).clamp(1.0, 8.0);
    for (at, place) in history.commits.iter().enumerate().filter(|(_, place)| place.runs == 0) {
        let reason = place.failure.as_ref().map_or("", |failure| &failure.reason);
        let _ = writeln!(
            out,
            "<rect class=\"gap\" x=\"{:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"><title>{} not measured: {}</title></rect>",
            scale.x(at) - half,
            half * 2.0,
            HEIGHT - TOP - BOTTOM,
            place.commit.short(),
            escaped(reason)
        );
    }
    let mut named_until = 0.0;
    for step in series.steps.iter().filter(|step| step.share().abs() >= least) {
        let x = f64::midpoint(scale.x(step.last_before), scale.x(step.commit));
        let (from, to) = (scale.x(step.earliest), scale.x(step.latest));
        let commit = &history.commits[step.commit].commit;
        let (anchor, dx) = if x > WIDTH - 140.0 { ("end", -4.0) } else { ("start", 4.0) };
        if step.latest > step.earliest + 1 {
            let _ = writeln!(
                out,
                "<rect class=\"where\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"/>",
                to - from,
                HEIGHT - TOP - BOTTOM
            );
        }
        let label = x + dx;
        // Names over one another are none; the list below has them all.
        let name = if label < named_until { "" } else { commit.short() };
        named_until = if name.is_empty() { named_until } else { label + NAME_WIDTH };
        let _ = writeln!(
            out,
            "<a href=\"#{0}\"><line class=\"step\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{1}\"/><text class=\"step\" x=\"{label:.1}\" y=\"{2}\" text-anchor=\"{anchor}\">{name}</text></a>",
            commit.short(),
            HEIGHT - BOTTOM,
            TOP - 6.0
        );
    }
    line(out, history, series, &scale);
    out.push_str("</svg>\n");
}

/// The values: a line that a gap interrupts, and a point a commit.
fn line(out: &mut String, history: &History, series: &Series, scale: &Scale) {
    let mut path = String::new();
    let mut last = None;
    for point in &series.points {
        let (x, y) = (scale.x(point.commit), scale.y(point.value));
        let joins = last.is_some_and(|last: usize| last + 1 == point.commit);
        let _ = write!(path, "{}{x:.1} {y:.1}", if joins { "L" } else { "M" });
        last = Some(point.commit);
    }
    let _ = writeln!(out, "<path class=\"value\" d=\"{path}\"/>");
    for point in &series.points {
        let commit = &history.commits[point.commit].commit;
        let (x, y) = (scale.x(point.commit), scale.y(point.value));
        if point.high > point.low {
            let _ = writeln!(
                out,
                "<line class=\"spread\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                scale.y(point.low),
                scale.y(point.high)
            );
        }
        let _ = writeln!(
            out,
            "<circle class=\"value\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"><title>{} {}: {}</title></circle>",
            commit.short(),
            escaped(&commit.subject),
            amount(series.figure, point.value)
        );
    }
}

fn gaps(out: &mut String, history: &History) {
    let gaps = history.gaps();
    if gaps.is_empty() {
        return;
    }
    out.push_str("<h2 id=\"gaps\">Not measured</h2>\n");
    for gap in gaps {
        let Some(failure) =
            gap.commits.first().and_then(|at| history.commits[*at].failure.as_ref())
        else {
            continue;
        };
        let names: Vec<&str> =
            gap.commits.iter().map(|at| history.commits[*at].commit.short()).collect();
        let _ = writeln!(
            out,
            "<p><b>{}</b>: {}</p>\n<pre>{}</pre>",
            names.join(", "),
            escaped(&gap.reason),
            escaped(&failure.output)
        );
    }
}

fn commits(out: &mut String, history: &History) {
    let columns: Vec<&Series> = history.of_figure(Figure::Live).collect();
    out.push_str(
        "<h2 id=\"commits\">Commits</h2>\n<div class=\"wide\"><table>\n<tr><th>commit</th>",
    );
    for series in &columns {
        let _ = write!(out, "<th>{}</th>", escaped(name(series)));
    }
    out.push_str("<th>runs</th><th></th></tr>\n");
    let first = history.commits.len().saturating_sub(ROWS_MAX);
    for (at, place) in history.commits.iter().enumerate().skip(first).rev() {
        let _ = write!(out, "<tr id=\"{0}\"><th>{0}</th>", place.commit.short());
        for series in &columns {
            let point = series.points.binary_search_by_key(&at, |point| point.commit);
            let value = point.map(|found| amount(series.figure, series.points[found].value));
            let is_step = series.steps.iter().any(|step| step.commit == at);
            let class = if is_step { " class=\"step\"" } else { "" };
            let _ = write!(out, "<td{class}>{}</td>", value.unwrap_or_default());
        }
        let _ = writeln!(
            out,
            "<td>{}</td><td class=\"subject\">{}</td></tr>",
            place.runs,
            escaped(&place.commit.subject)
        );
    }
    out.push_str("</table></div>\n");
    if first > 0 {
        let _ = writeln!(out, "<p class=\"muted\">And {first} older ones.</p>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_labels_of_an_axis_read_the_same() {
        let mut value = 0.0_f64;
        while value < 1e15 {
            for spread in [0.0, 0.001, 0.009, 0.3] {
                let scale = Scale::around(3, value * (1.0 - spread), value);
                for figure in [Figure::Live, Figure::Objects] {
                    let [low, middle, high] = scale.labelled().map(|value| amount(figure, value));
                    assert!(low != middle && middle != high, "{value}: {low}, {middle}, {high}");
                }
            }
            value = (value * 1.0007).max(value + 1.0);
        }
    }
}
