//! Differences of two snapshots of a process, as in DevTools' Comparison. Over a series: growth in
//! every step.

use crate::attachment::{Attachment, Cell, Column};
use crate::rows::{edge_json, label, label_within, node_json, step};
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::Analysis;
use heaplab_snapshot::diff::{ClassDiff, Growth};
use heaplab_snapshot::growth::Growing;
use heaplab_snapshot::session::Session;
use heaplab_snapshot::strings::to_text;
use heaplab_text::lines::{self, one_line};
use heaplab_text::table::Table;
use heaplab_text::words::{bytes, count as number};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt::Write;

/// Orders of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Order {
    /// Growth in bytes.
    Bytes,
    /// Growth in objects.
    Count,
    /// New objects.
    Added,
    /// Removed objects.
    Removed,
}

impl Order {
    /// Sorts the classes of two snapshots.
    pub fn sort(self, diffs: &mut [ClassDiff]) {
        diffs.sort_by_key(|diff| match self {
            Order::Bytes => Reverse(diff.size_delta()),
            Order::Count => Reverse(diff.count_delta()),
            Order::Added => Reverse(diff.added.len() as i64),
            Order::Removed => Reverse(diff.removed.len() as i64),
        });
    }

    /// Sorts the classes that grow over a series, which come sorted by bytes.
    pub fn sort_series(self, growing: &mut [Growth]) {
        if self == Order::Count {
            growing.sort_by_key(|class| {
                Reverse(class.counts.last().unwrap_or(&0) - class.counts.first().unwrap_or(&0))
            });
        }
    }
}

/// Warns that a comparison by ids is wrong for two snapshots of different sessions, or turned
/// round for two in the wrong order.
pub fn warning(session: &Session) -> Option<String> {
    if let (Some((older, newer)), false) = (session.reversed, session.is_broken()) {
        return Some(format!(
            "WARNING: the files stand in the wrong order, so the objects listed as new are gone: ids of the first file end at @{older}, ids of the second at @{newer}, and the second file has ids that the first lacks. Name the older file first."
        ));
    }
    let why = if session.newer_is_first { ", and the newer file's ids begin anew" } else { "" };
    session.is_broken().then(|| {
        format!(
            "WARNING: these are not snapshots of one session, so the lists of new and gone objects are wrong: of {} ids that both have {} belong to objects of different types{why}. Take both with one command (`heaplab snapshot take -o before.heapsnapshot -o after.heapsnapshot`), or compare counts alone (`diff` of three files and more, `summary`).",
            number(session.common),
            number(session.changed),
        )
    })
}

/// New objects in the HTML file.
const NEW_IN_HTML: usize = 100;

/// The first `top` classes (0: all), and the new objects of classes that the user named.
pub fn text(
    older: &Analysis,
    newer: &Analysis,
    diffs: &[ClassDiff],
    top: usize,
    with_objects: bool,
    columns: usize,
) -> String {
    let shown = if top == 0 { diffs.len() } else { top.min(diffs.len()) };
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
    text.push_str(&table.text(columns));
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
    if with_objects {
        new_objects(newer, diffs, top, columns, &mut text);
    }
    text
}

