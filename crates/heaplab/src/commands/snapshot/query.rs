//! `heaplab snapshot query`: objects as rows: filter, group, sort, top; as text, JSON or Parquet.

mod parquet;

use super::file::{self, Open, Reading};
use super::only::Only;
use crate::{output, terminal};
use anyhow::Result;
use heaplab_snapshot::query::answer::{Answer, Cell};
use heaplab_snapshot::query::plan::{Field, Plan};
use heaplab_snapshot_view::rows::distance;
use heaplab_text::lines::cut;
use heaplab_text::table::Table;
use heaplab_text::words::bytes;
use heaplab_text::words::count as number;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Rows of text where the query does not say.
const ROWS_SHOWN: usize = 20;
/// Characters of a text that is not in the last column.
const TEXT_CHARACTERS: usize = 30;

const EXAMPLES: &str = "\
Examples:
  heaplab snapshot query a.heapsnapshot \\
      'where class = \"Session\" | sort retained | top 10'
  heaplab snapshot query a.heapsnapshot \\
      'where type = \"string\" and shallow > 1MB | select id, shallow, name'
  heaplab snapshot query a.heapsnapshot \\
      'where class ~ \"Detached *\" | group class | sort count'
  heaplab snapshot query b.heapsnapshot 'group class' --since a.heapsnapshot
  heaplab snapshot query a.heapsnapshot 'group type' --json
  heaplab snapshot query a.heapsnapshot \\
      'select id, class, retained, dominator' -o rows.parquet

Clauses, in this order, each as needed:
  where CONDITION | group FIELD, ... | sort FIELD [asc|desc] | top N |
  select FIELD, ...

Fields: id, type, class, name, shallow, retained, distance, detached (1 or 0),
references, dominator. Groups have their fields and count, shallow (sum),
retained (by all of them together) and distance (the least).

Conditions: = != < <= > >= on numbers and texts, ~ for a pattern with *,
+ - * / and or not ( ), units B kB MB GB KiB MiB GiB.";

/// Arguments of `heaplab snapshot query`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to ask; an empty text is all objects
    #[arg(value_name = "QUERY")]
    query: String,
    #[command(flatten)]
    only: Only,
    /// Write Parquet to this file
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

/// Runs the command.
pub fn run(args: Args, open: Open) -> Result<ExitCode> {
    let mut plan = match Plan::read(&args.query) {
        Ok(plan) => plan,
        Err(misread) => {
            eprintln!("heaplab snapshot query: {misread}");
            return Ok(ExitCode::from(2));
        }
    };
    let as_text = !args.json && args.output.is_none();
    if as_text && plan.top.is_none() {
        plan.top = Some(ROWS_SHOWN);
    }
    file::analysed(&args.file, &args.reading, open, |analysis| {
        let chosen = args.only.chosen(&args.reading, analysis)?;
        let answer = Answer::of(analysis, &plan, chosen);
        match &args.output {
            Some(path) => output::write_private(path, true, |out| parquet::write(&answer, out)),
            None if args.json => write_json(&answer),
            None => print!("{}", text(&answer)),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(answer: &Answer) -> String {
    let mut fields = answer.fields();
    // The last column is the one that gives way.
    if let Some(wide) = fields.iter().rposition(|field| field.is_text()) {
        let wide = fields.remove(wide);
        fields.push(wide);
    }
    let mut table = Table::new(fields.iter().map(|field| field.name()));
    for row in 0..answer.row_count() {
        let last = fields.len() - 1;
        let cells = fields.iter().enumerate().map(|(at, field)| match answer.cell(row, *field) {
            Cell::Text(text) if at == last => text,
            Cell::Text(text) => cut(&text, TEXT_CHARACTERS),
            Cell::Number(value) => shown(*field, value),
        });
        table.row(cells);
    }
    let mut text = table.text(terminal::columns());
    if answer.row_count() < answer.found {
        let _ = writeln!(text, "... of {} (top N shows more)", number(answer.found as u64));
    }
    text
}

fn shown(field: Field, value: i64) -> String {
    match field {
        Field::Shallow | Field::Retained => bytes(value as u64),
        Field::Distance => distance(value as i32),
        Field::Id | Field::Dominator => format!("@{value}"),
        _ => number(value as u64),
    }
}

fn cell_json(cell: Cell) -> Value {
    match cell {
        Cell::Number(number) => number.into(),
        Cell::Text(text) => text.into(),
    }
}

fn write_json(answer: &Answer) -> Result<()> {
    let fields = answer.fields();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let head = json!({"format": "heaplab-snapshot-query", "version": 1, "found": answer.found})
        .to_string();
    let mut write = || -> std::io::Result<()> {
        write!(out, "{},\"rows\":[", head.trim_end_matches('}'))?;
        for row in 0..answer.row_count() {
            let object: Map<String, Value> = fields
                .iter()
                .map(|field| (field.json_name().into(), cell_json(answer.cell(row, *field))))
                .collect();
            write!(out, "{}{}", if row > 0 { ",\n" } else { "\n" }, Value::Object(object))?;
        }
        writeln!(out, "]}}")?;
        out.flush()
    };
    match write() {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            Err(output::ReaderGone.into())
        }
        other => Ok(other?),
    }
}
