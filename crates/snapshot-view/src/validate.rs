//! How much of a file is readable.

use heaplab_snapshot::validate::Report;
use heaplab_text::lines;
use heaplab_text::table::Table;
use heaplab_text::words::{bytes, count as number};
use serde_json::{Value, json};
use std::path::Path;

/// The report on the file at `path` as text.
pub fn text(path: &Path, report: &Report, columns: usize) -> String {
    let mut text = String::new();
    let path = path.display();
    match &report.damage {
        None => {
            text += &lines::paragraph(
                &format!("{path}: good, {}", bytes(report.file_bytes)),
                "",
                0,
                columns,
            )
        }
        Some(damage) => {
            text += &lines::paragraph(&format!("{path}: {}", state(report)), "", 0, columns);
            text += &lines::paragraph(&damage.to_string(), "  ", 2, columns);
        }
    }
    if !report.lists.is_empty() {
        text.push('\n');
        let mut table = Table::new(["rows", "declared", "at byte", "list"]);
        for list in &report.lists {
            let declared = list.declared.map_or_else(|| "-".into(), number);
            let state = if list.whole { "" } else { "  (not whole)" };
            table.row([
                number(list.rows),
                declared,
                number(list.offset),
                format!("{}{state}", list.section.key()),
            ]);
        }
        text.push_str(&table.text(columns));
    }
    for oddity in &report.oddities {
        text += &lines::paragraph(&format!("{oddity}"), "note: ", 2, columns);
    }
    text
}

/// How much of a damaged file is readable.
fn state(report: &Report) -> String {
    let (good, all) = (number(report.good_bytes), number(report.file_bytes));
    match report.cut_in() {
        Some(list) => {
            let of = list
                .declared
                .map_or_else(String::new, |declared| format!(" of {}", number(declared)));
            let rows = format!("{}{of} rows of it are whole", number(list.rows));
            format!(
                "cut at byte {all}, within `{}`; good up to byte {good} ({rows})",
                list.section.key()
            )
        }
        None if report.is_cut() && report.counts.is_none() => {
            format!("cut at byte {all}, within its header; nothing of it can be read")
        }
        None if report.is_cut() => format!("cut at byte {all}; good up to there"),
        None => format!("damaged; good up to byte {good} of {all}"),
    }
}

/// The report as JSON.
pub fn json(report: &Report) -> Value {
    let lists: Vec<Value> = report
        .lists
        .iter()
        .map(|list| {
            json!({"list": list.section.key(), "offset": list.offset, "rows": list.rows, "declared": list.declared, "whole": list.whole})
        })
        .collect();
    json!({
        "format": "heaplab-snapshot-validate",
        "version": 1,
        "good": report.is_good(),
        "file_bytes": report.file_bytes,
        "good_bytes": report.good_bytes,
        "damage": report.damage.as_ref().map(ToString::to_string),
        "damage_offset": report.damage.as_ref().map(|damage| damage.offset),
        "cut": report.is_cut(),
        "cut_in": report.cut_in().map(|list| list.section.key()),
        "lists": lists,
        "oddities": report.oddities.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
