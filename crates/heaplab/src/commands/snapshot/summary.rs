//! `heaplab snapshot summary`: classes, as DevTools' Summary.

use super::file::{self, Reading};
use super::pattern::Pattern;
use super::table::{Table, distance, number, share};
use crate::commands::recording::bytes;
use anyhow::Result;
use clap::ValueEnum;
use heaplab_snapshot::analysis::{Analysis, Class};
use heaplab_snapshot::strings::to_text;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `heaplab snapshot summary`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  heaplab snapshot summary a.heapsnapshot                       the 30 classes that retain most
  heaplab snapshot summary a.heapsnapshot --top 0 --sort count  all of them, by count
  heaplab snapshot summary a.heapsnapshot --class 'Detached *'  only these
  heaplab snapshot summary a.heapsnapshot --json | jq '.classes[] | select(.name == \"Session\")'

Distance is the number of references from a root; - where only the engine's internals lead there.")]
pub struct Args {
    /// The snapshot
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Classes to show; 0: all
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// Show the largest of this first
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "retained")]
    sort: Sort,
    /// Show only classes of this name; * stands for any text
    #[arg(long, value_name = "PATTERN")]
    class: Option<String>,
    /// Write JSON, of all classes unless --class chooses
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

/// What classes are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// What would go with them
    Retained,
    /// Their own bytes
    Shallow,
    /// How many
    Count,
    /// The nearest to a root first
    Distance,
    /// By name
    Name,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    file::analysed(&args.file, &args.reading, |analysis| {
        let pattern = args.class.as_deref().map(Pattern::new);
        let mut classes: Vec<(u32, &Class)> =
            analysis.shown_classes().filter(|(_, class)| pattern.as_ref().is_none_or(|pattern| pattern.fits(&name(class)))).collect();
        sort(&mut classes, args.sort);
        if args.json {
            println!("{}", json_text(analysis, &classes)?)
        } else {
            let shown = if args.top == 0 { classes.len() } else { args.top.min(classes.len()) };
            print!("{}", text(analysis, &classes, shown))
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn sort(classes: &mut [(u32, &Class)], by: Sort) {
    // What is equal stands in the order of the file.
    classes.sort_by_key(|(index, class)| {
        let key = match by {
            Sort::Retained => Reverse(class.retained_size),
            Sort::Shallow => Reverse(class.self_size),
            Sort::Count => Reverse(class.count),
            Sort::Distance => Reverse(u64::MAX - u64::from(class.distance.max(0) as u32)),
            Sort::Name => Reverse(0),
        };
        (key, if by == Sort::Name { name(class) } else { String::new() }, *index)
    });
}

/// A class's name as text.
pub fn name(class: &Class) -> String {
    to_text(Cow::Borrowed(&class.name)).into_owned()
}

/// A class's name, and its place where it has one: two classes of one name are then told apart.
fn label(class: &Class) -> String {
    match class.place {
        Some((script, line, column)) => format!("{}  (script {script}:{}:{})", name(class), line + 1, column + 1),
        None => name(class),
    }
}

fn text(analysis: &Analysis, classes: &[(u32, &Class)], shown: usize) -> String {
    let graph = &analysis.snapshot().graph;
    let total = analysis.total_bytes();
    let (nodes, edges) = (number(graph.node_count() as u64), number(graph.edge_count() as u64));
    let mut text = format!("{} in {nodes} objects with {edges} references\n\n", bytes(total));
    let mut table = Table::new(["count", "shallow", "retained", "distance", "class"]);
    for (_, class) in &classes[..shown] {
        let cells =
            [number(class.count), share(class.self_size, total), share(class.retained_size, total), distance(class.distance), label(class)];
        table.row(cells);
    }
    text.push_str(&table.text());
    if shown < classes.len() {
        text.push_str(&format!("... and {} classes more (--top 0 shows all)\n", number((classes.len() - shown) as u64)));
    }
    text
}

fn json_text(analysis: &Analysis, classes: &[(u32, &Class)]) -> Result<String> {
    let graph = &analysis.snapshot().graph;
    let classes: Vec<Value> = classes.iter().map(|(_, class)| class_json(class)).collect();
    Ok(serde_json::to_string(&json!({
        "format": "heaplab-snapshot-summary",
        "version": 1,
        "nodes": graph.node_count(),
        "edges": graph.edge_count(),
        "total_bytes": analysis.total_bytes(),
        "classes": classes,
    }))?)
}

/// A class as every command writes it.
pub fn class_json(class: &Class) -> Value {
    json!({
        "key": to_text(Cow::Owned(class.key())),
        "name": name(class),
        "place": class.place.map(|(script_id, line, column)| json!({"script_id": script_id, "line": line, "column": column})),
        "count": class.count,
        "shallow_bytes": class.self_size,
        "retained_bytes": class.retained_size,
        "distance": class.distance,
    })
}
