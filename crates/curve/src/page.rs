//! Results as one HTML file: the sentences, the picture, every point. It has no script, makes no
//! network request, and can be sent.

use crate::markdown::remark;
use crate::results::{PointResult, Results, VariantResult};
use crate::svg::{names, narrow, picture};
use crate::verdict::seconds;
use heaplab_statistics::Estimate;
use heaplab_text::markup::escaped;
use heaplab_text::words::{bytes, count};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// The page.
pub fn html(results: &Results) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{} - heaplab curve</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escaped(&results.command)
    );
    let _ = writeln!(
        out,
        "<p class=\"eyebrow\">Space against time</p>\n<h1><code>{}</code></h1>",
        escaped(&results.command)
    );
    let _ = writeln!(out, "<p class=\"facts\">{}</p>", escaped(&facts(results)));
    sentences(&mut out, "What it says", "verdict", &results.verdict);
    let _ = writeln!(
        out,
        "<figure>{}{}<figcaption>{}</figcaption></figure>",
        picture(results),
        narrow(results),
        caption(results)
    );
    sentences(&mut out, "What limits it", "cautions", &results.cautions);
    for variant in &results.variants {
        points(&mut out, results, variant);
    }
    let _ = writeln!(
        out,
        "<p class=\"facts\">{}, {} processors, kernel {}. heaplab curve {}.</p>\n</main>\n</body>\n</html>",
        escaped(&results.machine.processor),
        results.machine.processors,
        escaped(&results.machine.kernel),
        env!("CARGO_PKG_VERSION")
    );
    out
}

/// The circumstances of the measurement, in one line.
pub fn facts(results: &Results) -> String {
    let (time, space) = names(results);
    let blocks =
        if results.blocks == 1 { "1 block".into() } else { format!("{} blocks", results.blocks) };
    let told = results.runtime.as_ref().filter(|told| told.answered);
    let told = told.map_or(String::new(), |told| {
        format!("; {} tells its collections ({})", told.name, told.question)
    });
    format!("{}; {blocks} of all settings in random order; {time}; {space}{told}.", results.vary)
}

fn caption(results: &Results) -> String {
    let curves = results
        .variants
        .iter()
        .filter(|variant| variant.effect && !variant.curve.line.is_empty())
        .count();
    let lines = match curves {
        0 => "Points are medians over blocks.",
        _ => "Points are medians over blocks; the bands are intervals of the curves.",
    };
    format!(
        "{lines} Lines through points are their intervals at {:.0} %.",
        results.settings.confidence * 100.0
    )
}

fn sentences(out: &mut String, heading: &str, class: &str, sentences: &[String]) {
    if sentences.is_empty() {
        return;
    }
    let _ = writeln!(out, "<section class=\"{class}\"><h2>{heading}</h2><ul>");
    for sentence in sentences {
        let _ = writeln!(out, "<li>{}</li>", escaped(sentence));
    }
    out.push_str("</ul></section>\n");
}

fn points(out: &mut String, results: &Results, variant: &VariantResult) {
    let name = if variant.name.is_empty() { "Settings".into() } else { escaped(&variant.name) };
    let tells = variant.points.iter().any(|point| point.medians.cycles.is_some());
    let cycles = if tells { "<th>collections</th><th>garbage each</th>" } else { "" };
    let (time, space) = names(results);
    let _ = writeln!(
        out,
        "<h2>{name}</h2>\n<div class=\"scrolls\"><table>\n<tr><th>setting</th><th>{time}</th><th>{space}</th>{cycles}<th>user + system</th>\
         <th>peak anonymous</th><th>major faults</th><th>runs</th></tr>"
    );
    for point in &variant.points {
        row(out, point, tells);
    }
    out.push_str("</table></div>\n");
}

fn row(out: &mut String, point: &PointResult, tells: bool) {
    let with_interval = |estimate: Option<Estimate>, text: fn(f64) -> String| match estimate {
        None => "<td></td>".into(),
        Some(estimate) if estimate.low.is_nan() => format!("<td>{}</td>", text(estimate.value)),
        Some(estimate) => format!(
            "<td>{}<small>{} to {}</small></td>",
            text(estimate.value),
            text(estimate.low),
            text(estimate.high)
        ),
    };
    let size = |value: f64| bytes(value.max(0.0) as u64);
    let medians = &point.medians;
    // The remark stands beside the setting: at the end of a long row nobody would see it.
    let remark = match remark(point) {
        text if text.is_empty() => text,
        text => format!("<small class=\"remark\">{}</small>", escaped(&text)),
    };
    let _ = write!(
        out,
        "<tr><th>{}{remark}</th>{}{}",
        escaped(&point.setting),
        with_interval(point.time_s, seconds),
        with_interval(point.space_bytes, size)
    );
    if tells {
        let cell = |value: Option<f64>, text: &dyn Fn(f64) -> String| {
            format!("<td>{}</td>", value.map_or(String::new(), text))
        };
        let _ = write!(
            out,
            "{}{}",
            cell(medians.cycles, &|value| count(value as u64)),
            cell(medians.garbage_bytes, &size)
        );
    }
    if point.runs > 0 {
        let _ = write!(
            out,
            "<td>{} + {}</td><td>{}<small>mean {}</small></td><td>{:.0}</td>",
            seconds(medians.user_s),
            seconds(medians.system_s),
            size(medians.peak_anonymous_bytes),
            size(medians.mean_anonymous_bytes),
            medians.major_faults
        );
    } else {
        out.push_str("<td></td><td></td><td></td>");
    }
    let _ = writeln!(out, "<td>{}</td></tr>", point.runs);
}
