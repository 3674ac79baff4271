//! The data that a repaired file lacks.

use heaplab_snapshot::rewrite::Repaired;
use heaplab_text::words::count as number;
use serde_json::{Value, json};

/// The missing data as JSON.
pub fn json(repaired: &Repaired) -> Value {
    json!({
        "nodes": repaired.nodes.0, "nodes_declared": repaired.nodes.1, "edges": repaired.edges.0, "edges_declared": repaired.edges.1,
        "strings": repaired.strings, "lost_names": repaired.lost_names,
        "lost_lists": repaired.lost_lists.iter().map(|list| list.key()).collect::<Vec<_>>(),
        "damage": repaired.damage.as_ref().map(ToString::to_string),
    })
}

/// The missing data in a sentence.
pub fn text(repaired: &Repaired) -> String {
    let mut missing = Vec::new();
    for (what, (kept, declared)) in [("objects", repaired.nodes), ("references", repaired.edges)] {
        if kept < declared {
            missing.push(format!("{} of {} {what}", number(declared - kept), number(declared)));
        }
    }
    match repaired.lost_names {
        0 => {}
        1 => missing.push("1 name".into()),
        names => missing.push(format!("{} names", number(names))),
    }
    if !repaired.lost_lists.is_empty() {
        let lists: Vec<String> =
            repaired.lost_lists.iter().map(|list| format!("`{}`", list.key())).collect();
        missing.push(format!("all or the end of {}", lists.join(", ")));
    }
    match (&repaired.damage, missing.is_empty()) {
        (None, false) => format!("missing: {}", missing.join("; ")),
        (None, true) => "the file was good: nothing is missing".into(),
        (Some(_), true) => "nothing is missing: only its end was gone".into(),
        (Some(damage), false) => format!("missing: {} ({damage})", missing.join("; ")),
    }
}
