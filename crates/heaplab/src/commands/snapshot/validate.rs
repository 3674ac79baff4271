//! `heaplab snapshot validate`: how far a file is good.

use super::file::{self, Source};
use crate::terminal;
use anyhow::Result;
use heaplab_snapshot::validate::{Report, validate};
use heaplab_text::lines;
use heaplab_text::table::Table;
use heaplab_text::words::bytes;
use heaplab_text::words::count as number;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `heaplab snapshot validate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab snapshot validate a.heapsnapshot
  # what a target that died had sent
  heaplab snapshot validate a.heapsnapshot.part
  heaplab snapshot validate a.heapsnapshot --json | jq .good_bytes

Exit code 0 where readers will take the file, 1 where it is damaged, cut, or no
snapshot.")]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let source = Source::open(&args.file, args.quiet || args.json)?;
    let bar = file::bar(args.quiet || args.json, "validating")?;
    let report = validate(source.bytes(), &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    if args.json {
        println!("{}", serde_json::to_string(&json_of(&report))?)?;
    } else {
        print!("{}", text(&args.file, &report))?;
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn text(path: &Path, report: &Report) -> String {
    let mut text = String::new();
    let (path, columns) = (path.display(), terminal::columns());
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
        text.push_str(&table.text(terminal::columns()));
    }
    for oddity in &report.oddities {
        text += &lines::paragraph(&format!("{oddity}"), "note: ", 2, columns);
    }
    text
}

/// How far a damaged file is good.
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

fn json_of(report: &Report) -> Value {
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
