//! The answer to an asker: JSON in about:memory's file format, with a key of `heaplab`'s own.
//!
//! Written by hand, because a program that links reporters gets no serde.

use crate::measure::has_usable_size;
use crate::registry::Collected;
use std::fmt::Write;
use std::time::Duration;

/// The collected reports as one JSON object. `callbacks`: number of pressure callbacks that ran
/// before. `marks`: names of the marks that are kept, and the time since each.
pub(crate) fn json(
    collected: &Collected,
    callbacks: Option<usize>,
    marks: &[(String, Duration)],
) -> String {
    let mut text =
        format!("{{\"version\":1,\"hasMozMallocUsableSize\":{},\"reports\":[", has_usable_size());
    let process = process();
    for (index, report) in collected.reports.iter().enumerate() {
        text.push_str(if index > 0 { ",\n{\"process\":" } else { "\n{\"process\":" });
        push_string(&mut text, &process);
        text.push_str(",\"path\":");
        push_string(&mut text, &report.path);
        let (kind, units) = (report.kind as u8, report.units as u8);
        push(&mut text, format_args!(",\"kind\":{kind},\"units\":{units},"));
        push(&mut text, format_args!("\"amount\":{},\"description\":", report.amount));
        push_string(&mut text, &report.description);
        text.push('}');
    }
    text.push_str("\n],\"heaplab\":{\"errors\":[");
    for (index, error) in collected.errors.iter().enumerate() {
        text.push_str(if index > 0 { "," } else { "" });
        push_string(&mut text, error);
    }
    text.push(']');
    for (index, (name, since)) in marks.iter().enumerate() {
        text.push_str(if index > 0 { ",{\"name\":" } else { ",\"marks\":[{\"name\":" });
        push_string(&mut text, name);
        push(&mut text, format_args!(",\"seconds_ago\":{:.3}}}", since.as_secs_f64()));
    }
    text.push_str(if marks.is_empty() { "" } else { "]" });
    if let Some(callbacks) = callbacks {
        push(&mut text, format_args!(",\"callbacks\":{callbacks}"));
    }
    text.push_str("}}\n");
    text
}

/// Says why there is no other answer.
pub(crate) fn refusal(why: &str) -> String {
    let mut text = String::from("{\"refused\":");
    push_string(&mut text, why);
    text.push_str("}\n");
    text
}

/// `name (pid 4711)`: about:memory's comparisons match processes of several runs by this form.
fn process() -> String {
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    let name = String::from_utf8_lossy(&name).trim_end().to_owned();
    format!("{} (pid {})", if name.is_empty() { "program" } else { &name }, std::process::id())
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
}

fn push_string(text: &mut String, value: &str) {
    text.push('"');
    for letter in value.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            letter if (letter as u32) < 0x20 => {
                push(text, format_args!("\\u{:04x}", letter as u32));
            }
            letter => text.push(letter),
        }
    }
    text.push('"');
}
