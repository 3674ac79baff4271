//! Rows of the page's tables, for the visible window only.

use super::parameters::{Asked, Problem};
use crate::rows::{distance, edge_json, label};
use heaplab_snapshot::analysis::{Analysis, Class, NO_DISTANCE};
use heaplab_snapshot::{Edge, Node};
use heaplab_text::lines::cut;
use heaplab_text::words::{bytes, count};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// Characters of a class's name.
pub(super) const CLASS_CHARACTERS: usize = 300;

/// Orders of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Retained,
    Shallow,
    Distance,
    /// Objects of a class; one object has its retained size instead.
    Count,
    Name,
}

/// A column, and whether its largest values come first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub column: Column,
    pub is_descending: bool,
}

impl Order {
    /// Reads `sort=retained` and `descending=0`.
    pub fn of(asked: &Asked) -> Result<Order, Problem> {
        let column = match asked.text("sort") {
            "" | "retained" => Column::Retained,
            "shallow" => Column::Shallow,
            "distance" => Column::Distance,
            "count" => Column::Count,
            "name" => Column::Name,
            other => return Err(Problem::Asked(format!("rows are not sorted by {other:?}"))),
        };
        Ok(Order { column, is_descending: asked.number("descending", 1_u8)? != 0 })
    }

    /// The sort key of an object in a numeric column, least first.
    pub fn key(&self, analysis: &Analysis, node: Node) -> u64 {
        let key = match self.column {
            Column::Retained | Column::Count => analysis.retained_size(node),
            Column::Shallow => analysis.self_size(node),
            Column::Distance => match analysis.distance(node) {
                NO_DISTANCE => u64::from(u32::MAX),
                distance => distance as u64,
            },
            Column::Name => u64::from(node),
        };
        if self.is_descending { u64::MAX - key } else { key }
    }
}

/// Items from index `from` on, by `key`; equal items keep their order.
pub(super) fn window<T: Copy, K: Ord + Copy>(
    items: impl IntoIterator<Item = T>,
    (from, rows): (usize, usize),
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    let until = from.saturating_add(rows).clamp(1, usize::MAX / 2);
    let mut first: Vec<(K, usize, T)> = Vec::new();
    // Once enough items are kept, only smaller keys can enter.
    let mut below: Option<(K, usize)> = None;
    let place = |item: &(K, usize, T)| (item.0, item.1);
    for (number, item) in items.into_iter().enumerate() {
        let key = key(&item);
        if below.is_some_and(|below| (key, number) > below) {
            continue;
        }
        first.push((key, number, item));
        if first.len() == 2 * until {
            let (_, last, _) = first.select_nth_unstable_by_key(until - 1, place);
            below = Some(place(last));
            first.truncate(until);
        }
    }
    first.sort_unstable_by_key(place);
    first.into_iter().skip(from).take(rows).map(|(_, _, item)| item).collect()
}

/// Objects in view, in their order.
pub(super) fn objects_window(
    analysis: &Analysis,
    nodes: Vec<Node>,
    order: Order,
    (from, rows): (usize, usize),
) -> Vec<Node> {
    if order.column == Column::Name {
        let until = from.saturating_add(rows);
        let first = analysis.first_by_name(&nodes, until, order.is_descending);
        return first.into_iter().skip(from).map(|place| nodes[place as usize]).collect();
    }
    window(nodes, (from, rows), |node| order.key(analysis, *node))
}

/// Classes in view, in their order; those with equal numbers by their names.
pub(super) fn classes_window(
    classes: Vec<(u32, &Class)>,
    order: Order,
    in_view: (usize, usize),
) -> Vec<(u32, &Class)> {
    let number = |class: &Class| match order.column {
        Column::Retained => class.retained_size as i64,
        Column::Shallow => class.self_size as i64,
        Column::Distance => i64::from(class.distance),
        Column::Count => class.count as i64,
        Column::Name => 0,
    };
    if order.column == Column::Name && order.is_descending {
        return window(classes, in_view, |(_, class)| Reverse(&class.name[..]));
    }
    let sign = if order.is_descending { -1 } else { 1 };
    window(classes, in_view, |(_, class)| (sign * number(class), &class.name[..]))
}

/// A class's name, which may have megabytes.
pub(super) fn class_label(class: &Class) -> String {
    cut(&class.text(), CLASS_CHARACTERS)
}

/// A size: as text, as its share of all, and exactly.
pub(super) fn size(size: u64, total: u64) -> Value {
    let percent = if total == 0 { 0.0 } else { size as f64 * 100.0 / total as f64 };
    json!({"text": bytes(size), "percent": percent, "exact": format!("{} bytes", count(size))})
}

/// An object as a row.
pub(super) fn object(analysis: &Analysis, node: Node) -> Value {
    let snapshot = analysis.snapshot();
    let total = analysis.total_bytes();
    json!({
        "node": node,
        "label": label(analysis, node),
        "type": snapshot.node_type_name(snapshot.graph.node_type(node)),
        "class": class_label(&analysis.classes()[analysis.class_of(node) as usize]),
        "distance": distance(analysis.distance(node)),
        "shallow": size(analysis.self_size(node), total),
        "retained": size(analysis.retained_size(node), total),
        "detached": analysis.detachedness(node) == 2,
        "leaf": snapshot.graph.edges(node).is_empty(),
    })
}

/// An object as a row, behind the reference to it or from it.
pub(super) fn referred(analysis: &Analysis, edge: Edge, node: Node) -> Value {
    let mut row = object(analysis, node);
    row["edge"] = edge_json(analysis, edge);
    row
}

/// Rows and how many there are in all.
pub(super) fn answer(total: usize, rows: Vec<Value>) -> Value {
    json!({"total": total, "total_text": count(total as u64), "rows": rows})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_that_of_all_rows_sorted() {
        let items: Vec<u32> =
            (0..1000_u32).map(|item| item.wrapping_mul(2_654_435_761) % 97).collect();
        let numbered: Vec<(usize, u32)> = items.into_iter().enumerate().collect();
        let mut sorted = numbered.clone();
        sorted.sort_by_key(|(_, key)| *key);
        for (from, rows) in [(0, 0), (0, 1), (0, 10), (5, 20), (990, 100), (0, 2000), (3000, 5)] {
            let expected: Vec<_> = sorted.iter().copied().skip(from).take(rows).collect();
            assert_eq!(window(numbered.clone(), (from, rows), |(_, key)| *key), expected);
        }
        assert!(window(Vec::<u8>::new(), (usize::MAX, usize::MAX), |item| *item).is_empty());
    }
}
