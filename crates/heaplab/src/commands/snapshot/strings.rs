//! `heaplab snapshot strings`: strings that are on the heap more than once, or all of them.

use super::file::{self, Reading};
use super::table::{Table, number, one_line};
use anyhow::Result;
use heaplab_findings::words::bytes;
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::{Analysis, DuplicateStrings};
use heaplab_snapshot::strings::{to_text, units};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `heaplab snapshot strings`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # what one copy of each would save
  heaplab snapshot strings a.heapsnapshot
  # the largest strings
  heaplab snapshot strings a.heapsnapshot --all --top 20
  heaplab snapshot strings a.heapsnapshot --all --json | jq \\
      -r '.strings[].value'
  heaplab snapshot strings a.heapsnapshot --containing @example.org

V8 cuts strings in a snapshot at 1024 characters; others of the same beginning
are told apart by length and hash where the file has them.")]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// All strings, not duplicates alone
    #[arg(long)]
    all: bool,
    /// Only strings with this in them
    #[arg(long, value_name = "TEXT")]
    containing: Option<String>,
    /// Strings to show; 0: all
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// Write JSON, whole strings, without a limit on how many
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

/// A string and the objects that hold it.
struct Row {
    value: Vec<u8>,
    nodes: Vec<Node>,
    shallow_bytes: u64,
    retained_bytes: u64,
    saving_bytes: u64,
    cut: bool,
}

impl From<DuplicateStrings> for Row {
    fn from(group: DuplicateStrings) -> Row {
        Row {
            shallow_bytes: group.self_size,
            retained_bytes: group.retained_size,
            saving_bytes: group.saving_bytes(),
            cut: group.truncated,
            value: group.value,
            nodes: group.nodes,
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    file::analysed(&args.file, &args.reading, |analysis| {
        let mut rows: Vec<Row> = if args.all { all(analysis) } else { analysis.duplicate_strings().into_iter().map(Row::from).collect() };
        if let Some(wanted) = &args.containing {
            rows.retain(|row| to_text(Cow::Borrowed(&row.value)).contains(wanted.as_str()));
        }
        rows.sort_by_key(|row| Reverse((row.saving_bytes, row.retained_bytes)));
        if args.json {
            println!("{}", serde_json::to_string(&json_of(analysis, &rows))?)
        } else {
            print!("{}", text(&rows, args.all, args.top))
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Every string object, a row each.
fn all(analysis: &Analysis) -> Vec<Row> {
    let snapshot = analysis.snapshot();
    let is_string = |node: &Node| {
        matches!(snapshot.node_type_name(snapshot.graph.node_type(*node)), "string" | "concatenated string" | "sliced string")
    };
    let strings = snapshot.graph.nodes().filter(|node| analysis.self_size(*node) > 0).filter(is_string);
    strings
        .map(|node| Row {
            value: analysis.name_bytes(node).into_owned(),
            nodes: vec![node],
            shallow_bytes: analysis.self_size(node),
            retained_bytes: analysis.retained_size(node),
            saving_bytes: 0,
            cut: false,
        })
        .collect()
}

fn text(rows: &[Row], all: bool, top: usize) -> String {
    let shown = if top == 0 { rows.len() } else { top.min(rows.len()) };
    let copies: usize = rows.iter().map(|row| row.nodes.len()).sum();
    let saving: u64 = rows.iter().map(|row| row.saving_bytes).sum();
    let mut text = if all {
        format!("{} strings, {}\n\n", number(rows.len() as u64), bytes(rows.iter().map(|row| row.shallow_bytes).sum()))
    } else {
        format!(
            "{} strings are on the heap {} times; one copy of each would save {}\n\n",
            number(rows.len() as u64),
            number(copies as u64),
            bytes(saving)
        )
    };
    let mut table = Table::new(["saving", "copies", "shallow", "retained", "characters", "string"]);
    for row in &rows[..shown] {
        let length = format!("{}{}", number(units(&row.value) as u64), if row.cut { "+" } else { "" });
        let value = format!("\"{}\"", one_line(&to_text(Cow::Borrowed(&row.value))));
        table.row([
            bytes(row.saving_bytes),
            number(row.nodes.len() as u64),
            bytes(row.shallow_bytes),
            bytes(row.retained_bytes),
            length,
            value,
        ]);
    }
    text.push_str(&table.text());
    if shown < rows.len() {
        text.push_str(&format!("... and {} more (--top 0 shows all)\n", number((rows.len() - shown) as u64)));
    }
    text
}

fn json_of(analysis: &Analysis, rows: &[Row]) -> Value {
    let graph = &analysis.snapshot().graph;
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "value": to_text(Cow::Borrowed(&row.value)),
                "copies": row.nodes.len(),
                "shallow_bytes": row.shallow_bytes,
                "retained_bytes": row.retained_bytes,
                "saving_bytes": row.saving_bytes,
                "cut": row.cut,
                "ids": row.nodes.iter().map(|node| graph.id(*node)).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({"format": "heaplab-snapshot-strings", "version": 1, "strings": rows})
}
