//! One object in full, and a heap's bytes by kind.

use super::parameters::{Asked, Problem};
use super::rows;
use crate::object::{allocated_by, place};
use crate::summary::kinds;
use heaplab_snapshot::analysis::Analysis;
use heaplab_text::lines::cut;
use heaplab_text::words::bytes;
use serde_json::{Value, json};

/// Characters of a name that are shown in full.
const NAME_CHARACTERS: usize = 10_000;

/// An object, its place of birth, and the chain of its retainers, the nearest first.
pub(super) fn object(analysis: &Analysis, asked: &Asked) -> Result<Value, Problem> {
    let node = asked.node(analysis)?;
    let mut row = rows::object(analysis, node);
    row["name"] = cut(&analysis.name(node), NAME_CHARACTERS).into();
    row["place"] = json!(place(analysis, node).map(|place| analysis.scripts().place(place)));
    row["allocated_by"] = json!(allocated_by(analysis, node));
    let above = analysis.dominator_chain(node);
    row["dominators"] =
        above[1..].iter().map(|node| rows::object(analysis, *node)).collect::<Vec<_>>().into();
    Ok(row)
}

/// Bytes by kind, as DevTools' Statistics: names and sizes that add up to all.
pub(super) fn statistics(analysis: &Analysis) -> Value {
    let sums = analysis.statistics();
    let total = sums.total_bytes;
    let row = |(name, size): &(&str, u64)| {
        let share = if total == 0 { 0.0 } else { *size as f64 / total as f64 };
        json!({"name": name, "text": bytes(*size), "share": share})
    };
    kinds(&sums).iter().map(row).collect()
}
