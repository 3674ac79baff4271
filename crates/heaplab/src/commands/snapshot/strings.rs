//! `heaplab snapshot strings`: strings that are on the heap more than once, or all of them.

use super::file::{self, Reading};
use crate::output;
use crate::terminal;
use anyhow::Result;
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::{Analysis, DuplicateStrings};
use heaplab_snapshot::strings::{to_text, units};
use heaplab_text::lines::one_line;
use heaplab_text::table::Table;
use heaplab_text::words::bytes;
use heaplab_text::words::count as number;
use serde_json::json;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::io::Write;
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
are told apart by length and hash where the file has them. Where it has not, only
the beginnings are known to be the same: the saving is at most that (<=).")]
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
    nodes: Vec<Node>,
    shallow_bytes: u64,
    retained_bytes: u64,
    saving_bytes: u64,
    cut: bool,
    beginnings_alone: bool,
}

impl Row {
    /// The string: made when it is needed, for all of them may be larger than the file.
    fn value<'r>(&self, analysis: &'r Analysis) -> Cow<'r, [u8]> {
        analysis.name_bytes(self.nodes[0])
    }
}

impl From<DuplicateStrings> for Row {
    fn from(group: DuplicateStrings) -> Row {
        Row {
            shallow_bytes: group.self_size,
            retained_bytes: group.retained_size,
            saving_bytes: group.saving_bytes(),
            cut: group.truncated,
            beginnings_alone: group.beginnings_alone,
            nodes: group.nodes,
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    file::analysed(&args.file, &args.reading, |analysis| {
        let mut rows: Vec<Row> = if args.all {
            all(analysis)
        } else {
            analysis.duplicate_strings().into_iter().map(Row::from).collect()
        };
        if let Some(wanted) = &args.containing {
            rows.retain(|row| to_text(row.value(analysis)).contains(wanted.as_str()));
        }
        rows.sort_by_key(|row| Reverse((row.saving_bytes, row.retained_bytes)));
        if args.json {
            output::printed(|out| write_json(analysis, &rows, out))
        } else {
            print!("{}", text(analysis, &rows, args.all, args.top))
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Every string object, a row each.
fn all(analysis: &Analysis) -> Vec<Row> {
    let snapshot = analysis.snapshot();
    let is_string = |node: &Node| {
        matches!(
            snapshot.node_type_name(snapshot.graph.node_type(*node)),
            "string" | "concatenated string" | "sliced string"
        )
    };
    let strings =
        snapshot.graph.nodes().filter(|node| analysis.self_size(*node) > 0).filter(is_string);
    strings
        .map(|node| Row {
            nodes: vec![node],
            shallow_bytes: analysis.self_size(node),
            retained_bytes: analysis.retained_size(node),
            saving_bytes: 0,
            cut: false,
            beginnings_alone: analysis.may_be_cut(node),
        })
        .collect()
}

fn text(analysis: &Analysis, rows: &[Row], all: bool, top: usize) -> String {
    let shown = if top == 0 { rows.len() } else { top.min(rows.len()) };
    let mut text = if all {
        format!(
            "{} strings, {}\n\n",
            number(rows.len() as u64),
            bytes(rows.iter().map(|row| row.shallow_bytes).sum())
        )
    } else {
        duplicates_in_words(rows)
    };
    let mut table = Table::new(["saving", "copies", "shallow", "retained", "characters", "string"]);
    for row in &rows[..shown] {
        let value = row.value(analysis);
        let length = format!(
            "{}{}",
            number(units(&value) as u64),
            if row.cut || row.beginnings_alone { "+" } else { "" }
        );
        table.row([
            format!(
                "{}{}",
                if row.beginnings_alone && !all { "<= " } else { "" },
                bytes(row.saving_bytes)
            ),
            number(row.nodes.len() as u64),
            bytes(row.shallow_bytes),
            bytes(row.retained_bytes),
            length,
            format!("\"{}\"", one_line(&to_text(value))),
        ]);
    }
    text.push_str(&table.text(terminal::columns()));
    if shown < rows.len() {
        text.push_str(&format!(
            "... and {} more (--top 0 shows all)\n",
            number((rows.len() - shown) as u64)
        ));
    }
    text
}

/// What the duplicates come to: strings of which only the beginnings are known are counted apart.
fn duplicates_in_words(rows: &[Row]) -> String {
    let sums = |beginnings_alone: bool| {
        let rows = || rows.iter().filter(move |row| row.beginnings_alone == beginnings_alone);
        let copies: usize = rows().map(|row| row.nodes.len()).sum();
        (
            number(rows().count() as u64),
            number(copies as u64),
            rows().map(|row| row.saving_bytes).sum::<u64>(),
        )
    };
    let (strings, copies, saving) = sums(false);
    let are = |count: &str, one: &str| {
        if count == "1" { format!("1 {one} is") } else { format!("{count} {one}s are") }
    };
    let mut text = format!(
        "{} on the heap {copies} times; one copy of each would save {}\n",
        are(&strings, "string"),
        bytes(saving)
    );
    let (beginnings, objects, saving) = sums(true);
    if saving > 0 {
        text.push_str(&format!(
            "{} shared by {objects} strings of which the file has no more;\n\
             if these go on in the same way, one copy of each saves {} at most\n",
            are(&beginnings, "beginning"),
            bytes(saving)
        ));
    }
    text + "\n"
}

fn write_json(analysis: &Analysis, rows: &[Row], out: &mut dyn Write) -> std::io::Result<()> {
    let graph = &analysis.snapshot().graph;
    write!(out, "{{\"format\":\"heaplab-snapshot-strings\",\"version\":1,\"strings\":[")?;
    for (place, row) in rows.iter().enumerate() {
        let row = json!({
            "value": to_text(row.value(analysis)),
            "copies": row.nodes.len(),
            "shallow_bytes": row.shallow_bytes,
            "retained_bytes": row.retained_bytes,
            "saving_bytes": row.saving_bytes,
            "cut": row.cut,
            "beginnings_alone": row.beginnings_alone,
            "ids": row.nodes.iter().map(|node| graph.id(*node)).collect::<Vec<_>>(),
        });
        write!(out, "{}{row}", if place > 0 { ",\n" } else { "\n" })?;
    }
    writeln!(out, "]}}")
}
