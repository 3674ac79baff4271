//! Results of assertions about a heap.

use heaplab_snapshot::query::assertion::{Asked, Assertion, Checked, Unit};
use heaplab_text::lines;
use heaplab_text::words::{bytes, count as number};
use serde_json::{Value, json};

/// A value as text.
fn shown(asked: &Asked) -> String {
    let whole = asked.value as u64;
    if asked.unit == Unit::Bytes {
        format!("{} ({} bytes)", bytes(whole), number(whole))
    } else if asked.value.is_infinite() {
        "infinite: there is no such object".into()
    } else if asked.value < 0.0 && asked.unit == Unit::Steps {
        format!("{}: nothing leads there", asked.value)
    } else if asked.value < 0.0 {
        format!("{}", asked.value)
    } else {
        number(whole)
    }
}

/// The values that an assertion asked for, a line each.
pub fn values(checked: &Checked) -> Vec<String> {
    checked.asked.iter().map(|asked| format!("{} is {}", asked.call, shown(asked))).collect()
}

/// A value as JSON: a whole number, or null for the distance of no object.
fn value_json(asked: &Asked) -> Value {
    if asked.value.is_finite() { json!(asked.value as i64) } else { Value::Null }
}

/// The results as JSON; `unknown`: classes without an object.
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

/// The results as text, `columns` wide.
pub fn text(assertions: &[Assertion], checked: &[Checked], columns: usize) -> String {
    let mut text = String::new();
    for (assertion, checked) in assertions.iter().zip(checked) {
        let holds = if checked.holds { "holds   " } else { "FAILED  " };
        text += &lines::paragraph(assertion.text(), holds, holds.len(), columns);
        for value in values(checked) {
            text += &format!("        {value}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_nothing_are_said_in_words() {
        let shown = |value, unit| shown(&Asked { call: String::new(), value, unit });
        assert_eq!(shown(3.0, Unit::Steps), "3");
        assert_eq!(shown(-5.0, Unit::Steps), "-5: nothing leads there");
        assert_eq!(shown(-5.0, Unit::Objects), "-5");
        assert!(shown(f64::INFINITY, Unit::Steps).contains("no such object"));
    }
}
