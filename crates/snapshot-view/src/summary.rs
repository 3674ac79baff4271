//! Classes, as DevTools' Summary.

use crate::attachment::{Attachment, Cell, Column};
use crate::rows::{distance, share};
use heaplab_snapshot::analysis::{Class, Statistics};
use heaplab_snapshot::scripts::Scripts;
use heaplab_snapshot::strings::to_text;
use heaplab_snapshot::summary::Summary;
use heaplab_text::lines;
use heaplab_text::table::Table;
use heaplab_text::words::{bytes, count as number};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cmp::Reverse;

/// Orders of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Order {
    /// Retained bytes, the largest first.
    Retained,
    /// Own bytes, the largest first.
    Shallow,
    /// Number of objects, the largest first.
    Count,
    /// Distance from a root, the nearest first.
    Distance,
    /// By name.
    Name,
}

impl Order {
    /// Sorts classes, each with its place in the file.
    pub fn sort(self, classes: &mut [(u32, &Class)]) {
        // Equal classes stand in the order of the file.
        classes.sort_by_key(|(index, class)| {
            let key = match self {
                Order::Retained => Reverse(class.retained_size),
                Order::Shallow => Reverse(class.self_size),
                Order::Count => Reverse(class.count),
                Order::Distance => Reverse(u64::MAX - u64::from(class.distance.max(0) as u32)),
                Order::Name => Reverse(0),
            };
            (key, if self == Order::Name { class.text() } else { String::new() }, *index)
        });
    }
}

/// A class's name and, if known, its place in a script without folders, which tells two classes of
/// one name apart.
fn label(class: &Class, scripts: &Scripts) -> String {
    match class.place {
        Some(place) => {
            let place = scripts.place(place);
            format!("{}  ({})", class.text(), place.rsplit('/').next().unwrap_or(&place))
        }
        None => class.text(),
    }
}

/// The first `shown` classes as a table; `filtered`: a filter chose the counted objects.
pub fn text(
    summary: &Summary,
    classes: &[(u32, &Class)],
    shown: usize,
    filtered: bool,
    columns: usize,
) -> String {
    let total = summary.statistics.total_bytes;
    let (nodes, edges) = (number(summary.node_count), number(summary.edge_count));
    let sums = &summary.statistics;
    let parts = format!(
        "code {}, strings {}, arrays {}, typed arrays {}, other native {}, system {}",
        bytes(sums.code_bytes),
        bytes(sums.string_bytes),
        bytes(sums.js_array_bytes),
        bytes(sums.typed_array_bytes),
        bytes(sums.native_bytes.saturating_sub(sums.typed_array_bytes)),
        bytes(sums.system_bytes),
    );
    let parts = lines::paragraph(&parts, "", 0, columns);
    let mut text =
        format!("{} in {nodes} objects with {edges} references\n{parts}\n", bytes(total));
    if filtered {
        // All objects that pass the filter, not only those of the shown classes.
        let (count, size) = summary
            .classes
            .iter()
            .fold((0, 0), |sum, class| (sum.0 + class.count, sum.1 + class.self_size));
        text.push_str(&format!(
            "of which {} objects pass the filter, {} of their own\n\n",
            number(count),
            bytes(size)
        ));
    }
    let mut table = Table::new(["count", "shallow", "retained", "distance", "class"]);
    for (_, class) in &classes[..shown] {
        let cells = [
            number(class.count),
            share(class.self_size, total),
            share(class.retained_size, total),
            distance(class.distance),
            label(class, &summary.scripts),
        ];
        table.row(cells);
    }
    text.push_str(&table.text(columns));
    if shown < classes.len() {
        text.push_str(&format!(
            "... and {} classes more (--top 0 shows all)\n",
            number((classes.len() - shown) as u64)
        ));
    }
    text
}

/// Bytes by kind, with the names of DevTools' Statistics; the kinds add up to the total.
pub(crate) fn kinds(sums: &Statistics) -> [(&'static str, u64); 7] {
    let v8 = sums.v8_heap_bytes();
    let known = sums.code_bytes + sums.string_bytes + sums.js_array_bytes + sums.system_bytes;
    [
        ("Code", sums.code_bytes),
        ("Strings", sums.string_bytes),
        ("JS arrays", sums.js_array_bytes),
        ("Other JS objects", v8.saturating_sub(known)),
        ("System objects", sums.system_bytes),
        ("Typed arrays", sums.typed_array_bytes),
        ("Other non-JS objects", sums.native_bytes.saturating_sub(sums.typed_array_bytes)),
    ]
}

/// The classes as an HTML file about `file`; `filtered` as in [`text`].
pub fn html(file: &str, summary: &Summary, classes: &[(u32, &Class)], filtered: bool) -> String {
    let total = summary.statistics.total_bytes;
    let (nodes, edges) = (number(summary.node_count), number(summary.edge_count));
    let mut about = format!("{} in {nodes} objects with {edges} references.", bytes(total));
    if filtered {
        about.push_str(" Count and shallow size are of the objects that pass the filter.");
    }
    let mut page = Attachment::new(&format!("Summary of {file}"), &[about]);
    let kinds = kinds(&summary.statistics).into_iter();
    let kind = |(name, size)| vec![Cell::of(name), Cell::size(share(size, total), size, total)];
    page.table(&[Column::Text("kind"), Column::Number("bytes")], kinds.map(kind));
    let columns = [
        Column::Text("class"),
        Column::Number("distance"),
        Column::Number("count"),
        Column::Number("shallow"),
        Column::Number("retained"),
    ];
    let row = |(_, class): &(u32, &Class)| {
        vec![
            Cell::of(label(class, &summary.scripts)),
            Cell::of(distance(class.distance)),
            Cell::of(number(class.count)),
            Cell::size(share(class.self_size, total), class.self_size, total),
            Cell::size(share(class.retained_size, total), class.retained_size, total),
        ]
    };
    page.heading("Classes");
    page.table(&columns, classes.iter().map(row));
    page.html()
}

/// The classes as JSON.
pub fn json(summary: &Summary, classes: &[(u32, &Class)]) -> Value {
    let classes: Vec<Value> =
        classes.iter().map(|(_, class)| class_json(class, &summary.scripts)).collect();
    let sums = &summary.statistics;
    json!({
        "format": "heaplab-snapshot-summary",
        "version": 1,
        "nodes": summary.node_count,
        "edges": summary.edge_count,
        "total_bytes": summary.statistics.total_bytes,
        "statistics": {
            "code_bytes": sums.code_bytes,
            "string_bytes": sums.string_bytes,
            "js_array_bytes": sums.js_array_bytes,
            "typed_array_bytes": sums.typed_array_bytes,
            "native_bytes": sums.native_bytes,
            "system_bytes": sums.system_bytes,
        },
        "classes": classes,
    })
}

/// A place in a script; lines and columns count from 0.
pub(crate) fn place_json(place: (u32, u32, u32), scripts: &Scripts) -> Value {
    let (script_id, line, column) = place;
    json!({"script_id": script_id, "script": scripts.name(script_id), "line": line, "column": column})
}

fn class_json(class: &Class, scripts: &Scripts) -> Value {
    json!({
        "key": to_text(Cow::Owned(class.key())),
        "name": class.text(),
        "place": class.place.map(|place| place_json(place, scripts)),
        "count": class.count,
        "shallow_bytes": class.self_size,
        "retained_bytes": class.retained_size,
        "distance": class.distance,
    })
}
