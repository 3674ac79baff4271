//! Objects and references as every command shows them: one line of text, or one object of JSON.

use heaplab_snapshot::analysis::{Analysis, BASE_SYSTEM_DISTANCE, NO_DISTANCE};
use heaplab_snapshot::{Edge, EdgeType, Node};
use heaplab_text::lines;
use heaplab_text::lines::{cut, one_line};
use heaplab_text::words::bytes;
use serde_json::{Value, json};

/// Characters shown of a string's content on a line.
const CONTENT_CHARACTERS: usize = 60;
/// Characters of the content that stay on the narrowest line.
const CONTENT_CHARACTERS_MIN: usize = 8;
/// Characters of a name in JSON: strings may have megabytes.
const JSON_CHARACTERS: usize = 1024;

/// A distance as DevTools shows it: `-` for an object reached only through internals, or not at
/// all.
pub fn distance(distance: i32) -> String {
    if distance == NO_DISTANCE || distance >= BASE_SYSTEM_DISTANCE {
        "-".into()
    } else {
        distance.to_string()
    }
}

/// A size with its share of the total.
pub fn share(size: u64, total: u64) -> String {
    let percent = if total == 0 { 0.0 } else { size as f64 * 100.0 / total as f64 };
    format!("{} {percent:3.0} %", bytes(size))
}

/// `Session @4711`, `"content" @5`, `{id, name} @7`.
pub fn label(analysis: &Analysis, node: Node) -> String {
    named(analysis, node, CONTENT_CHARACTERS)
}

/// Like [`label`], `columns` wide: the name is shortened to no less than its first letters, and the
/// id stays.
pub fn label_within(analysis: &Analysis, node: Node, columns: usize) -> String {
    let whole = label(analysis, node);
    let beyond = whole.chars().count().saturating_sub(columns);
    if beyond == 0 {
        return whole;
    }
    let name = cut(&analysis.name(node), CONTENT_CHARACTERS).chars().count();
    named(analysis, node, name.saturating_sub(beyond).max(CONTENT_CHARACTERS_MIN))
}

fn named(analysis: &Analysis, node: Node, characters: usize) -> String {
    let snapshot = analysis.snapshot();
    let kind = snapshot.node_type_name(snapshot.graph.node_type(node));
    let shown = cut(&analysis.name(node), characters);
    let id = snapshot.graph.id(node);
    match kind {
        "string" | "concatenated string" | "sliced string" => format!("\"{shown}\" @{id}"),
        "closure" => format!("{}() @{id}", if shown.is_empty() { "anonymous" } else { &shown }),
        "object" | "native" | "synthetic" => {
            let shown = if shown.is_empty() { "(no name)" } else { &shown };
            format!("{shown} @{id}")
        }
        _ if shown.is_empty() => format!("({kind}) @{id}"),
        _ => format!("{shown} ({kind}) @{id}"),
    }
}

/// `.name`, `[3]`, `context.name`, `(internal map)`: the reference as a step from its object.
pub fn step(analysis: &Analysis, edge: Edge) -> String {
    let graph = &analysis.snapshot().graph;
    let shown = one_line(&analysis.edge_name(edge));
    match graph.edge_type(edge) {
        EdgeType::Element => format!("[{shown}]"),
        EdgeType::Property | EdgeType::Shortcut if is_identifier(&shown) => format!(".{shown}"),
        EdgeType::Property | EdgeType::Shortcut => format!("[{:?}]", shown),
        EdgeType::Context => format!(".{shown} (variable)"),
        EdgeType::Weak => format!(".{shown} (weak)"),
        other => format!(".{shown} ({})", analysis.snapshot().edge_type_name(other)),
    }
}

fn is_identifier(text: &str) -> bool {
    let mut characters = text.chars();
    let first = characters
        .next()
        .is_some_and(|first| first.is_alphabetic() || first == '_' || first == '$');
    first && characters.all(|each| each.is_alphanumeric() || each == '_' || each == '$')
}

/// The object in JSON.
pub fn node_json(analysis: &Analysis, node: Node) -> Value {
    let snapshot = analysis.snapshot();
    let graph = &snapshot.graph;
    json!({
        "id": graph.id(node),
        "type": snapshot.node_type_name(graph.node_type(node)),
        "name": analysis.name(node).chars().take(JSON_CHARACTERS).collect::<String>(),
        "class": analysis.classes()[analysis.class_of(node) as usize].text(),
        "shallow_bytes": analysis.self_size(node),
        "retained_bytes": analysis.retained_size(node),
        "distance": analysis.distance(node),
        "detachedness": (["unknown", "attached", "detached"]).get(usize::from(analysis.detachedness(node))),
    })
}

/// The reference in JSON.
pub fn edge_json(analysis: &Analysis, edge: Edge) -> Value {
    let snapshot = analysis.snapshot();
    let name: String = analysis.edge_name(edge).chars().take(JSON_CHARACTERS).collect();
    json!({"name": name, "type": snapshot.edge_type_name(snapshot.graph.edge_type(edge))})
}

/// The first lines about an object: its label, class and sizes.
pub fn heading(analysis: &Analysis, node: Node, columns: usize) -> String {
    let snapshot = analysis.snapshot();
    let class = analysis.classes()[analysis.class_of(node) as usize].text();
    let kind = snapshot.node_type_name(snapshot.graph.node_type(node));
    let detached = if analysis.detachedness(node) == 2 { ", detached" } else { "" };
    let what = format!(
        "{kind} of class {}{detached}; shallow {}, retained {}, distance {}",
        cut(&class, columns - "native of class ".len()),
        bytes(analysis.self_size(node)),
        bytes(analysis.retained_size(node)),
        distance(analysis.distance(node)),
    );
    format!(
        "{}\n{}",
        label_within(analysis, node, columns),
        lines::paragraph(&what, "", 0, columns)
    )
}
