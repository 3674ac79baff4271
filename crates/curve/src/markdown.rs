//! Results as Markdown, for a pull request or an issue: the verdict, and a table for each variant.

use crate::page::facts;
use crate::results::{PointResult, Results, VariantResult};
use crate::svg::names;
use crate::verdict::seconds;
use heaplab_statistics::Estimate;
use heaplab_text::words::{bytes, count};
use std::fmt::Write;

/// All of it.
pub fn text(results: &Results) -> String {
    let mut out = format!("{}\n\n{}\n", code(&results.command), escaped(&facts(results)));
    for sentences in [&results.verdict, &results.cautions] {
        if !sentences.is_empty() {
            out.push('\n');
        }
        for sentence in sentences {
            let _ = writeln!(out, "- {}", escaped(sentence));
        }
    }
    for variant in &results.variants {
        table(&mut out, results, variant);
    }
    out
}

fn table(out: &mut String, results: &Results, variant: &VariantResult) {
    let (time, space) = names(results);
    let tells = variant.points.iter().any(|point| point.medians.cycles.is_some());
    let (heading, rule) = if tells { (" collections |", "---:|") } else { ("", "") };
    let name = if variant.name.is_empty() { "setting".into() } else { code(&variant.name) };
    let _ =
        writeln!(out, "\n| {name} | {time} | {space} |{heading} |\n|:---|---:|---:|{rule}:---|");
    for point in &variant.points {
        let _ = write!(
            out,
            "| {} | {} | {} |",
            code(&point.setting),
            with_interval(point.time_s, seconds),
            with_interval(point.space_bytes, |value| bytes(value.max(0.0) as u64))
        );
        if tells {
            let cycles = point.medians.cycles.map_or(String::new(), |cycles| count(cycles as u64));
            let _ = write!(out, " {cycles} |");
        }
        let _ = writeln!(out, " {} |", escaped(&remark(point)));
    }
}

/// A remark on a point, or an empty text.
pub fn remark(point: &PointResult) -> String {
    match (&point.failure, &point.dominated_by) {
        (Some(failure), _) if point.runs == 0 => format!("no answer: {failure}"),
        (Some(failure), _) => {
            format!("{} of {} failed: {failure}", point.failures, point.failures + point.runs)
        }
        (None, Some(better)) => format!("{better} needs less of both"),
        (None, None) => match (&point.like, &point.beyond) {
            (Some(like), _) => format!("like {like}"),
            (None, Some(end)) => format!("beyond {end}"),
            (None, None) => String::new(),
        },
    }
}

fn with_interval(estimate: Option<Estimate>, text: fn(f64) -> String) -> String {
    match estimate {
        None => String::new(),
        Some(estimate) if estimate.low.is_nan() => text(estimate.value),
        Some(Estimate { value, low, high }) => {
            format!("{} ({} to {})", text(value), text(low), text(high))
        }
    }
}

/// A span of code. A `|` ends a cell of a table even in code; Markdown removes a backslash before
/// it.
fn code(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ").replace('|', "\\|");
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Text with escapes, so that Markdown shows every character as it is.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&' => {
                out.extend(['\\', letter])
            }
            '\n' | '\r' => out.push(' '),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::VariantResult;

    #[test]
    fn nothing_a_command_says_leaves_its_cell() {
        let point = PointResult {
            setting: "a|b`c".into(),
            failures: 2,
            failure: Some("<b>no | memory\n*".into()),
            ..PointResult::default()
        };
        let variant = VariantResult { points: vec![point], ..VariantResult::default() };
        let results = Results {
            command: "./b `x`".into(),
            vary: "N=1,2".into(),
            verdict: vec!["No answer at N_1.".into()],
            variants: vec![variant],
            ..Results::default()
        };
        let text = text(&results);
        assert!(text.starts_with("`` ./b `x` ``\n\nN=1,2; 0 blocks"), "{text}");
        assert!(text.contains("\n- No answer at N\\_1.\n"), "{text}");
        let row = text.lines().last().unwrap();
        assert_eq!(row, "| ``a\\|b`c`` |  |  | no answer: \\<b\\>no \\| memory \\* |");
    }
}
