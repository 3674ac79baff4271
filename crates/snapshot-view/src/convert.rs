//! The losses of a conversion: data that the other format has no place for.

use heaplab_snapshot::rewrite::Lost;
use heaplab_text::lines::cut;
use heaplab_text::words::count as number;
use serde_json::{Map, Value, json};

/// Characters shown of an unknown name.
const TEXT_CHARACTERS: usize = 30;

/// The losses as JSON.
pub fn json(lost: &Lost) -> Value {
    let hidden: Map<String, Value> =
        lost.hidden.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
    json!({
        "types": hidden, "attached": lost.attached, "detached": lost.detached, "detached_by_name": lost.detached_by_name,
        "allocated": lost.allocated, "scopes": lost.scopes, "scope_variables": lost.scope_variables, "scope_uses": lost.scope_uses,
        "script_objects": lost.script_objects, "extra_native_bytes": lost.extra_native_bytes, "unknown": lost.unknown,
    })
}

/// Names of unknown columns and lists that are shown.
const UNKNOWN_SHOWN: usize = 5;

/// The losses in words, one piece each.
pub fn losses(lost: &Lost) -> Vec<String> {
    let of_type = |(name, count): &(String, u64)| {
        (*count, format!("the type `{name}` of # node"), ", hidden there")
    };
    let counts = [
        (lost.attached, "the state `attached` of # node".into(), ""),
        (lost.detached, "the state `detached` of # node".into(), ""),
        (
            lost.detached_by_name,
            "the state `detached` of # native node".into(),
            " that only the name tells",
        ),
        (lost.allocated, "the place of allocation of # node".into(), ""),
        (lost.scopes, "# scope".into(), " of scripts"),
        (lost.scope_variables, "# variable".into(), " of scopes"),
        (lost.scope_uses, "# use".into(), " of variables"),
        (lost.script_objects, "the script's node of # location".into(), ""),
        (lost.extra_native_bytes, "# byte".into(), " outside of the heap"),
    ];
    let counts = lost.hidden.iter().map(of_type).chain(counts).filter(|(count, ..)| *count > 0);
    let mut losses: Vec<String> = counts
        .map(|(count, what, more)| {
            format!(
                "{}{}{more}",
                what.replace('#', &number(count)),
                if count == 1 { "" } else { "s" }
            )
        })
        .collect();
    if !lost.unknown.is_empty() {
        let shown: Vec<String> = lost
            .unknown
            .iter()
            .take(UNKNOWN_SHOWN)
            .map(|name| format!("`{}`", cut(name, TEXT_CHARACTERS)))
            .collect();
        let more = if lost.unknown.len() > shown.len() { ", ..." } else { "" };
        losses.push(format!(
            "what heaplab does not know: {}{more} ({})",
            shown.join(", "),
            number(lost.unknown.len() as u64)
        ));
    }
    losses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_is_a_piece_with_its_count() {
        assert!(losses(&Lost::default()).is_empty());
        let lost = Lost {
            hidden: vec![("object shape".into(), 1234), ("wasm object".into(), 1)],
            detached: 1,
            scope_uses: 2,
            extra_native_bytes: 1,
            unknown: vec!["nodes.a\u{1b}".into(); 6],
            ..Lost::default()
        };
        let said = losses(&lost).join("; ");
        let expected = "the type `object shape` of 1,234 nodes, hidden there; the type `wasm object` of 1 node, hidden there; the state `detached` of 1 node; \
                        2 uses of variables; 1 byte outside of the heap; what heaplab does not know: ";
        assert!(
            said.starts_with(expected) && said.ends_with(", ... (6)") && !said.contains('\u{1b}'),
            "{said}"
        );
    }
}
