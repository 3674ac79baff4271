//! Assertions about a heap, and what they came to.

use heaplab_snapshot::query::assertion::{Asked, Assertion, Checked};
use heaplab_text::lines;
use heaplab_text::words::{bytes, count as number};
use serde_json::{Value, json};

/// A value as text.
pub fn shown(asked: &Asked) -> String {
    let whole = asked.value as u64;
    if asked.is_bytes {
        format!("{} ({} bytes)", bytes(whole), number(whole))
    } else if asked.value.is_infinite() {
        "infinite: there is no such object".into()
    } else if asked.value < 0.0 && asked.call.starts_with("distance") {
        format!("{}: nothing leads there", asked.value)
    } else if asked.value < 0.0 {
        format!("{}", asked.value)
    } else {
        number(whole)
    }
}

/// A value for machines: a whole number where there is one, null for the distance of no object.
fn value_json(asked: &Asked) -> Value {
    if asked.value.is_finite() { json!(asked.value as i64) } else { Value::Null }
}

/// For a machine; `unknown` are classes that no object is of.
pub fn json(assertions: &[Assertion], checked: &[Checked], unknown: &[&str]) -> Value {
    let row = |(assertion, checked): (&Assertion, &Checked)| {
        let value = |asked: &Asked| json!({"call": asked.call, "value": value_json(asked)});
        let values: Vec<_> = checked.asked.iter().map(value).collect();
        json!({"assertion": assertion.text(), "holds": checked.holds, "values": values})
    };
    let failed = checked.iter().filter(|checked| !checked.holds).count();
    let rows: Vec<_> = assertions.iter().zip(checked).map(row).collect();
    json!({
        "format": "heaplab-snapshot-check", "version": 1, "failed": failed, "assertions": rows,
        "unknown_classes": unknown,
    })
}

/// For a terminal of so many columns.
pub fn text(assertions: &[Assertion], checked: &[Checked], columns: usize) -> String {
    let mut text = String::new();
    for (assertion, Checked { holds, asked }) in assertions.iter().zip(checked) {
        let holds = if *holds { "holds   " } else { "FAILED  " };
        text += &lines::paragraph(assertion.text(), holds, holds.len(), columns);
        for each in asked {
            text += &format!("        {} is {}\n", each.call, shown(each));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_nothing_are_said_in_words() {
        let shown = |call: &str, value| shown(&Asked { call: call.into(), value, is_bytes: false });
        assert_eq!(shown("distance(Cache)", 3.0), "3");
        assert_eq!(shown("distance(Cache)", -5.0), "-5: nothing leads there");
        assert_eq!(shown("added(Cache)", -5.0), "-5");
        assert!(shown("distance(Cache)", f64::INFINITY).contains("no such object"));
    }
}
