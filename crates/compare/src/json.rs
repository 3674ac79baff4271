//! The comparison as one JSON document (docs/compare-json.md).

use crate::Comparison;
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// The document, with a line break at its end.
///
/// # Errors
/// None: numbers, strings and lists always become JSON.
pub fn document(comparison: &Comparison) -> serde_json::Result<String> {
    let document = Document { format: "heaplab-compare", version: 1, comparison };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