/// The new objects of the named classes, by retained bytes.
fn new_objects(
    newer: &Analysis,
    diffs: &[ClassDiff],
    top: usize,
    columns: usize,
    text: &mut String,
) {
    let mut added: Vec<_> = diffs.iter().flat_map(|diff| diff.added.iter().copied()).collect();
    added.sort_by_key(|node| Reverse(newer.retained_size(*node)));
    let shown = if top == 0 { added.len() } else { top.min(added.len()) };
    let _ = writeln!(text, "\nNew, by what they retain:");
    let room = columns - 12;
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

/// The same as an HTML file about two snapshots.
pub fn html(
    (older, newer): (&Analysis, &Analysis),
    names: (&str, &str),
    diffs: &[ClassDiff],
    session: Session,
) -> String {
    let delta = newer.total_bytes() as i64 - older.total_bytes() as i64;
    let mut about = vec![
        format!("{}: {}", names.0, bytes(older.total_bytes())),
        format!("{}: {} ({})", names.1, bytes(newer.total_bytes()), signed_bytes(delta)),
    ];
    if session.is_broken() {
        about.push(
            "The snapshots are not of one session: new and gone objects are not true here.".into(),
        );
    }
    let mut page = Attachment::new("Differences of two snapshots", &about);
    let columns = [
        Column::Text("class"),
        Column::Number("new"),
        Column::Number("gone"),
        Column::Number("delta"),
        Column::Number("allocated"),
        Column::Number("freed"),
        Column::Number("size delta"),
    ];
    let row = |diff: &ClassDiff| {
        vec![
            Cell::of(name(&diff.name)),
            Cell::of(number(diff.added.len() as u64)),
            Cell::of(number(diff.removed.len() as u64)),
            Cell::of(signed(diff.count_delta())),
            Cell::of(bytes(diff.added_size)),
            Cell::of(bytes(diff.removed_size)),
            Cell::of(signed_bytes(diff.size_delta())),
        ]
    };
    page.heading("Classes");
    page.table(&columns, diffs.iter().map(row));
    let mut added: Vec<_> = diffs.iter().flat_map(|diff| diff.added.iter().copied()).collect();
    added.sort_by_key(|node| Reverse(newer.retained_size(*node)));
    added.truncate(NEW_IN_HTML);
    page.heading("New, by what they retain");
    let total = newer.total_bytes();
    let row = |node: &Node| {
        let retained = newer.retained_size(*node);
        vec![Cell::of(label(newer, *node)), Cell::size(bytes(retained), retained, total)]
    };
    page.table(&[Column::Text("object"), Column::Number("retained")], added.iter().map(row));
    page.html()
}

/// The same as JSON.
pub fn json(older: &Analysis, newer: &Analysis, diffs: &[ClassDiff], session: Session) -> Value {
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

/// A series as JSON.
pub fn series_json(
    totals: &[u64],
    growing: &[Growth],
    one_session: bool,
    holders: &[Holder],
) -> Value {
    let classes: Vec<Value> = growing
        .iter()
        .map(|class| json!({"key": name(&class.key), "name": class_of_key(&class.key), "counts": class.counts, "shallow_bytes": class.sizes}))
        .collect();
    json!({"format": "heaplab-snapshot-series", "version": 1, "total_bytes": totals, "one_session": one_session, "growing": classes,
        "holders": holders.iter().map(Holder::json).collect::<Vec<_>>()})
}

/// Classes that grow in every step of a series: the first `top` of them (0: all).
pub fn series_text(totals: &[u64], growing: &[Growth], top: usize, columns: usize) -> String {
    let totals: Vec<String> = totals.iter().map(|total| bytes(*total)).collect();
    let mut text = lines::paragraph(&totals.join(" -> "), "", 0, columns);
    if growing.is_empty() {
        text.push_str("No class has more objects in each snapshot than in the one before.\n");
        return text;
    }
    let shown = if top == 0 { growing.len() } else { top.min(growing.len()) };
    text.push_str("\nMore objects each time:\n");
    let mut table = Table::new(["grown by", "objects", "class"]);
    for class in &growing[..shown] {
        table.row([bytes(class.bytes()), course(&class.counts, number), class_of_key(&class.key)]);
    }
    text.push_str(&table.text(columns));
    if shown < growing.len() {
        let _ = writeln!(
            text,
            "... and {} classes more (--top 0 shows all)",
            number((growing.len() - shown) as u64)
        );
    }
    text
}

/// An object that retains more in every step, and its shortest path in the newest snapshot.
pub struct Holder {
    label: String,
    way: String,
    object: Value,
    steps: Vec<Value>,
    growing: Growing,
}

impl Holder {
    /// Describes the object by the newest snapshot.
    pub fn of(analysis: &Analysis, (node, growing): (Node, Growing)) -> Holder {
        let path = analysis.shortest_path(analysis.backward(), node);
        let names = path.iter().map(|each| step(analysis, each.edge));
        Holder {
            label: label(analysis, node),
            way: names.collect::<Vec<_>>().join(" "),
            object: node_json(analysis, node),
            steps: path
                .iter()
                .map(|each| json!({"from": node_json(analysis, each.from), "edge": edge_json(analysis, each.edge)}))
                .collect(),
            growing,
        }
    }

    fn json(&self) -> Value {
        json!({"object": self.object, "retained_bytes": self.growing.retained_bytes, "steps": self.steps})
    }
}

/// Growing objects shown by default.
const HOLDERS_SHOWN: usize = 10;

/// Objects that retain more in every step, a few by default (`top` 0: all).
pub fn holders_text(holders: &[Holder], top: usize, columns: usize) -> String {
    if holders.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["grown by", "retained", "object"]);
    let shown = if top == 0 { holders.len() } else { top.min(HOLDERS_SHOWN).min(holders.len()) };
    for holder in &holders[..shown] {
        let course = course(&holder.growing.retained_bytes, bytes);
        let object = format!("{}  {}", holder.label, holder.way);
        table.row([bytes(holder.growing.bytes()), course, object]);
    }
    format!("\nObjects that retain more each time:\n{}", table.text(columns))
}

/// `1 -> 2 -> 3`; a long series as its beginning and its end.
fn course(counts: &[u64], shown: impl Fn(u64) -> String) -> String {
    const SHOWN: usize = 4;
    let numbers =
        |counts: &[u64]| counts.iter().map(|count| shown(*count)).collect::<Vec<_>>().join(" -> ");
    match counts {
        [first, .., before, last] if counts.len() > SHOWN => {
            format!("{} -> ... -> {}", shown(*first), numbers(&[*before, *last]))
        }
        _ => numbers(counts),
    }
}

/// The text of a name.
pub fn name(bytes: &[u8]) -> Cow<'_, str> {
    to_text(Cow::Borrowed(bytes))
}

/// The class's name in a key: the text behind the place in a script and the comma.
pub fn class_of_key(key: &[u8]) -> String {
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
            (course(&[1, 2, 3, 4], number).as_str(), course(&[1, 2, 3, 4, 5], number).as_str()),
            ("1 -> 2 -> 3 -> 4", "1 -> ... -> 4 -> 5")
        );
        assert_eq!(
            (signed(-1200).as_str(), signed(5).as_str(), signed_bytes(-2048).as_str()),
            ("-1,200", "+5", "-2.00 KiB")
        );
    }
}
