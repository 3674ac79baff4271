//! The Summary: classes, the objects of one, both under a filter; and the objects that a search
//! finds.

use super::Page;
use super::parameters::{Asked, Problem};
use super::rows::{self, Order};
use crate::rows::distance;
use heaplab_snapshot::Node;
use heaplab_snapshot::analysis::{Analysis, Class};
use heaplab_snapshot::query::subject::Subject;
use heaplab_text::words::count;
use serde_json::{Value, json};

/// Classes whose name contains `text`, counted under `filter`.
pub(super) fn classes(page: &Page, file: usize, asked: &Asked) -> Result<Value, Problem> {
    let analysis = page.files[file].analysis;
    let filtered = match asked.text("filter") {
        "" => None,
        words => Some(page.filtered(file, words)?),
    };
    let all = filtered.as_ref().map_or(analysis.classes(), |filtered| &filtered.classes);
    let text = asked.text("text").to_lowercase();
    let classes: Vec<(u32, &Class)> = (0..)
        .zip(all)
        .filter(|(_, class)| class.count > 0 && !class.shadowed)
        .filter(|(_, class)| text.is_empty() || class.text().to_lowercase().contains(&text))
        .collect();
    let found = classes.len();
    let shown = rows::classes_window(classes, Order::of(asked)?, asked.window()?);
    let total = analysis.total_bytes();
    let row = |(number, class): &(u32, &Class)| {
        json!({
            "class": number,
            "label": rows::class_label(class),
            "place": class.place.map(|place| analysis.scripts().place(place)),
            "count": count(class.count),
            "distance": distance(class.distance),
            "shallow": rows::size(class.self_size, total),
            "retained": rows::size(class.retained_size, total),
        })
    };
    Ok(rows::answer(found, shown.iter().map(row).collect()))
}

/// The objects of a class, under `filter`.
pub(super) fn members(page: &Page, file: usize, asked: &Asked) -> Result<Value, Problem> {
    let analysis = page.files[file].analysis;
    let class: u32 = asked.number("class", u32::MAX)?;
    let filtered = match asked.text("filter") {
        "" => None,
        words => Some(page.filtered(file, words)?),
    };
    let passes = |node: Node| {
        let filter = filtered.as_ref();
        filter.is_none_or(|filtered| filtered.nodes.contains(node))
    };
    let graph = &analysis.snapshot().graph;
    // DevTools shows no objects without a size.
    let nodes: Vec<Node> = graph
        .nodes()
        .filter(|node| analysis.class_of(*node) == class && analysis.self_size(*node) != 0)
        .filter(|node| passes(*node))
        .collect();
    objects(analysis, nodes, asked)
}

/// Objects whose name contains `text`, or the object with the id `@4711`.
pub(super) fn search(analysis: &Analysis, asked: &Asked) -> Result<Value, Problem> {
    let text = asked.text("text");
    let nodes = match text.starts_with('@').then(|| text.parse()) {
        Some(Ok(Subject::Object(id))) => {
            analysis.snapshot().graph.node_by_id(id).into_iter().collect()
        }
        _ if text.is_empty() => Vec::new(),
        _ => analysis.search(text, asked.number("case", 0_u8)? != 0),
    };
    objects(analysis, nodes, asked)
}

fn objects(analysis: &Analysis, nodes: Vec<Node>, asked: &Asked) -> Result<Value, Problem> {
    let (total, order) = (nodes.len(), Order::of(asked)?);
    let shown = rows::objects_window(analysis, nodes, order, asked.window()?);
    Ok(rows::answer(total, shown.into_iter().map(|node| rows::object(analysis, node)).collect()))
}
