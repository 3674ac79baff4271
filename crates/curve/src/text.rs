//! The results for a reader: a table for each variant, the verdict and its limits.

use crate::minimum::Minimum;
use crate::page::facts;
use crate::results::{PointResult, Results, VariantResult};
use crate::svg::names;
use crate::verdict::{seconds, seconds_and_unit};
use heaplab_experiment::text::conclusions;
use heaplab_statistics::Estimate;
use heaplab_text::lines::{cut, hanging};
use heaplab_text::table::{Ruled, Ruling, ruled};
use heaplab_text::words::{bytes, count, number_and_unit};

/// The mark of a dominated point.
const DOMINATED: &str = "x";

/// The whole text, in lines of `columns` columns.
pub fn results(results: &Results, columns: usize) -> String {
    let mut out = hanging(&format!("{}: {}", results.command, facts(results)), "", columns);
    for variant in &results.variants {
        out.push('\n');
        let shared = shared_beginning(variant);
        let heading = [variant.name.as_str(), shared].join(" ");
        if !heading.trim().is_empty() {
            out += &format!("{}\n", cut(heading.trim(), columns));
        }
        out += &format!("{}\n", table(results, variant, shared.len(), columns));
    }
    let points = || results.variants.iter().flat_map(|variant| &variant.points);
    if points().any(|point| point.dominated_by.is_some()) {
        out += &hanging(
            &format!("{DOMINATED}  another point needs less space and less time"),
            "",
            columns,
        );
    }
    if !results.verdict.is_empty() {
        out.push('\n');
    }
    out + &conclusions(&results.verdict, &results.cautions, columns)
}

/// Settings with longer names leave the table no room at 80 columns.
const NAME_CHARS_MAX: usize = 16;

/// The common beginning of all settings' names, such as `--max-semi-space-size=`, if a name is too
/// long for each row.
fn shared_beginning(variant: &VariantResult) -> &str {
    let mut names =
        variant.points.iter().filter(|point| !point.is_default()).map(|point| &*point.setting);
    let Some(first) = names.next() else { return "" };
    let end = first.rfind('=').map_or(0, |at| at + 1);
    let beginning = &first[..end];
    let is_long = names.clone().chain([first]).any(|name| name.chars().count() > NAME_CHARS_MAX);
    if is_long && names.all(|name| name.starts_with(beginning)) { beginning } else { "" }
}

fn table(results: &Results, variant: &VariantResult, shared: usize, columns: usize) -> Ruled {
    let (time, space) = names(results);
    let tells = variant.points.iter().any(|point| point.medians.cycles.is_some());
    let mut header = vec!["", "setting", time, "interval", space, "interval"];
    if tells {
        header.push("cycles");
    }
    let rows = variant.points.iter().map(|point| {
        let mut cells = row(point, if point.is_default() { 0 } else { shared });
        if tells {
            cells.push(point.medians.cycles.map_or(String::new(), |cycles| count(cycles as u64)));
        }
        cells
    });
    ruled(Ruling::Heading, header, rows, 2, columns)
}

/// A row; the setting's name begins after its first `shared` bytes.
fn row(point: &PointResult, shared: usize) -> Vec<String> {
    let mark = if point.dominated_by.is_some() { DOMINATED } else { "" };
    let name = cut(point.setting.get(shared..).unwrap_or(&point.setting), 24);
    let (Some(time), Some(space)) = (point.time_s, point.space_bytes) else {
        return vec![
            mark.into(),
            name,
            "no answer".into(),
            String::new(),
            String::new(),
            String::new(),
        ];
    };
    let size = |value: f64| value.max(0.0) as u64;
    vec![
        mark.into(),
        name,
        seconds(time.value),
        range(time, seconds_and_unit),
        bytes(size(space.value)),
        range(space, |value| number_and_unit(size(value))),
    ]
}

/// `1.20 to 1.26`; the unit is left out if the value before it has the same.
fn range(estimate: Estimate, text: impl Fn(f64) -> (String, &'static str)) -> String {
    if estimate.low.is_nan() {
        return String::new();
    }
    let [(_, unit), (low, low_unit), (high, high_unit)] =
        [estimate.value, estimate.low, estimate.high].map(text);
    if low_unit == unit && high_unit == unit {
        format!("{low} to {high}")
    } else {
        format!("{low} {low_unit} to {high} {high_unit}")
    }
}

/// The results of bisection.
pub fn minima(found: &[Minimum], columns: usize) -> String {
    let sentence = |found: &Minimum| {
        let name =
            if found.variant.is_empty() { String::new() } else { format!("{}: ", found.variant) };
        let failure = found.failure.as_deref().unwrap_or("it failed");
        match (&found.least, &found.fails) {
            (Some(least), Some(fails)) => {
                format!("{name}the least that runs is {least}; at {fails} {failure}.")
            }
            (Some(least), None) => format!(
                "{name}{least} runs, and that is the range's least: begin lower to find where it fails."
            ),
            (None, Some(fails)) => {
                format!("{name}nothing in the range runs: at {fails} {failure}.")
            }
            (None, None) => format!("{name}nothing was run."),
        }
    };
    found.iter().map(|found| hanging(&sentence(found), "", columns)).collect()
}
