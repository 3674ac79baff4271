//! Strings that the heap has more than once, or all strings.

use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::{Analysis, DuplicateStrings};
use heaplab_snapshot::strings::{to_text, units};
use heaplab_text::lines::one_line;
use heaplab_text::table::Table;
use heaplab_text::words::{bytes, count as number};
use serde_json::json;
use std::borrow::Cow;
use std::io::Write;

/// A string and the objects that hold it.
pub struct Row {
    /// The objects.
    pub nodes: Vec<Node>,
    /// Their own bytes.
    pub shallow_bytes: u64,
    /// Bytes that the death of all these objects would free.
    pub retained_bytes: u64,
    /// Bytes that one copy would save.
    pub saving_bytes: u64,
    /// The file has only the string's beginning.
    pub cut: bool,
    /// Only the beginnings were compared.
    pub beginnings_alone: bool,
}

impl Row {
    /// The string's text, made on demand: all texts together may be larger than the file.
    pub fn value<'r>(&self, analysis: &'r Analysis) -> Cow<'r, [u8]> {
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

/// Every string object, a row each.
pub fn all(analysis: &Analysis) -> Vec<Row> {
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

/// The rows as a table, `top` of them (0: all).
pub fn text(analysis: &Analysis, rows: &[Row], all: bool, top: usize, columns: usize) -> String {
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
    text.push_str(&table.text(columns));
    if shown < rows.len() {
        text.push_str(&format!(
            "... and {} more (--top 0 shows all)\n",
            number((rows.len() - shown) as u64)
        ));
    }
    text
}

/// The sum over duplicates. Strings of which only the beginnings are known are counted apart.
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

/// Writes the rows as JSON, one at a time.
///
/// # Errors
/// `out` cannot be written.
pub fn write_json(analysis: &Analysis, rows: &[Row], out: &mut dyn Write) -> std::io::Result<()> {
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
