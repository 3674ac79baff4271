//! `heaplab snapshot diff`: what two snapshots of a process differ in, as DevTools' Comparison;
//! over a series, what grows every time.

use super::file::{Reading, Source};
use super::rows::{label_within, node_json};
use crate::terminal;
use anyhow::Result;
use clap::ValueEnum;
use heaplab_snapshot::Snapshot;
use heaplab_snapshot::analysis::{Analysis, Interface};
use heaplab_snapshot::diff::{ClassDiff, Growth, Point, compare, growing};
use heaplab_snapshot::query::subject::Pattern;
use heaplab_snapshot::session::Session;
use heaplab_snapshot::strings::to_text;
use heaplab_text::lines;
use heaplab_text::lines::one_line;
use heaplab_text::table::Table;
use heaplab_text::words::bytes;
use heaplab_text::words::count as number;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `heaplab snapshot diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # what b has that a has not
  heaplab snapshot diff a.heapsnapshot b.heapsnapshot
  # and which objects
  heaplab snapshot diff a.heapsnapshot b.heapsnapshot --class Session
  # a series: what grows every time
  heaplab snapshot diff leak.*.heapsnapshot
  heaplab snapshot diff a.heapsnapshot b.heapsnapshot --json | \\
      jq '.classes[] | select(.added > 100)'

Two snapshots are compared by object: the same id is the same object, in files
of one session alone: what one `take` with several -o, one `watch`, one DevTools
window or one process by itself has written. V8 numbers objects anew in the next
session. A series is compared by counts, whatever wrote it.")]
pub struct Args {
    /// The snapshots, the oldest first; of three and more, what grows in each is shown
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    files: Vec<PathBuf>,
    /// Classes to show; 0: all
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// Show the largest of this first
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "bytes")]
    sort: Sort,
    /// Show only classes of this name, with their new objects; * stands for any text
    #[arg(long, value_name = "PATTERN")]
    class: Option<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

/// What classes are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Bytes more than before
    Bytes,
    /// Objects more than before
    Count,
    /// Objects that are new
    Added,
    /// Objects that are gone
    Removed,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    match &args.files[..] {
        [first, second] => two(&args, first, second)?,
        files => series(&args, files)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn two(args: &Args, first: &Path, second: &Path) -> Result<()> {
    let quiet = args.reading.is_quiet();
    let (first, second) = (Source::open(first, quiet)?, Source::open(second, quiet)?);
    let (first, second) = (first.read(&args.reading)?, second.read(&args.reading)?);
    let session = warned(&first, &second);
    let bar = args.reading.spinner("comparing".into())?;
    let (older, newer) = (
        Analysis::of(&first, &args.reading.options()),
        Analysis::of(&second, &args.reading.options()),
    );
    let mut diffs = compare(&older, &newer);
    bar.finish_and_clear();
    if let Some(pattern) = args.class.as_deref().map(Pattern::new) {
        diffs.retain(|diff| pattern.fits(&name(&diff.name)));
    }
    diffs.sort_by_key(|diff| match args.sort {
        Sort::Bytes => Reverse(diff.size_delta()),
        Sort::Count => Reverse(diff.count_delta()),
        Sort::Added => Reverse(diff.added.len() as i64),
        Sort::Removed => Reverse(diff.removed.len() as i64),
    });
    if args.json {
        return println!("{}", serde_json::to_string(&two_json(&older, &newer, &diffs, session))?);
    }
    let shown = if args.top == 0 { diffs.len() } else { args.top.min(diffs.len()) };
    let mut text = format!(
        "{} -> {} ({})\n\n",
        bytes(older.total_bytes()),
        bytes(newer.total_bytes()),
        signed_bytes(newer.total_bytes() as i64 - older.total_bytes() as i64)
    );
    let mut table =
        Table::new(["new", "gone", "delta", "allocated", "freed", "size delta", "class"]);
    for diff in &diffs[..shown] {
        table.row([
            number(diff.added.len() as u64),
            number(diff.removed.len() as u64),
            signed(diff.count_delta()),
            bytes(diff.added_size),
            bytes(diff.removed_size),
            signed_bytes(diff.size_delta()),
            name(&diff.name).into_owned(),
        ]);
    }
    text.push_str(&table.text(terminal::columns()));
    if shown < diffs.len() {
        let _ = writeln!(
            text,
            "... and {} classes more (--top 0 shows all)",
            number((diffs.len() - shown) as u64)
        );
    }
    if diffs.is_empty() {
        text.push_str("Nothing was added or removed.\n");
    }
    if args.class.is_some() {
        new_objects(&newer, &diffs, args.top, &mut text);
    }
    print!("{text}")
}

/// Whether equal ids are equal objects; where they are not, that is said.
pub fn warned(older: &Snapshot, newer: &Snapshot) -> Session {
    let session = Session::of(older, newer);
    if session.is_broken() {
        let why = if session.newer_is_first { ", and the newer file's ids begin anew" } else { "" };
        let text = format!(
            "WARNING: these are not snapshots of one session, so that what is new and what is gone is not true: of {} ids that both \
             have {} belong to objects of different types{why}. Take both with one command (`heaplab snapshot take -o before.heapsnapshot \
             -o after.heapsnapshot`), or compare counts alone (`diff` of three files and more, `summary`).",
            number(session.common),
            number(session.changed),
        );
        eprintln!("{}", lines::paragraph(&text, "heaplab: ", 2, terminal::columns()).trim_end());
    }
    session
}

/// The new objects of the classes that were asked for, those that retain most first.
fn new_objects(newer: &Analysis, diffs: &[ClassDiff], top: usize, text: &mut String) {
    let mut added: Vec<_> = diffs.iter().flat_map(|diff| diff.added.iter().copied()).collect();
    added.sort_by_key(|node| Reverse(newer.retained_size(*node)));
    let shown = if top == 0 { added.len() } else { top.min(added.len()) };
    let _ = writeln!(text, "\nNew, by what they retain:");
    let room = terminal::columns() - 12;
    for node in &added[..shown] {
        let _ = writeln!(
            text,
            "{:>10}  {}",
            bytes(newer.retained_size(*node)),
            label_within(newer, *node, room)
        );
    }
    if shown < added.len() {
        let _ = writeln!(text, "... and {} more", number((added.len() - shown) as u64));
    }
}

fn two_json(older: &Analysis, newer: &Analysis, diffs: &[ClassDiff], session: Session) -> Value {
    let ids = |analysis: &Analysis, nodes: &[u32]| -> Vec<u32> {
        nodes.iter().map(|node| analysis.snapshot().graph.id(*node)).collect()
    };
    let classes: Vec<Value> = diffs
        .iter()
        .map(|diff| {
            json!({
                "key": name(&diff.key),
                "name": name(&diff.name),
                "added": diff.added.len(),
                "removed": diff.removed.len(),
                "added_bytes": diff.added_size,
                "removed_bytes": diff.removed_size,
                "added_ids": ids(newer, &diff.added),
                "removed_ids": ids(older, &diff.removed),
                "largest_added": diff.added.iter().max_by_key(|node| newer.retained_size(**node)).map(|node| node_json(newer, *node)),
            })
        })
        .collect();
    json!({
        "format": "heaplab-snapshot-diff",
        "version": 1,
        "total_bytes": [older.total_bytes(), newer.total_bytes()],
        "one_session": !session.is_broken(),
        "classes": classes,
    })
}

fn series(args: &Args, files: &[PathBuf]) -> Result<()> {
    // The newest first: its interfaces group plain objects in all of them. Of each, only counts are
    // kept.
    let mut interfaces: Option<Vec<Interface>> = None;
    let mut points: Vec<Point> = Vec::new();
    let mut totals = Vec::new();
    for path in files.iter().rev() {
        let source = Source::open(path, args.reading.is_quiet())?;
        let snapshot = source.read(&args.reading)?;
        let bar = args.reading.spinner(format!("analysing {}", path.display()))?;
        let analysis = Analysis::of(&snapshot, &args.reading.options());
        points.push(Point::of(
            &analysis,
            interfaces.get_or_insert_with(|| analysis.interfaces().to_vec()),
        ));
        totals.push(analysis.total_bytes());
        bar.finish_and_clear();
    }
    points.reverse();
    totals.reverse();
    let mut growing = growing(&points);
    if let Some(pattern) = args.class.as_deref().map(Pattern::new) {
        growing.retain(|class| pattern.fits(&class_of_key(&class.key)));
    }
    if args.sort == Sort::Count {
        growing.sort_by_key(|class| {
            Reverse(class.counts.last().unwrap_or(&0) - class.counts.first().unwrap_or(&0))
        });
    }
    if args.json {
        let classes: Vec<Value> = growing
            .iter()
            .map(|class| json!({"key": name(&class.key), "name": class_of_key(&class.key), "counts": class.counts, "shallow_bytes": class.sizes}))
            .collect();
        let answer = json!({"format": "heaplab-snapshot-series", "version": 1, "total_bytes": totals, "growing": classes});
        return println!("{}", serde_json::to_string(&answer)?);
    }
    print!("{}", series_text(&totals, &growing, args.top))
}

fn series_text(totals: &[u64], growing: &[Growth], top: usize) -> String {
    let totals: Vec<String> = totals.iter().map(|total| bytes(*total)).collect();
    let mut text = lines::paragraph(&totals.join(" -> "), "", 0, terminal::columns());
    if growing.is_empty() {
        text.push_str("No class has more objects in each snapshot than in the one before.\n");
        return text;
    }
    let shown = if top == 0 { growing.len() } else { top.min(growing.len()) };
    text.push_str("\nMore objects each time:\n");
    let mut table = Table::new(["grown by", "objects", "class"]);
    for class in &growing[..shown] {
        table.row([bytes(class.bytes()), course(&class.counts), class_of_key(&class.key)]);
    }
    text.push_str(&table.text(terminal::columns()));
    if shown < growing.len() {
        let _ = writeln!(
            text,
            "... and {} classes more (--top 0 shows all)",
            number((growing.len() - shown) as u64)
        );
    }
    text
}

/// `1 -> 2 -> 3`; of a long series, its beginning and its end.
fn course(counts: &[u64]) -> String {
    const SHOWN: usize = 4;
    let numbers =
        |counts: &[u64]| counts.iter().map(|count| number(*count)).collect::<Vec<_>>().join(" -> ");
    match counts {
        [first, .., before, last] if counts.len() > SHOWN => {
            format!("{} -> ... -> {}", number(*first), numbers(&[*before, *last]))
        }
        _ => numbers(counts),
    }
}

fn name(bytes: &[u8]) -> Cow<'_, str> {
    to_text(Cow::Borrowed(bytes))
}

/// The name in a key: behind its place in a script, and the comma.
fn class_of_key(key: &[u8]) -> String {
    let key = name(key);
    let named = match key.strip_prefix(',') {
        Some(name) => name,
        None => key.splitn(4, ',').nth(3).unwrap_or(&key),
    };
    one_line(named)
}

fn signed(delta: i64) -> String {
    let sign = if delta < 0 { "-" } else { "+" };
    format!("{sign}{}", number(delta.unsigned_abs()))
}

fn signed_bytes(delta: i64) -> String {
    let sign = if delta < 0 { "-" } else { "+" };
    format!("{sign}{}", bytes(delta.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_class() {
        assert_eq!(class_of_key(b",Session"), "Session");
        assert_eq!(class_of_key(b"12,3,4,Session, odd"), "Session, odd");
        assert_eq!(
            (course(&[1, 2, 3, 4]).as_str(), course(&[1, 2, 3, 4, 5]).as_str()),
            ("1 -> 2 -> 3 -> 4", "1 -> ... -> 4 -> 5")
        );
        assert_eq!(
            (signed(-1200).as_str(), signed(5).as_str(), signed_bytes(-2048).as_str()),
            ("-1,200", "+5", "-2.00 KiB")
        );
    }
}
